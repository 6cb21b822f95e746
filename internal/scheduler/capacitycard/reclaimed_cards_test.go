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
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/testing/check"
)

// TestReclaimedCardsAreKeptOnANode: four cards on node a were taken back from training for pod i-0 of an inference
// gang. The gang has two pods of four cards and cannot start yet, because node b, where the second one would be,
// is away. Until it starts, and for five minutes at most, job v of training gets none of those cards. Otherwise
// they would have to be taken back again. They are free for all when the quota of inference no longer suffices for
// the gang, or its queue is closed. Node a has four cards unless the row says more. A queue or node that a row
// names again replaces the first one. All queues have CPU for all pods (cpu=1000).
func TestReclaimedCardsAreKeptOnANode(t *testing.T) {
	const (
		fourOfTraining = `
			job v queue=tra min=4 pending=4`
		// Cards for both pods of the gang are reclaimed on node a.
		eightOnA = `
			node a model=A cards=8`
	)

	for t, tc := range check.Cases(t, map[string]struct {
		scene      string
		after      time.Duration
		alsoFor    []string          // pods for which cards on a are kept, besides i-0
		wantPlaced map[string]string // by job; "a:4" is four pods on node a
	}{
		"after a minute: neither training nor the gang starts": {
			scene: fourOfTraining, after: time.Minute, wantPlaced: map[string]string{"v": "", "i": ""},
		},
		"just before five minutes: training waits": {
			scene: fourOfTraining, after: 5*time.Minute - time.Second, wantPlaced: map[string]string{"v": ""},
		},
		"after five minutes: training starts": {
			scene: fourOfTraining, after: 5 * time.Minute, wantPlaced: map[string]string{"v": "a:4"},
		},
		"node a has six cards, and training needs three: it waits": {
			scene: `node a model=A cards=6
				job v queue=tra min=3 pending=3`,
			after: time.Minute, wantPlaced: map[string]string{"v": ""},
		},
		"node a has six cards, and training needs two: it gets those that are not kept": {
			scene: `node a model=A cards=6
				job v queue=tra min=2 pending=2`,
			after: time.Minute, wantPlaced: map[string]string{"v": "a:2"},
		},
		"node c has three free cards: training starts there": {
			scene: `node c model=A cards=3
				job v queue=tra min=3 pending=3`,
			after: time.Minute, wantPlaced: map[string]string{"v": "c:3"},
		},
		"v is of inference, from which the gang may take no cards: it starts": {
			scene: `queue inf2 quota={"A":8} priority=70000 serviceType=inference cpu=1000
				job v queue=inf2 min=4 pending=4`,
			after: time.Minute, wantPlaced: map[string]string{"v": "a:4"},
		},
		"node a has five cards, one of which a pod that does not end still uses: training waits": {
			scene: `node a model=A cards=5
				job hung queue=tra min=1 running=a
				job v queue=tra min=1 pending=1`,
			after: time.Minute, wantPlaced: map[string]string{"v": ""},
		},
		"node b is back: the gang starts": {
			scene: "node b model=A cards=4" + fourOfTraining,
			after: time.Minute, wantPlaced: map[string]string{"v": "", "i": "a:1 b:1"},
		},
		"the quota of inference is 3, less than one pod: training starts": {
			scene: `queue inf quota={"A":3} priority=80000 serviceType=inference cpu=1000` + fourOfTraining,
			after: time.Minute, wantPlaced: map[string]string{"v": "a:4"},
		},
		"the quota of inference is 4, less than the gang: training starts": {
			scene: `queue inf quota={"A":4} priority=80000 serviceType=inference cpu=1000` + eightOnA + fourOfTraining,
			after: time.Minute, alsoFor: []string{"i-1"}, wantPlaced: map[string]string{"v": "a:4"},
		},
		"the quota of inference is 8, what the gang needs: the gang starts": {
			scene: `queue inf quota={"A":8} priority=80000 serviceType=inference cpu=1000` + eightOnA + fourOfTraining,
			after: time.Minute, alsoFor: []string{"i-1"}, wantPlaced: map[string]string{"v": "", "i": "a:2"},
		},
		"the queue of the gang is closed: training starts": {
			scene: `queue inf quota={"A":8} priority=80000 serviceType=inference state=Closed` + fourOfTraining,
			after: time.Minute, wantPlaced: map[string]string{"v": "a:4"},
		},
	}) {
		endedAnHourAgo := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)} }
		s := newScene(t, `queue inf quota={"A":8} priority=80000 serviceType=inference cpu=1000
			queue tra quota={"A":16} priority=20000 serviceType=training cpu=1000
			node a model=A cards=4
			job i queue=inf min=2 pending=2 cards=4
			`+tc.scene, changePod("hung-0", endedAnHourAgo)).useClock()
		s.keepCards("a", "i-0").keepCards("a", tc.alsoFor...)

		s.clock = s.clock.Add(tc.after)
		s.enqueueAndAllocate()
		for job, wantPlaced := range tc.wantPlaced {
			check.Equal(t, "placed of job "+job, wantPlaced, s.podsByNode(job))
		}
	}
}

