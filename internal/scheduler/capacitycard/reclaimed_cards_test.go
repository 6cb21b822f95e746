package capacitycard

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"

	"cardquota.dev/operator/internal/testing/check"
)

// TestReclaimedCardsAreKeptOnANode: cards that were taken back for a gang are not given to those they
// were taken from while the gang waits, and for five minutes at most. The gang has two
// pods of four cards: cards for the first are kept on a, and b, where the second would be, is
// away.
func TestReclaimedCardsAreKeptOnANode(t *testing.T) {
	const gang = `queue inf quota={"A":8} priority=80000 serviceType=inference cpu=1000; queue tra quota={"A":16} priority=20000 serviceType=training cpu=1000; node a model=A cards=4; job i queue=inf min=2 pending=2 cards=4; `
	const lowered = gang + "job v queue=tra min=4 pending=4; queue inf quota="
	for t, tc := range check.Cases(t, map[string]struct {
		text   string
		after  time.Duration
		placed map[string]string
	}{
		"training waits":                    {gang + "job v queue=tra min=4 pending=4", time.Minute, map[string]string{"v": "", "i": ""}},
		"for five minutes":                  {gang + "job v queue=tra min=4 pending=4", 5*time.Minute - time.Second, map[string]string{"v": ""}},
		"and no longer":                     {gang + "job v queue=tra min=4 pending=4", 5 * time.Minute, map[string]string{"v": "a:4"}},
		"one card too many":                 {gang + "node a model=A cards=6; job v queue=tra min=3 pending=3", time.Minute, map[string]string{"v": ""}},
		"what is left beside it is given":   {gang + "node a model=A cards=6; job v queue=tra min=2 pending=2", time.Minute, map[string]string{"v": "a:2"}},
		"another node is free":              {gang + "node c model=A cards=3; job v queue=tra min=3 pending=3", time.Minute, map[string]string{"v": "c:3"}},
		"who is not taken from is placed":   {gang + "queue inf2 quota={\"A\":8} priority=70000 serviceType=inference cpu=1000; job v queue=inf2 min=4 pending=4", time.Minute, map[string]string{"v": "a:4"}},
		"cards of a pod that hangs":         {gang + "node a model=A cards=5; job hung queue=tra min=1 running=a; job v queue=tra min=1 pending=1", time.Minute, map[string]string{"v": ""}},
		"the gang is placed when b is back": {gang + "node b model=A cards=4; job v queue=tra min=4 pending=4", time.Minute, map[string]string{"v": "", "i": "a:1 b:1"}},
		"the quota is less than one pod":    {lowered + `{"A":3} priority=80000 serviceType=inference cpu=1000`, time.Minute, map[string]string{"v": "a:4"}},
		"the quota is less than the gang":   {lowered + `{"A":4} priority=80000 serviceType=inference cpu=1000; node a model=A cards=8`, time.Minute, map[string]string{"v": "a:4"}},
		"the quota is what the gang needs":  {lowered + `{"A":8} priority=80000 serviceType=inference cpu=1000; node a model=A cards=8`, time.Minute, map[string]string{"v": "", "i": "a:2"}},
		"the queue of the gang is closed":   {gang + "queue inf quota={\"A\":8} priority=80000 serviceType=inference state=Closed; job v queue=tra min=4 pending=4", time.Minute, map[string]string{"v": "a:4"}},
	}) {
		s := newReclaimScene(t, tc.text, changePod("hung-0", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)} })).useClock()
		s.keepCards("a", "i-0")
		if strings.Contains(tc.text, "node a model=A cards=8") {
			s.keepCards("a", "i-1")
		}

		s.clock = s.clock.Add(tc.after)
		s.enqueueAndAllocate()
		for job, placed := range tc.placed {
			check.Equal(t, job+" is placed on", placed, s.podsByNode(job))
		}
	}
}

