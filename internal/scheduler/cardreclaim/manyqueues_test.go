package cardreclaim

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// queuesThatReclaim is a cluster of nodes that training fills, and of inference queues of which one pod
// each waits for a node.
func queuesThatReclaim(nodes, queues int) *scene {
	w := newScene(fmt.Sprintf(`queue train quota={"A":%d} priority=20000 serviceType=training cpu=100000`, 8*nodes))
	var text strings.Builder
	for i := range nodes {
		fmt.Fprintf(&text, "node n%04d model=A cards=8; job t%04d queue=train min=8 running=n%04d*8 age=24h\n", i, i, i)
	}
	for i := range queues {
		fmt.Fprintf(&text, "queue i%03d quota={\"A\":8} priority=80000 serviceType=inference cpu=1000; job w%03d queue=i%03d min=1 pending=1 cards=8\n", i, i, i)
	}
	w.add(text.String())
	w.alone = true
	return w
}

// TestQueuesOfOneTypeShareVictimJobs: the jobs that may be evicted are listed once, however many queues
// reclaim. In flat queues only the service type and the priority of the queue decide.
func TestQueuesOfOneTypeShareVictimJobs(t *testing.T) {
	w := queuesThatReclaim(6, 5)
	w.add(`queue high quota={"A":8} priority=90000 serviceType=inference cpu=1000; job h queue=high min=1 pending=1 cards=8`)
	rs := w.search(t)
	for _, job := range []string{"w000", "w001", "w002", "h"} {
		rs.placeFirst(w.Job(job))
	}

	check.Equal(t, "pods that are pipelined", 4, len(w.In(api.Pipelined)))
	check.Equal(t, "lists of victim jobs", 2, len(rs.victimJobs))
}

// TestQueuesOfOneTypeKeepTheirOwnJobs: queues that share their victim jobs do not reclaim from each
// other, nor from a queue of equal priority.
func TestQueuesOfOneTypeKeepTheirOwnJobs(t *testing.T) {
	w := newScene(`queue other quota=PLENTY priority=80000 serviceType=inference cpu=1000; queue equal quota=PLENTY priority=80000 serviceType=training cpu=1000
		node n model=A cards=8; job a queue=other min=2 running=n*2 age=1h; job b queue=inf min=2 running=n*2 age=1h; job e queue=equal min=2 running=n*2 age=1h; job t queue=tra min=1 running=n age=24h; job u queue=tra min=1 running=n age=24h; job x queue=inf min=1 pending=1; job y queue=other min=1 pending=1`)
	w.runAction(t).expectEvictedAndPlaced(t, "t-0 u-0", "x-0@n y-0@n")
}

// mostTimesOneQueue is how many times as long as for one queue a session may take for 200.
const mostTimesOneQueue = 150

// BenchmarkQueues reclaims cards for one pod of each of 200 inference queues at 1,000 nodes. It fails
// if a queue is not served in the first session, if the action rests after it, or if that takes too
// long compared with one queue.
func BenchmarkQueues(b *testing.B) {
	serve := func(queues int) time.Duration {
		w := queuesThatReclaim(1000, queues)
		w.openSession()
		defer w.Close()

		runtime.GC()
		took := w.timeAction()
		check.Equal(b, "queues that are served", queues, len(w.In(api.Pipelined)))
		check.That(b, !w.action.fairOrder.isScarce && w.action.restsUntil.IsZero(), "jobs wait for their turn, or the action rests, after %s", took)
		return took
	}

	one := serve(1)
	all := serve(200)
	times := all.Seconds() / one.Seconds()
	check.That(b, times <= mostTimesOneQueue, "200 queues take %.0f times as long as one, at most %d times is allowed", times, mostTimesOneQueue)

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(all.Seconds()*1000, "queues-ms")
	b.ReportMetric(times, "times-one-queue")
}