// nodesOfReclaimers are the nodes on which cards are kept for pods that reclaimed them.
func (s *scene) nodesOfReclaimers() []string {
	var nodes []string
	for _, made := range s.m.kept.Reclaimed {
		if made.Node != "" {
			nodes = append(nodes, made.Node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// lowerQuota replaces the quota of the inference queue before the next session.
func (s *scene) lowerQuota(quota string) {
	s.Close()
	s.addObjects("queue inf priority=80000 serviceType=inference cpu=1000 quota=" + quota)
	s.Queues[len(s.Queues)-1].ResourceVersion = quota // Volcano looks whether it changed
	s.Begin()
	s.openSession()
}

// TestGangThatKeepsNothingLeavesCardsToOthers: cards were reclaimed for gang g, which needs 3, and for job j, which
// needs 1. With a quota of 2 the gang can no longer start. So cards are kept for j alone, in whichever order the
// scheduler looks at the jobs.
func TestGangThatKeepsNothingLeavesCardsToOthers(t *testing.T) {
	for range 20 { // the order of jobs differs
		s := newScene(t, `queue inf quota={"A":2} priority=80000 serviceType=inference cpu=1000
			node a model=A cards=8
			job g queue=inf min=3 pending=3
			job j queue=inf min=1 pending=1`)
		s.keepCards("a", "g-0", "g-1", "g-2", "j-0")
		s.Close()
		s.openSession()

		check.Equal(t, "pods for which cards are kept", []types.UID{s.Task("j-0").Pod.UID}, slices.Collect(maps.Keys(s.m.kept.Reclaimed)))
		s.Close()
	}
}

// TestALoweredQuotaEndsOnlyTheCardsBeyondIt: four cards each are kept for pods i-0 on node a, i-1 on node b and, in
// the last row, i-2 on node c. a and c have cards A, b has cards B. The pods of the gang accept A or B. When the
// quota of 12 A and 12 B is lowered, cards beyond it are no longer kept. A pod keeps its cards as long as its gang,
// of at least min= pods, can still start with the rest of the quota.
func TestALoweredQuotaEndsOnlyTheCardsBeyondIt(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		job       string
		quotas    string // one after the other, each in a session of its own
		wantNodes string // nodes that keep cards in each session, "a+b", or "-" for none
	}{
		"both pods must start, quota 4 A and 4 B: both keep their cards": {
			job: "min=2 pending=2", quotas: `{"A":4,"B":4}`, wantNodes: "a+b",
		},
		"both must start, quota 8 A: i-1 loses its B, and may use A instead": {
			job: "min=2 pending=2", quotas: `{"A":8,"B":0} {"A":8,"B":0}`, wantNodes: "a a",
		},
		"both must start, quota 8 A and then 4 A: first i-1 loses its B, then the gang all": {
			job: "min=2 pending=2", quotas: `{"A":8,"B":0} {"A":4,"B":0}`, wantNodes: "a -",
		},
		"both must start, quota 8 A and then 4 of each: what i-1 has lost stays lost": {
			job: "min=2 pending=2", quotas: `{"A":8,"B":0} {"A":4,"B":4}`, wantNodes: "a a",
		},
		"both must start, quota 4 A: the gang cannot start, and keeps nothing": {
			job: "min=2 pending=2", quotas: `{"A":4,"B":0}`, wantNodes: "-",
		},
		"one must start, quota 4 A: only i-1 loses its B": {
			job: "min=1 pending=2", quotas: `{"A":4,"B":0}`, wantNodes: "a",
		},
		"one must start, quota 4 B: i-1 keeps its B, which i-0 does not take from it": {
			job: "min=1 pending=2", quotas: `{"A":0,"B":4}`, wantNodes: "b",
		},
		"two of three must start, quota 8 A and then 4 A: first i-1 loses its B, then the gang all": {
			job: "min=2 pending=3", quotas: `{"A":8,"B":0} {"A":4,"B":0}`, wantNodes: "a+c -",
		},
	}) {
		for range 10 { // the order of pods differs
			s := newScene(t, `queue inf quota={"A":12,"B":12} priority=80000 serviceType=inference cpu=1000
				node a model=A cards=8
				node b model=B cards=8
				node c model=A cards=4
				job i queue=inf cards=4 card=A|B `+tc.job)
			s.keepCards("a", "i-0").Close()
			s.keepCards("b", "i-1").Close()
			if strings.HasSuffix(tc.job, "pending=3") {
				s.keepCards("c", "i-2").Close()
			}

			var nodes []string
			for quota := range strings.FieldsSeq(tc.quotas) {
				s.lowerQuota(quota)
				nodes = append(nodes, cmp.Or(strings.Join(s.nodesOfReclaimers(), "+"), "-"))
			}
			s.Close()

			check.Equal(t, "nodes that keep cards", tc.wantNodes, strings.Join(nodes, " "))
		}
	}
}

// TestPreemptUsesNoReclaimedCards: the four free cards on node a are kept for an inference gang. Inside training a
// pod of high priority needs one card. preempt does not give it one on a, but evicts a pod of low priority on node c.
func TestPreemptUsesNoReclaimedCards(t *testing.T) {
	s := newScene(t, `queue inf quota={"A":8} priority=80000 serviceType=inference cpu=1000
		queue tra quota={"A":16} priority=20000 serviceType=training cpu=1000
		node a,c model=A cards=4
		job i queue=inf min=2 pending=2 cards=4
		job low queue=tra min=1 running=c*4 priorityClass=low
		job high queue=tra min=1 pending=1 priorityClass=high`)
	s.keepCards("a", "i-0")

	s.evict(preempt.New())
	check.Equal(t, "evicted pods", "low:1", countByState(s.In(api.Releasing)))
	check.Equal(t, "node of the pod of high priority", "c", s.Task("high-0").NodeName)
}

// TestAQueueWithAHugeLimitDoesNotBorrow: in a tree a pod may use a node with kept cards if it borrows nothing there.
// Queue q has a limit of 1e30 CPU and as much memory, more than an int64 can represent. So it deserves any amount.
// Its pod without cards does not borrow from the owner of the kept cards, so it may use the node, whose CPU does not
// suffice for both.
func TestAQueueWithAHugeLimitDoesNotBorrow(t *testing.T) {
	s := newTreeScene(t, `node a model=A cards=4
		queue q quota={"A":4} serviceType=training
		queue u quota={"A":4} serviceType=training
		job j queue=q min=1 pending=1 cards=0
		job i queue=u min=1 pending=1 cpu=64`)
	s.changeQueue("q", func(q *v1beta1.Queue) {
		q.Spec.Capability = corev1.ResourceList{"cpu": resource.MustParse("1e30"), "memory": resource.MustParse("1e30")}
	})
	s.keepCards("a", "i-0").Close()
	s.openSession()
	check.Equal(t, "nodes with kept cards", []string{"a"}, s.nodesOfReclaimers())

	input, _ := s.p.CheckInputFor(s.Task("j-0"))
	check.Equal(t, "the pod may use the node", true, s.p.Kept.FitsBesideReclaimed(input, s.Ssn.Nodes["a"]))
}

// TestALoweredQuotaEndsWhatWasFreedLast: four cards are kept for job k on node b, and since a second later four for
// job i on node a. When the quota is lowered from 8 to 4, job k keeps its cards, in whichever order a session has the
// jobs.
func TestALoweredQuotaEndsWhatWasFreedLast(t *testing.T) {
	for range 10 {
		s := newScene(t, `queue inf quota={"A":8} priority=80000 serviceType=inference cpu=1000
			node a model=A cards=8
			node b model=A cards=4
			job i queue=inf min=1 pending=1 cards=4
			job k queue=inf min=1 pending=1 cards=4`).useClock()
		s.keepCards("b", "k-0").Close()
		s.clock = s.clock.Add(time.Second)
		s.keepCards("a", "i-0")

		s.lowerQuota(`{"A":4}`)
		check.Equal(t, "nodes with kept cards", []string{"b"}, s.nodesOfReclaimers())
	}
}

// TestKeptCardsCountAsPodsThatCannotBeReclaimed: queue q is not reclaimable, so its pods may use only what it
// deserves. It uses one card, and one on node b is kept for high-0, which cannot start because b is cordoned. The
// kept card counts as one of those that q deserves. So low-0, of lower priority, gets a card on node a only if q
// deserves three.
func TestKeptCardsCountAsPodsThatCannotBeReclaimed(t *testing.T) {
	onlyOnB := changePod("high-0", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "b"} })
	for deserved, wantPlaced := range map[string]string{`{"A":2}`: "", `{"A":3}`: "a:1"} {
		s := newTreeScene(t, `node a model=A cards=8
			node b model=A cards=1
			queue q quota={"A":8} serviceType=training reclaimable=false deserved=`+deserved+`
			job run queue=q min=1 running=a priorityClass=high
			job high queue=q min=1 pending=1 priorityClass=high
			job low queue=q min=1 pending=1 priorityClass=low`, onlyOnB)
		s.Nodes[1].Spec.Unschedulable = true
		s.m.kept.Preempted[s.Pod("high-0").UID] = keptcards.Nomination{Node: "b", Since: time.Now()}

		s.enqueueAndAllocate()
		check.Equal(t, "placed of job high, deserved "+deserved, "", s.podsByNode("high"))
		check.Equal(t, "placed of job low, deserved "+deserved, wantPlaced, s.podsByNode("low"))
	}
}
