package cardreclaim

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// largeScene describes a cluster of nodes with 8 cards, all used by training gangs.
type largeScene struct {
	nodes int
	// podsOfGang are the pods of each training gang, each on a node of its own. Their queues have so many priorities.
	podsOfGang, priorities int
	// waiting are the pods of 8 cards of the inference gang that waits, of so many kinds: they differ in CPU.
	waiting, kinds int
}

// newLargeScene returns the scene. The gang that waits is job i of queue high.
func newLargeScene(l largeScene) *scene {
	s := newInferenceAndTrainingScene("")
	plenty := fmt.Sprintf(`{"A":%d}`, 16*l.nodes)
	s.add(fmt.Sprintf("queue high quota=%s priority=90000 serviceType=inference cpu=1000000", plenty))
	for rank := range l.priorities {
		s.add(fmt.Sprintf("queue low%d quota=%s priority=%d serviceType=training cpu=1000000", rank, plenty, 10000+rank))
	}

	for _, q := range s.Queues {
		q.Spec.Capability["memory"] = amount("1Pi")
	}

	var text strings.Builder
	for i := range l.nodes {
		fmt.Fprintf(&text, "node n%05d model=A cards=8\n", i)
	}

	for i := range l.nodes * 8 / l.podsOfGang {
		fmt.Fprintf(&text, "job t%05d queue=low%d min=%d", i, i%l.priorities, l.podsOfGang)
		for k := range l.podsOfGang {
			fmt.Fprintf(&text, " running=n%05d", (i*l.podsOfGang/8+k*37)%l.nodes)
		}
		fmt.Fprintf(&text, " age=%dm\n", 10+(i*7919)%1440)
	}

	s.add(text.String())
	n := 0
	return s.add(fmt.Sprintf("job i queue=high min=%[1]d pending=%[1]d cards=8", l.waiting), func(p *corev1.Pod) {
		requesting("cpu", fmt.Sprintf("%dm", 10+n%l.kinds))(p)
		n++
	})
}

// TestAGangOfManyKindsIsPlacedOnALargeCluster: 1,000 nodes have 8 cards each, used by training gangs of 8 pods over 8
// nodes. A gang of 32 pods waits, each of which needs a whole node. The pods request 16 different amounts of CPU, so the
// search has 16 kinds of pods. It stays within the budget of one session, and all 32 get their cards.
func TestAGangOfManyKindsIsPlacedOnALargeCluster(t *testing.T) {
	s := newLargeScene(largeScene{nodes: 1000, podsOfGang: 8, priorities: 1, waiting: 32, kinds: 16})
	s.withoutAllocate = true // no card is free, so it would place no pod
	s.runSession(t)
	check.Equal(t, "placed pods", 32, len(s.In(api.Pipelined)))
}

// TestASearchThatWasCutShortHasAnEvent: a gang of 5 pods of 8 cards waits, and 4 nodes have 8 cards each. So job i gets
// no card whatever is evicted. Each pod has another host port, so each is a kind of its own. The budget of 100,000 units
// of work is too small to find out that no eviction helps. An event says that the search was cut short, else the job
// would wait without a reason. "w%d-i" is the UID of PodGroup i, with the number of the scene.
func TestASearchThatWasCutShortHasAnEvent(t *testing.T) {
	s := newSceneWithFullNodes(4, "job i queue=inference min=5 pending=5 cards=8", withOwnHostPorts())
	s.startCache()
	s.withoutAllocate = true // no card is free, so it would place no pod
	s.search.budget = budget{maxPerJob: 100_000, maxPerSession: 10_000_000}
	s.runSession(t).expectEvictedAndPlaced(t, "", "")

	events := eventsAbout(t, fmt.Sprintf("w%d-i", s.ID), eventSearchCut)
	check.That(t, isOnlyEvent(events, "Warning", "PodGroup", "victims for 5 pending pod(s) was cut short"), "the events are %+v", events)
}
