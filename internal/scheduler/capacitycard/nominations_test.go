package capacitycard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/keptcards"
	"cardquota.dev/operator/internal/testing/check"
)

// lowPodsUseTheQuota has free cards, but no free quota: four pods of low priority use the quota of 4. So one of them
// must be evicted for high-0.
const lowPodsUseTheQuota = `node a model=A
	queue q quota={"A":4}
	job low queue=q min=1 running=a*4 priorityClass=low
	job high queue=q min=1 pending=1 priorityClass=high`

// TestPreemptWaitsForItsVictims: the scheduler asks the API server to evict a pod, and the answer is late or is a
// refusal. Until it is known, preempt evicts no second pod for the same preemptor. A deleted pod no longer counts
// against the quota, so its preemptor starts. In lowPodsUseTheQuota, node a has 8 cards, but four pods of low
// priority use the quota of 4, and high-0 needs one.
//
// Each script plays sessions (scheduling cycles) and what the API server shows between them. "session 1" is one in
// which one pod is being evicted: preempt has just chosen it, or it is deleted and not gone. "mark first" shows the
// condition that Volcano writes before it deletes the first victim: preempt waits a minute for the deletion. A marked
// pod is not being evicted, so while preempt waits for it the session has 0. "delete" shows the deletion, "gone" the
// end of the pod, "refuse" an unchanged pod. "after 50s" moves the clock.
func TestPreemptWaitsForItsVictims(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene, script string
		wantEvicted   int    // in all sessions
		wantPlaced    string // pods of job high after the last session; "a:1" is one pod on node a
	}{
		"the API server shows the deletion after three sessions: high-0 starts": {
			scene:  lowPodsUseTheQuota,
			script: "session 1, session 1, session 1, delete first, session 1, gone first, session 0", wantEvicted: 1, wantPlaced: "a:1",
		},
		"the victim is marked for 50 s and then deleted: high-0 starts": {
			scene:  lowPodsUseTheQuota,
			script: "session 1, mark first, session 0, after 50s, session 0, delete first, session 1", wantEvicted: 1, wantPlaced: "a:1",
		},
		"the victim is marked and not deleted within a minute: evicted again, and no other pod": {
			scene:  lowPodsUseTheQuota,
			script: "session 1, mark first, session 0, after 2m, session 1, session 1", wantEvicted: 1, wantPlaced: "",
		},
		"the API server refuses each time: the same pod is evicted again, and no other": {
			scene:  lowPodsUseTheQuota,
			script: "session 1, refuse first, session 1, refuse first, session 1", wantEvicted: 1, wantPlaced: "",
		},
		"cards are missing, not quota: high-0 waits for the end of the deleted pod": {
			scene: `node a,b model=A cards=4
				queue q quota={"A":8}
				job low queue=q min=1 running=a*4,b*4 priorityClass=low
				job high queue=q min=1 pending=1 priorityClass=high`,
			script: "session 1, mark first, session 0, session 0, delete first, session 1", wantEvicted: 1, wantPlaced: "",
		},
		"a pod of low priority waits too: no pod is evicted for it": {
			scene: lowPodsUseTheQuota + `
				job equal queue=q min=1 pending=1 priorityClass=low`,
			script: "session 1, session 1", wantEvicted: 1, wantPlaced: "",
		},
		"a gang of two has two victims, which end one after the other: no third victim": {
			scene: `node a model=A
				queue q quota={"A":4}
				job low queue=q min=1 running=a*4 priorityClass=low
				job high queue=q min=2 pending=2 priorityClass=high`,
			script:      "session 2, delete first, session 2, delete second, session 2, gone first, session 1, gone second, session 0",
			wantEvicted: 2, wantPlaced: "a:2",
		},
	}) {
		s := newScene(t, tc.scene).useClock()
		var evicted []string // the first victim and the second one
		for step := range strings.SplitSeq(tc.script, ", ") {
			verb, object, _ := strings.Cut(step, " ")
			victim := func() string { return evicted[map[string]int{"first": 0, "second": 1}[object]] }
			switch verb {
			case "session":
				s.evict(preempt.New())
				for _, task := range s.In(api.Releasing) {
					if !slices.Contains(evicted, task.Name) {
						evicted = append(evicted, task.Name)
					}
				}
				releasing := fmt.Sprint(len(s.In(api.Releasing)))
				check.Equal(t, fmt.Sprintf("pods that are being evicted after %q of %q", step, tc.script), object, releasing)
			case "after":
				s.clock = s.clock.Add(mustParseDuration(object))
			case "gone":
				s.Cache.DeletePod(s.Pod(victim()))
			default:
				shows := map[string]func(*corev1.Pod){"delete": deleted, "mark": evictedSince(s.clock), "refuse": func(*corev1.Pod) {}}
				s.Update(victim(), shows[verb])
			}
		}

		check.Equal(t, "placed", tc.wantPlaced, s.podsByNode("high"))
		check.Equal(t, "pods that were evicted in all", tc.wantEvicted, len(evicted))
	}
}

