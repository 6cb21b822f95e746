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

// newSceneOfQueuesThatReclaim returns a scene of nodes with 8 cards, which training gangs fill, and of inference queues
// i000, i001 … of priority 80000. In each of these one job w000, w001 … waits, whose pod needs the 8 cards of a node.
func newSceneOfQueuesThatReclaim(nodes, queues int) *scene {
	s := newInferenceAndTrainingScene(fmt.Sprintf(`queue train quota={"A":%d} priority=20000 serviceType=training cpu=100000`, 8*nodes))
	var text strings.Builder
	for i := range nodes {
		fmt.Fprintf(&text, "node n%04[1]d model=A cards=8; job t%04[1]d queue=train min=8 running=n%04[1]d*8 age=24h\n", i)
	}
	for i := range queues {
		fmt.Fprintf(&text, "queue i%03[1]d quota={\"A\":8} priority=80000 serviceType=inference cpu=1000; job w%03[1]d queue=i%03[1]d min=1 pending=1 cards=8\n", i)
	}
	s.add(text.String())
	s.withoutAllocate = true // no card is free, so it would place no pod
	return s
}

// TestQueuesOfOneTypeShareTheListOfVictims: in flat queues only the service type and the priority of a queue decide which
// jobs it may evict. So the session lists the victims once for all inference queues of priority 80000, and once more for
// the queue of priority 90000. Four jobs get the cards of a node each, so 4 of the 6 nodes are reclaimed.
func TestQueuesOfOneTypeShareTheListOfVictims(t *testing.T) {
	s := newSceneOfQueuesThatReclaim(6, 5) // 6 full nodes, and jobs w000 to w004 in 5 inference queues
	s.add(`
		queue high quota={"A":8} priority=90000 serviceType=inference cpu=1000
		job h queue=high min=1 pending=1 cards=8`)
	rs := s.openSearch(t)
	for _, job := range []string{"w000", "w001", "w002", "h"} {
		rs.placeWithFullBudget(s.Job(job))
	}

	check.Equal(t, "placed pods", 4, len(s.In(api.Pipelined)))
	check.Equal(t, "lists of victims", 2, len(rs.victims.victimJobs))
}

// TestQueuesOfOneTypeReclaimNothingFromEachOther: the queues inference and other share the list of victims. It
// has no job of either queue, nor one of queue equal, which has the same priority. The waiting pods x-0 and y-0
// get the cards of the two training pods of lower priority.
func TestQueuesOfOneTypeReclaimNothingFromEachOther(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue other quota=1000 priority=80000 serviceType=inference cpu=1000
		queue equal quota=1000 priority=80000 serviceType=training cpu=1000
		node n model=A cards=8
		job a queue=other min=2 running=n*2 age=1h
		job b queue=inference min=2 running=n*2 age=1h
		job e queue=equal min=2 running=n*2 age=1h
		job t queue=training min=1 running=n age=24h
		job u queue=training min=1 running=n age=24h
		job x queue=inference min=1 pending=1
		job y queue=other min=1 pending=1`)

	s.runSession(t).expectEvictedAndPlaced(t, "t-0 u-0", "x-0@n y-0@n")
}

// BenchmarkQueues reclaims the cards of a node for one pod of each of 200 inference queues, on a cluster of 1,000 full
// nodes. One session must serve all queues, and leave nothing for later ones. It may take at most 150 times as long as
// for one queue.
func BenchmarkQueues(b *testing.B) {
	const maxTimesOneQueue = 150
	serve := func(queues int) time.Duration {
		s := newSceneOfQueuesThatReclaim(1000, queues).openSession()
		defer s.Close()

		runtime.GC()
		took := s.timeAction()
		check.Equal(b, "queues that are served", queues, len(s.In(api.Pipelined)))
		check.That(b, !s.search.fairOrder.isScarce, "jobs wait for their turn after %s", took)
		check.That(b, s.search.restsUntil.IsZero(), "the action rests after %s", took)
		return took
	}

	one := serve(1)
	all := serve(200)
	times := all.Seconds() / one.Seconds()
	check.That(b, times <= maxTimesOneQueue, "200 queues take %.0f times as long as one, at most %d times is allowed", times, maxTimesOneQueue)

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(all.Seconds()*1000, "queues-ms")
	b.ReportMetric(times, "times-one-queue")
}
