package cardreclaim

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// scattered is a cluster of nodes with eight cards, used by as many training gangs of eight
// pods over eight nodes. A gang of inference is pending: so many pods of eight cards, of so
// many kinds that differ in CPU.
func scattered(nodes, pods, kinds int) *scene { return scatteredGangs(nodes, 8, pods, kinds) }

// scatteredGangs has gangs of so many pods, each on a node of its own.
func scatteredGangs(nodes, size, pods, kinds int) *scene {
	return rankedGangs(nodes, size, 1, pods, kinds)
}

// rankedGangs has the gangs in queues of so many priorities in turn.
func rankedGangs(nodes, size, ranks, pods, kinds int) *scene {
	w := newScene("")
	plenty := fmt.Sprintf(`{"A":%d}`, 16*nodes)
	w.add(fmt.Sprintf("queue high quota=%s priority=90000 serviceType=inference cpu=1000000", plenty))
	for rank := range ranks {
		w.add(fmt.Sprintf("queue low%d quota=%s priority=%d serviceType=training cpu=1000000", rank, plenty, 10000+rank))
	}

	for _, q := range w.Queues {
		q.Spec.Capability["memory"] = amount("1Pi")
	}

	var text strings.Builder
	for i := range nodes {
		fmt.Fprintf(&text, "node n%05d model=A cards=8\n", i)
	}

	for i := range nodes * 8 / size {
		fmt.Fprintf(&text, "job t%05d queue=low%d min=%d", i, i%ranks, size)
		for k := range size {
			fmt.Fprintf(&text, " running=n%05d", (i*size/8+k*37)%nodes)
		}
		fmt.Fprintf(&text, " age=%dm\n", 10+(i*7919)%1440)
	}

	w.add(text.String())
	n := 0
	return w.add(fmt.Sprintf("job i queue=high min=%d pending=%d cards=8", pods, pods), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(fmt.Sprintf("%dm", 10+n%kinds))
		n++
	})
}

// TestKindsOnALargeCluster: a gang with pods of several kinds gets its cards in one session,
// however large the cluster is.
func TestKindsOnALargeCluster(t *testing.T) {
	w := scattered(1000, 32, 16)
	w.alone = true
	w.runAction(t)
	check.Equal(t, "pods that are pipelined", 32, len(w.In(api.Pipelined)))
}

// TestCutSearchHasEvent: a job has an event if its search ended at the budget, but not if no
// eviction helps it.
func TestCutSearchHasEvent(t *testing.T) {
	w := fullCluster(4, "job i queue=inf min=5 pending=5 cards=8", withOwnHostPorts())
	w.startCache()
	w.alone = true
	w.action.budget = budget{maxPerJob: 100_000, maxPerSession: 10_000_000}
	w.runAction(t).expectEvictedAndPlaced(t, "", "")
	events := eventsAbout(t, fmt.Sprintf("w%d-i", w.ID), eventSearchCut)
	check.That(t, len(events) == 1 && events[0].Type == "Warning" && strings.Contains(events[0].Message, "victims for 5 pending pod(s) was cut short"), "the event is %+v", events)
}