// evictedSince adds the condition that Volcano writes before it deletes a pod.
func evictedSince(since time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.NewTime(since),
		})
	}
}

// TestPreemptStopsWaitingForAVictimThatDoesNotEnd: the pods want the same host port, so high-0 needs the place of
// low-0 on a or of low-1 on b. One of them was deleted for it. preempt evicts the other one as well if the first has
// not ended five minutes after its grace period. It also does if the node of the first no longer accepts high-0. A
// new process of the scheduler knows the victim's node from the status of high-0 (nominatedNodeName).
func TestPreemptStopsWaitingForAVictimThatDoesNotEnd(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		after       time.Duration
		cordons     bool // the node of the victim is cordoned
		wantEvicted int
	}{
		"just before five minutes: no other victim":    {after: 5*time.Minute - time.Second, wantEvicted: 1},
		"after five minutes: another victim":           {after: 5*time.Minute + 5*time.Second, wantEvicted: 2},
		"the node is cordoned at once: another victim": {after: time.Second, cordons: true, wantEvicted: 2},
	}) {
		for _, restarts := range []bool{false, true} {
			s := newScene(t, `node a,b model=A
				queue q quota={"A":24}
				job low queue=q min=1 running=a,b priorityClass=low
				job high queue=q min=1 pending=1 priorityClass=high`, wantsPort).useClock()
			s.evict(preempt.New())
			first := s.In(api.Releasing)[0]

			s.Update(first.Name, evictedSince(s.clock))
			s.Update(first.Name, deleted) // its grace period ends now
			s.Update("high-0", func(p *corev1.Pod) { p.Status.NominatedNodeName = first.NodeName })
			if restarts {
				s.m.kept.Nominations = map[types.UID]keptcards.Nomination{}
			}
			s.evict(preempt.New())
			check.Equal(t, "evicted pods at first", 1, len(s.In(api.Releasing)))

			s.clock = s.clock.Add(tc.after)
			if tc.cordons {
				s.changeNode(first.NodeName, func(n *corev1.Node) { n.Spec.Unschedulable = true })
			}
			s.evict(preempt.New())
			check.Equal(t, "evicted pods in all", tc.wantEvicted, len(s.In(api.Releasing)))
		}
	}
}

// TestNominatedNodeIsCheckedOncePerSearch: for each pod Volcano calls prePredicate once and then searches many nodes.
// Four pods of low priority use the quota of 4, and high-0 waits. Whether high-0 only waits for the victim that an
// earlier session evicted on node a is decided once for such a search. So the answer stays yes although the record of
// its nomination is deleted meanwhile. The next search decides again: no.
func TestNominatedNodeIsCheckedOncePerSearch(t *testing.T) {
	s := newScene(t, lowPodsUseTheQuota)
	s.evict(preempt.New())
	s.openSession()
	high := s.Task("high-0")

	check.NoError(t, s.p.nodes.prePredicate(high))
	check.Equal(t, "high-0 awaits its nominated node", true, s.p.preemption.AwaitsNominatedNode(high))
	delete(s.m.kept.Nominations, high.Pod.UID)
	check.Equal(t, "high-0 awaits it in the same search", true, s.p.preemption.AwaitsNominatedNode(high))
	check.Equal(t, "low-0, another pod, awaits a node", false, s.p.preemption.AwaitsNominatedNode(s.Task("low-0")))

	check.NoError(t, s.p.nodes.prePredicate(high))
	check.Equal(t, "high-0 awaits it in the next search", false, s.p.preemption.AwaitsNominatedNode(high))
}