// TestGangThatKeepsNothingLeavesCardsToOthers: a gang that no longer fits the quota does not count for
// other jobs of its queue, whichever job the scheduler looks at first.
func TestGangThatKeepsNothingLeavesCardsToOthers(t *testing.T) {
	for range 20 { // the order of jobs differs
		s := newReclaimScene(t, `queue inf quota={"A":2} priority=80000 serviceType=inference cpu=1000; node a model=A cards=8; job g queue=inf min=3 pending=3; job j queue=inf min=1 pending=1`)
		s.keepCards("a", "g-0", "g-1", "g-2", "j-0")
		s.Close()
		s.openSession()
		_, kept := s.m.reclaimedCards[s.Task("j-0").Pod.UID]
		check.That(t, kept && len(s.m.reclaimedCards) == 1, "cards are kept for %d pods, for j: %v", len(s.m.reclaimedCards), kept)
		s.Close()
	}
}

// TestALoweredQuotaEndsOnlyTheCardsBeyondIt: in session after session the quota is lowered below
// what was reclaimed for a gang of pods with four cards each, of either name. The other pods keep
// their cards while the gang can still start with other cards, whatever the order of its pods.
func TestALoweredQuotaEndsOnlyTheCardsBeyondIt(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		job, quotas, keeps string
	}{
		"all fit":                                      {"job i queue=inf min=2 pending=2", `{"A":4,"B":4}`, "a+b"},
		"one pod may use the other card":               {"job i queue=inf min=2 pending=2", `{"A":8,"B":0} {"A":8,"B":0}`, "a a"},
		"then that is lowered, too":                    {"job i queue=inf min=2 pending=2", `{"A":8,"B":0} {"A":4,"B":0}`, "a -"},
		"what a pod lost is not kept again":            {"job i queue=inf min=2 pending=2", `{"A":8,"B":0} {"A":4,"B":4}`, "a a"},
		"no card has quota for the whole gang":         {"job i queue=inf min=2 pending=2", `{"A":4,"B":0}`, "-"},
		"a pod above the minimum loses its own":        {"job i queue=inf min=1 pending=2", `{"A":4,"B":0}`, "a"},
		"no other card is counted before what is kept": {"job i queue=inf min=1 pending=2", `{"A":0,"B":4}`, "b"},
		"pods above the minimum lose theirs by turns":  {"job i queue=inf min=2 pending=3", `{"A":8,"B":0} {"A":4,"B":0}`, "a+c -"},
	}) {
		for range 10 { // the order of pods differs
			s := newReclaimScene(t, `queue inf quota={"A":12,"B":12} priority=80000 serviceType=inference cpu=1000; node c model=A cards=4; `+tc.job+" cards=4 card=A|B")
			s.keepCards("a", "i-0").Close()
			s.keepCards("b", "i-1").Close()
			if strings.HasSuffix(tc.job, "3") {
				s.keepCards("c", "i-2").Close()
			}

			var keeps []string
			for quota := range strings.FieldsSeq(tc.quotas) {
				s.addObjects("queue inf quota=" + quota + " priority=80000 serviceType=inference cpu=1000")
				s.Queues[len(s.Queues)-1].ResourceVersion = quota // Volcano looks whether it changed
				s.Begin()
				s.openSession()
				keeps = append(keeps, cmp.Or(strings.Join(slices.Sorted(maps.Keys(s.p.reclaimedCards)), "+"), "-"))
				s.Close()
			}

			check.Equal(t, "nodes that keep cards", tc.keeps, strings.Join(keeps, " "))
		}
	}
}

