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
func queuesThatReclaim(nodes, queues int) *world {
	w := newWorld(fmt.Sprintf(`queue train {"A":%d} 20000 training cpu=100000`, 8*nodes))
	var text strings.Builder
	for i := range nodes {
		fmt.Fprintf(&text, "node n%04d A 8; t%04d train 8: n%04d*8 ran=24h\n", i, i, i)
	}
	for i := range queues {
		fmt.Fprintf(&text, "queue i%03d {\"A\":8} 80000 inference cpu=1000; w%03d i%03d 1: - cards=8\n", i, i, i)
	}
	w.add(text.String())
	w.alone = true
	return w
}

// TestQueuesOfOneTypeShareVictimJobs: the jobs that may be evicted are listed once, however many queues
// reclaim. In flat queues only the service type and the priority of the queue decide.
func TestQueuesOfOneTypeShareVictimJobs(t *testing.T) {
	w := queuesThatReclaim(6, 5)
	w.add(`queue high {"A":8} 90000 inference cpu=1000; h high 1: - cards=8`)
	w.openSession()
	t.Cleanup(w.Close)

	policy, _ := cards.ReclaimPolicyFor(w.Ssn.UID)
	rs := newReclaimSession(w.Ssn, policy, w.action)
	for _, job := range []string{"w000", "w001", "w002", "h"} {
		rs.startJob(len(rs.nodes))
		rs.placeJob(w.Job(job))
	}

	check.Equal(t, "pods that are pipelined", 4, len(w.In(api.Pipelined)))
	check.Equal(t, "lists of victim jobs", 2, len(rs.victimJobs))
}

// TestQueuesOfOneTypeKeepTheirOwnJobs: queues that share their victim jobs do not reclaim from each
// other, nor from a queue of equal priority.
func TestQueuesOfOneTypeKeepTheirOwnJobs(t *testing.T) {
	w := newWorld(`queue other PLENTY 80000 inference cpu=1000; queue equal PLENTY 80000 training cpu=1000
		node n A 8; a other 2: n*2 ran=1h; b inf 2: n*2 ran=1h; e equal 2: n*2 ran=1h; t tra 1: n ran=24h; u tra 1: n ran=24h; x inf 1: -; y other 1: -`)
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
		before := time.Now()
		w.Run(w.action)
		took := time.Since(before)
		placed := len(w.In(api.Pipelined))

		waits := w.action.fairOrder.isScarce
		rests := !w.action.restsUntil.IsZero()
		if placed != queues || waits || rests {
			b.Errorf("%d of %d queues are served in %s, others wait for their turn: %v, the action rests: %v", placed, queues, took, waits, rests)
		}

		return took
	}

	one := serve(1)
	all := serve(200)
	times := all.Seconds() / one.Seconds()
	if times > mostTimesOneQueue {
		b.Errorf("200 queues take %.0f times as long as one, at most %d times is allowed", times, mostTimesOneQueue)
	}

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(all.Seconds()*1000, "queues-ms")
	b.ReportMetric(times, "times-one-queue")
}