// TestPreemptDoesNotWaitForStuckPods: pod hung-0 was deleted and uses its card until it has ended. Preempt counts on
// that card until five minutes after the pod's grace period. From then on it evicts other pods as if hung-0 stayed.
// Job low has a lower priority than job high. wantEvicted names all pods of the session that are being evicted: hung-0
// too, unless its PodGroup is deleted and the session has no job for it. Times are since the grace period ended.
func TestPreemptDoesNotWaitForStuckPods(t *testing.T) {
	const oneCardEach = `node a,b model=A cards=1
		job hung queue=q min=1 running=a
		job low queue=q min=1 running=b priorityClass=low
		job high queue=q min=1 pending=1 priorityClass=high`
	for t, tc := range check.Cases(t, map[string]struct {
		scene                      string
		after                      time.Duration // the end of the grace period
		isWithoutJob               bool          // the PodGroup of hung-0 is deleted
		wantEvicted, wantPipelined string        // "high-0@a": high-0 gets the freed place on node a
	}{
		"a minute: high-0 waits for the card of hung-0": {
			scene: oneCardEach, after: time.Minute, wantEvicted: "hung-0", wantPipelined: "high-0@a",
		},
		"an hour, a pod on another node may be evicted: it is": {
			scene: oneCardEach, after: time.Hour, wantEvicted: "hung-0 low-0", wantPipelined: "high-0@b",
		},
		"an hour, and the PodGroup of hung-0 is gone: the pod on the other node is evicted": {
			scene: oneCardEach, after: time.Hour, isWithoutJob: true, wantEvicted: "low-0", wantPipelined: "high-0@b",
		},
		"an hour, a pod on the same node may be evicted: it is": {
			scene: `node a model=A cards=2
				job hung queue=q min=1 running=a
				job low queue=q min=1 running=a priorityClass=low
				job high queue=q min=1 pending=1 priorityClass=high`,
			after: time.Hour, wantEvicted: "hung-0 low-0", wantPipelined: "high-0@a",
		},
		"an hour, two cards are needed beside the one of hung-0: two pods are evicted": {
			scene: `node a model=A cards=3
				job hung queue=q min=1 running=a
				job low queue=q min=1 running=a*2 priorityClass=low
				job high queue=q min=1 pending=1 cards=2 priorityClass=high`,
			after: time.Hour, wantEvicted: "hung-0 low-0 low-1", wantPipelined: "high-0@a",
		},
		"an hour, the other pod has high's own priority: no eviction": {
			scene: `node a model=A cards=2
				job hung queue=q min=1 running=a
				job equal queue=q min=1 running=a priorityClass=high
				job high queue=q min=1 pending=1 priorityClass=high`,
			after: time.Hour, wantEvicted: "hung-0", wantPipelined: "",
		},
		"an hour, there is no other pod: no eviction": {
			scene: `node a model=A cards=1
				job hung queue=q min=1 running=a
				job high queue=q min=1 pending=1 priorityClass=high`,
			after: time.Hour, wantEvicted: "hung-0", wantPipelined: "",
		},
		"an hour, a gang of two waits: two pods are evicted": {
			scene: `node a model=A cards=3
				job hung queue=q min=1 running=a
				job low queue=q min=1 running=a*2 priorityClass=low
				job high queue=q min=2 pending=2 priorityClass=high`,
			after: time.Hour, wantEvicted: "hung-0 low-0 low-1", wantPipelined: "high-0@a high-1@a",
		},
	}) {
		for _, topologyAware := range []bool{false, true} {
			if topologyAware && strings.Contains(tc.wantPipelined, "high-1") {
				continue // Volcano's simulation skips nodes where no pod needs to be evicted any more
			}

			s := newScene(t, `queue q quota={"A":24}
				`+tc.scene, changePod("hung-0", deleted)) // its grace period ends now
			if tc.isWithoutJob {
				s.Groups = slices.DeleteFunc(s.Groups, func(g *v1beta1.PodGroup) bool { return g.Name == "hung" })
			}

			s.useClock().clock = s.Now.Add(tc.after)
			s.evict(preempt.New(), topologyAwarePreempt(topologyAware))
			s.expectEvictions(tc.wantEvicted, tc.wantPipelined)
		}
	}
}

// wantsPort has a pod use a port of its node.
func wantsPort(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 8080, ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
}

// avoidsX keeps pods of job high off nodes with pods that have the label app=x.
func avoidsX(p *corev1.Pod) {
	if strings.HasPrefix(p.Name, "high") {
		isX := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: isX}},
		}}
	}
}

// avoidLowPods keeps pods of job high off nodes with pods of job low.
func avoidLowPods(p *corev1.Pod) {
	avoidsX(p)
	if strings.HasPrefix(p.Name, "low") {
		p.Labels["app"] = "x"
	}
}