// TestPreemptLeavesReclaimedCards: inside training a higher priority evicts elsewhere.
func TestPreemptLeavesReclaimedCards(t *testing.T) {
	s := newReclaimScene(t, `queue inf quota={"A":8} priority=80000 serviceType=inference cpu=1000; queue tra quota={"A":16} priority=20000 serviceType=training cpu=1000; node a model=A cards=4; node c model=A cards=4
		job i queue=inf min=2 pending=2 cards=4; job low queue=tra min=1 running=c*4 priorityClass=low; job high queue=tra min=1 pending=1 priorityClass=high`)

	s.keepCards("a", "i-0")
	var goes string
	for range 30 { // Volcano begins with any queue, and passes over the pods of the others
		s.evict(preempt.New())
		goes, _ = s.Outcome()
		if goes != "" {
			break
		}
	}

	check.That(t, len(goes) == len("low-0") && s.Task("high-0").NodeName == "c", "%q go, and the pod is promised %q", goes, s.Task("high-0").NodeName)
}

// TestAQueueWithoutLimitDoesNotBorrow: a pod of a queue that deserves any amount of CPU may use a
// node on which cards are kept.
func TestAQueueWithoutLimitDoesNotBorrow(t *testing.T) {
	s := newTreeScene(t, `node a model=A cards=4; queue q quota={"A":4} serviceType=training; queue u quota={"A":4} serviceType=training; job j queue=q min=1 pending=1 cards=0; job i queue=u min=1 pending=1`)
	s.changeQueue("q", func(q *v1beta1.Queue) {
		q.Spec.Capability = corev1.ResourceList{"cpu": resource.MustParse("1e30"), "memory": resource.MustParse("1e30")}
	}).openSession()
	r, _ := s.p.checkInputFor(s.Task("j-0"))
	check.That(t, !s.p.wouldBorrowFrom(&keptCardsOwner{task: s.Task("i-0"), queue: "u"}, r, s.Ssn.Nodes["a"]), "a queue that deserves any CPU would borrow")
}

// TestALoweredQuotaEndsWhatWasFreedLast: of two jobs, the one keeps its cards for which they were freed
// first, whatever the order of jobs in a session.
func TestALoweredQuotaEndsWhatWasFreedLast(t *testing.T) {
	for range 10 {
		s := newReclaimScene(t, `queue inf quota={"A":8} priority=80000 serviceType=inference cpu=1000; node b model=A cards=4; job i queue=inf min=1 pending=1 cards=4; job k queue=inf min=1 pending=1 cards=4`).useClock()
		s.keepCards("b", "k-0").Close()
		s.clock = s.clock.Add(time.Second)
		s.keepCards("a", "i-0").Close()
		s.addObjects(`queue inf quota={"A":4} priority=80000 serviceType=inference cpu=1000`)
		s.Queues[len(s.Queues)-1].ResourceVersion = "lowered"
		s.Begin()
		s.openSession()
		check.Equal(t, "nodes with kept cards", []string{"b"}, slices.Sorted(maps.Keys(s.p.reclaimedCards)))
	}
}

// TestKeptCardsCountAsPodsThatCannotBeReclaimed: in a tree, what is kept for such a pod is a part of what its
// queue may use so. A pod of lower priority gets nothing of it on another node.
func TestKeptCardsCountAsPodsThatCannotBeReclaimed(t *testing.T) {
	onB := changePod("high-0", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "b"} })
	for placed, deserved := range map[string]string{"": `{"A":2}`, "a:1": `{"A":3}`} {
		s := newTreeScene(t, `node a model=A cards=8; node b model=A cards=1; queue q quota={"A":8} serviceType=training reclaimable=false deserved=`+deserved+`; job run queue=q min=1 running=a priorityClass=high; job high queue=q min=1 pending=1 priorityClass=high; job low queue=q min=1 pending=1 priorityClass=low`, onB)
		s.Nodes[1].Spec.Unschedulable = true
		s.m.preemptedCards[s.Pod("high-0").UID] = nomination{node: "b", since: time.Now()}
		s.enqueueAndAllocate()
		check.Equal(t, "placed of high with "+deserved, "", s.podsByNode("high"))
		check.Equal(t, "placed of low with "+deserved, placed, s.podsByNode("low"))
	}
}