// TestPreemptEvictsConflictingPods: nodes a, b and c have four cards each, all used by single pods of job low. The
// quota, 12 or 24, is never smaller than what the nodes have. Pods of job high must not be on a node with pods of
// low (anti-affinity). So preempt evicts all four of a node, on as few nodes as high needs. It evicts none on a
// node where a conflicting pod must stay. In the last row the conflict is not anti-affinity, but a host port. In
// three more sessions with an outdated view of the API server preempt evicts no other pod.
func TestPreemptEvictsConflictingPods(t *testing.T) {
	// Only the pods on node b may be evicted.
	avoidLowPodsAndProtectThoseOffB := func(p *corev1.Pod) {
		avoidLowPods(p)
		if p.Spec.NodeName != "b" && strings.HasPrefix(p.Name, "low") {
			annotate("volcano.sh/preemptable", "false")(p)
		}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		quota, high                string
		change                     func(*corev1.Pod)
		wantEvicted, wantPipelined int
	}{
		"a gang of 6, which needs two nodes: 8 pods are evicted":     {`{"A":12}`, "min=6 pending=6", avoidLowPods, 8, 6},
		"a gang of 10, which needs three nodes: 12 pods are evicted": {`{"A":12}`, "min=10 pending=10", avoidLowPods, 12, 10},
		"a gang of 13, and there are 12 cards: none is evicted":      {`{"A":12}`, "min=13 pending=13", avoidLowPods, 0, 0},
		"one pod: the 4 pods of one node are evicted":                {`{"A":12}`, "min=1 pending=1", avoidLowPods, 4, 1},
		"one pod without cards: the 4 pods of one node are evicted":  {`{"A":24}`, "min=1 pending=1 cards=0", avoidLowPods, 4, 1},
		"one pod, and only pods on b may be evicted: those 4 are":    {`{"A":12}`, "min=1 pending=1", avoidLowPodsAndProtectThoseOffB, 4, 1},
		"a gang of 6, and only pods on b may be evicted: none is":    {`{"A":12}`, "min=6 pending=6", avoidLowPodsAndProtectThoseOffB, 0, 0},
		"one pod wants the host port that a pod of each node has: one is evicted": {`{"A":24}`, "min=1 pending=1 cards=0", func(p *corev1.Pod) {
			if slices.Contains([]string{"low-2", "low-5", "low-9", "high-0"}, p.Name) {
				wantsPort(p)
			}
		}, 1, 1},
	}) {
		for _, topologyAware := range []bool{false, true} {
			if topologyAware && !strings.HasPrefix(tc.high, "min=1 ") {
				continue // Volcano's simulation skips nodes where no pod needs to be evicted any more
			}

			s := newScene(t, fmt.Sprintf(`node a,b,c model=A cards=4
				queue q quota=%s
				job low queue=q min=1 running=a*4,b*4,c*4 priorityClass=low
				job high queue=q %s priorityClass=high`, tc.quota, tc.high), tc.change)
			preempting := topologyAwarePreempt(topologyAware)
			s.evict(preempt.New(), preempting)
			check.Equal(t, fmt.Sprintf("evicted pods, topology-aware %v", topologyAware), tc.wantEvicted, len(s.In(api.Releasing)))
			check.Equal(t, fmt.Sprintf("pipelined pods, topology-aware %v", topologyAware), tc.wantPipelined, len(s.In(api.Pipelined)))

			for range 3 {
				s.evict(preempt.New(), preempting)
			}
			check.Equal(t, "evicted pods three sessions later", tc.wantEvicted, len(s.In(api.Releasing)))
		}
	}
}

// TestPreemptEvictsNoPodWhereQuotaStaysInsufficient: high-0 accepts A or B and wants a host port. On node a, low-0
// has that port and could be evicted. But eq-0, of high's own priority, uses the only A of the quota, so that eviction
// would be in vain. On node b less-0 uses the only B of the quota. It is evicted, and high-0 gets node b.
func TestPreemptEvictsNoPodWhereQuotaStaysInsufficient(t *testing.T) {
	s := newScene(t, `node a model=A
		node b model=B
		queue q quota={"A":1,"B":1}
		job eq queue=q min=1 running=a priorityClass=high
		job low queue=q min=1 running=a cards=0 priorityClass=low
		job less queue=q min=1 running=b card=B priorityClass=low
		job high queue=q min=1 pending=1 card=A|B priorityClass=high`, changePod("low-0", wantsPort), changePod("high-0", wantsPort))

	s.evict(preempt.New())
	s.expectEvictions("less-0", "high-0@b")
}

// TestPodDoesNotWaitForTheVictimOfAnotherPodOfItsGang: an earlier session nominated node a, with 2 cards, for both
// pods of gang high. A pod waits while a pod that was evicted for it leaves its nominated node. In this session
// preempt evicts one pod for high-0. That is not a pod for which high-1 may wait, so preempt evicts the second pod
// too.
func TestPodDoesNotWaitForTheVictimOfAnotherPodOfItsGang(t *testing.T) {
	s := newScene(t, `node a model=A cards=2
		queue q quota={"A":2} cpu=1000
		job la queue=q min=1 running=a priorityClass=low
		job lb queue=q min=1 running=a priorityClass=low
		job high queue=q min=2 pending=2 priorityClass=high`)
	for _, name := range []string{"high-0", "high-1"} {
		s.m.kept.Nominations[s.Pod(name).UID] = keptcards.Nomination{Node: "a", Since: time.Now()}
	}

	s.evict(preempt.New())
	check.Equal(t, "evicted pods", "la:1 lb:1", countByState(s.In(api.Releasing)))
	check.Equal(t, "pipelined pods", "high@a:2", countByState(s.In(api.Pipelined)))
}
