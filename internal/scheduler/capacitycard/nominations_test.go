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

	"cardquota.dev/operator/internal/testing/check"
)

// TestPreemptWaitsForItsVictims plays sessions with an API server that is slow or
// refuses: "next 2" opens the next one, after which two pods are on their way out,
// in all evicted once for each in the end. What the API server shows is of the first
// of them, or of the second.
func TestPreemptWaitsForItsVictims(t *testing.T) {
	const full = `node a model=A; queue q quota={"A":4}; job low queue=q min=1 running=a*4 priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`
	for t, tc := range check.Cases(t, map[string]struct {
		text, script, placed string
		evicted              int
	}{
		"the API server takes its time":       {full, "next 1, next 1, next 1, delete first, next 1, gone first, next 0", "a:1", 1},
		"the pod says that it goes":           {full, "next 1, says first, next 0, after 50s, next 0, delete first, next 1", "a:1", 1},
		"the pod is marked and never deleted": {full, "next 1, says first, next 0, after 2m, next 1, next 1", "", 1},
		"the eviction is refused":             {full, "next 1, refuse first, next 1, refuse first, next 1", "", 1},
		"cards are short, and not quota": {`node a model=A cards=4; node b model=A cards=4; queue q quota={"A":8}; job low queue=q min=1 running=a*4,b*4 priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`,
			"next 1, says first, next 0, next 0, delete first, next 1", "", 1},
		"an equal pod comes meanwhile": {full + "; job equal queue=q min=1 pending=1 priorityClass=low", "next 1, next 1", "", 1},
		"one eviction of a gang is slower than the other": {`node a model=A; queue q quota={"A":4}; job low queue=q min=1 running=a*4 priorityClass=low; job high queue=q min=2 pending=2 priorityClass=high`,
			"next 2, delete first, next 2, delete second, next 2, gone first, next 1, gone second, next 0", "a:2", 2},
	}) {
		s := newScene(t, tc.text).useClock()

		var evicted []string
		for _, line := range strings.Split(tc.script, ",") {
			step, what, _ := strings.Cut(strings.TrimSpace(line), " ")
			pod := func() string { return evicted[len(strings.TrimPrefix(what, "first"))/len("second")] }
			switch step {
			case "next":
				s.evict(preempt.New())
				goes := s.In(api.Releasing)
				check.That(t, fmt.Sprint(len(goes)) == what, "%q: %d pods are on their way out in %q", line, len(goes), tc.script)

				for _, task := range goes {
					if !strings.Contains(strings.Join(evicted, " "), task.Name) {
						evicted = append(evicted, task.Name)
					}
				}
			case "after":
				s.clock = s.clock.Add(parsed(what))
			case "gone":
				s.Cache.DeletePod(s.Pod(pod()))
			default:
				s.Update(pod(), map[string]func(*corev1.Pod){"delete": deleted, "says": evictedSince(s.clock), "refuse": func(*corev1.Pod) {}}[step])
			}
		}

		check.Equal(t, "placed", tc.placed, s.podsByNode("high"))
		check.Equal(t, "evicted in all", tc.evicted, len(evicted))
	}
}

// TestPreemptWaitsForANominationForABoundedTime: preempt stops waiting for a stuck victim, or
// for a node that no longer accepts the preemptor. It then evicts another pod.
func TestPreemptWaitsForANominationForABoundedTime(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		after   time.Duration
		cordons bool
		evicted int
	}{
		"it takes its time": {5*time.Minute - time.Second, false, 1}, "it hangs": {5*time.Minute + 5*time.Second, false, 2}, "its node is cordoned": {time.Second, true, 2},
	}) {
		for _, restarts := range []bool{false, true} {
			s := newScene(t, `node a model=A; node b model=A; queue q quota={"A":24}; job low queue=q min=1 running=a,b priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`, wantsPort).useClock()
			s.evict(preempt.New())
			first := s.In(api.Releasing)[0]

			s.Update(first.Name, evictedSince(s.clock))
			s.Update(first.Name, deleted)
			s.Update("high-0", func(p *corev1.Pod) { p.Status.NominatedNodeName = first.NodeName })
			if restarts {
				s.m.nominations = map[types.UID]nomination{}
			}

			s.evict(preempt.New())
			check.Equal(t, "evicted at first", 1, len(s.In(api.Releasing)))

			s.clock = s.clock.Add(tc.after)
			if tc.cordons {
				s.changeNode(first.NodeName, func(n *corev1.Node) { n.Spec.Unschedulable = true })
			}

			s.evict(preempt.New())
			check.Equal(t, "evicted in all", tc.evicted, len(s.In(api.Releasing)))
		}
	}
}

// TestNominatedNodeIsCheckedOncePerSearch, not for each node of the search.
func TestNominatedNodeIsCheckedOncePerSearch(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":4}; job low queue=q min=1 running=a*4 priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`)
	s.evict(preempt.New())
	s.openSession()
	high := s.Task("high-0")
	check.NoError(t, s.p.prePredicate(high))
	check.That(t, s.p.awaitsNominatedNode(high), "the pod does not await the node that it was promised")
	delete(s.m.nominations, high.Pod.UID)
	check.That(t, s.p.awaitsNominatedNode(high), "the search looks at the promised node twice")
	check.That(t, !s.p.awaitsNominatedNode(s.Task("low-0")), "the answer holds for another pod")
	check.NoError(t, s.p.prePredicate(high))
	check.That(t, !s.p.awaitsNominatedNode(high), "the next search does not look at the promised node")
}

// TestPreemptDoesNotWaitForStuckPods: five minutes after its grace period a pod's resources are
// no longer expected back. Other pods are evicted as if it stayed.
func TestPreemptDoesNotWaitForStuckPods(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text, goes, promised string
		after                time.Duration
	}{
		"it takes its time":         {`node a model=A cards=1; node b model=A cards=1; job hung queue=q min=1 running=a; job low queue=q min=1 running=b priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`, "hung-0", "high-0@a", time.Minute},
		"another node has a victim": {`node a model=A cards=1; node b model=A cards=1; job hung queue=q min=1 running=a; job low queue=q min=1 running=b priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`, "hung-0 low-0", "high-0@b", time.Hour},
		"so has the same node":      {`node a model=A cards=2; job hung queue=q min=1 running=a; job low queue=q min=1 running=a priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`, "hung-0 low-0", "high-0@a", time.Hour},
		"one of two is not enough":  {`node a model=A cards=3; job hung queue=q min=1 running=a; job low queue=q min=1 running=a*2 priorityClass=low; job high queue=q min=1 pending=1 cards=2 priorityClass=high`, "hung-0 low-0 low-1", "high-0@a", time.Hour},
		"no pod may be evicted":     {`node a model=A cards=2; job hung queue=q min=1 running=a; job equal queue=q min=1 running=a priorityClass=high; job high queue=q min=1 pending=1 priorityClass=high`, "hung-0", "", time.Hour},
		"no other pod is there":     {`node a model=A cards=1; job hung queue=q min=1 running=a; job high queue=q min=1 pending=1 priorityClass=high`, "hung-0", "", time.Hour},
		"its job is gone":           {`node a model=A cards=1; node b model=A cards=1; job hung queue=q min=1 running=a; job low queue=q min=1 running=b priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high`, "low-0", "high-0@b", time.Hour},
		"a gang":                    {`node a model=A cards=3; job hung queue=q min=1 running=a; job low queue=q min=1 running=a*2 priorityClass=low; job high queue=q min=2 pending=2 priorityClass=high`, "hung-0 low-0 low-1", "high-0@a high-1@a", time.Hour},
	}) {
		for _, topologyAware := range []bool{false, true} {
			if topologyAware && strings.Contains(tc.promised, "high-1") {
				continue // Volcano's simulation skips nodes where no pod needs to be evicted any more
			}

			s := newScene(t, `queue q quota={"A":24}; `+tc.text, func(p *corev1.Pod) {
				if p.Name == "hung-0" {
					deleted(p)
				}
			})
			if strings.HasPrefix(tc.goes, "low") { // the job of what hangs is gone
				s.Groups = slices.DeleteFunc(s.Groups, func(g *v1beta1.PodGroup) bool { return g.Name == "hung" })
			}

			s.useClock().clock = s.Now.Add(tc.after)
			s.evict(preempt.New(), topologyAwarePreempt(topologyAware))
			s.expectEvictions(tc.goes, tc.promised)
		}
	}
}

// evictedSince is the condition that Volcano writes before it deletes a pod.
func evictedSince(since time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.NewTime(since)})
	}
}

// newConflictScene are pods app=x that fill three nodes, and a gang that must not be beside them.
func newConflictScene(t testing.TB, quota, high string, change func(*corev1.Pod)) *scene {
	return newScene(t, "node a model=A cards=4; node b model=A cards=4; node c model=A cards=4; queue q quota="+quota+"; job low queue=q min=1 running=a*4,b*4,c*4 priorityClass=low; job high queue=q "+high+" priorityClass=high", func(p *corev1.Pod) {
		change(p)
		if strings.HasPrefix(p.Name, "low") {
			p.Labels["app"] = "x"
		}
	})
}

// avoidsX has pods of high keep apart from app=x on their node, wantsPort all pods want
// a port of it.
func avoidsX(p *corev1.Pod) {
	if strings.HasPrefix(p.Name, "high") {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}}}}
	}
}

func wantsPort(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 8080, ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
}

// changeOutside changes the pods app=x that are not on a node. The gang must not be beside them.
func changeOutside(node string, change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		avoidsX(p)
		if node != "" && p.Spec.NodeName != node && strings.HasPrefix(p.Name, "low") {
			change(p)
		}
	}
}

// TestPreemptEvictsConflictingPods: preempt evicts the pods that conflict with the preemptor,
// on as few nodes as its gang needs, and none where a conflicting pod cannot be evicted. After
// three sessions with an outdated API server it has evicted no other pod.
func TestPreemptEvictsConflictingPods(t *testing.T) {
	protected := annotate("volcano.sh/preemptable", "false")
	for t, tc := range check.Cases(t, map[string]struct {
		quota, high    string
		change         func(*corev1.Pod)
		goes, promised int
	}{
		"a gang that fits two nodes":             {`{"A":12}`, "min=6 pending=6", avoidsX, 8, 6},
		"a gang that fits no two nodes":          {`{"A":12}`, "min=10 pending=10", avoidsX, 12, 10},
		"a gang that does not fit at all":        {`{"A":12}`, "min=13 pending=13", avoidsX, 0, 0},
		"one pod":                                {`{"A":12}`, "min=1 pending=1", avoidsX, 4, 1},
		"cards and quota are free":               {`{"A":24}`, "min=1 pending=1 cards=0", avoidsX, 4, 1},
		"who may not be evicted stays elsewhere": {`{"A":12}`, "min=1 pending=1", changeOutside("b", protected), 4, 1},
		"who may not be evicted stays":           {`{"A":12}`, "min=6 pending=6", changeOutside("b", protected), 0, 0},
		"a port of the node": {`{"A":24}`, "min=1 pending=1 cards=0", func(p *corev1.Pod) {
			if p.Name == "low-2" || p.Name == "low-5" || p.Name == "low-9" || p.Name == "high-0" {
				wantsPort(p)
			}
		}, 1, 1},
	}) {
		for _, topologyAware := range []bool{false, true} {
			if topologyAware && !strings.HasPrefix(tc.high, "min=1 ") {
				continue // Volcano's simulation skips nodes where no pod needs to be evicted any more
			}

			s := newConflictScene(t, tc.quota, tc.high, tc.change)
			preempting := topologyAwarePreempt(topologyAware)
			s.evict(preempt.New(), preempting)
			check.Equal(t, fmt.Sprintf("pods that go, topology-aware %v", topologyAware), tc.goes, len(s.In(api.Releasing)))
			check.Equal(t, fmt.Sprintf("pods that are promised a node, topology-aware %v", topologyAware), tc.promised, len(s.In(api.Pipelined)))

			for range 3 {
				s.evict(preempt.New(), preempting)
			}
			check.Equal(t, "go three sessions later", tc.goes, len(s.In(api.Releasing)))
		}
	}
}

// TestPreemptEvictsNoPodsIfQuotaIsInsufficientAnyway: on node a, a pod of low priority has the
// port that the pod needs, but the quota of its card is held by an equal.
func TestPreemptEvictsNoPodsIfQuotaIsInsufficientAnyway(t *testing.T) {
	s := newScene(t, `node a model=A; node b model=B; queue q quota={"A":1,"B":1}; job eq queue=q min=1 running=a priorityClass=high; job low queue=q min=1 running=a cards=0 priorityClass=low
		job less queue=q min=1 running=b card=B priorityClass=low; job high queue=q min=1 pending=1 card=A|B priorityClass=high`, func(p *corev1.Pod) {
		if p.Name == "low-0" || p.Name == "high-0" {
			wantsPort(p)
		}
	})
	s.evict(preempt.New())
	s.expectEvictions("less-0", "high-0@b")
}

// TestEvictionsForOthersOfAGangAreNotWaitedFor: the last session pipelined a pod of a gang, and could not
// place the rest. Now another one preempts on that node, so more pods must go for it.
func TestEvictionsForOthersOfAGangAreNotWaitedFor(t *testing.T) {
	s := newScene(t, `node a model=A cards=2; queue q quota={"A":2} cpu=1000; job la queue=q min=1 running=a priorityClass=low; job lb queue=q min=1 running=a priorityClass=low; job high queue=q min=2 pending=2 priorityClass=high`)
	for _, name := range []string{"high-0", "high-1"} {
		s.m.nominations[s.Pod(name).UID] = nomination{node: "a", since: time.Now()}
	}
	s.evict(preempt.New())
	check.Equal(t, "go", "la:1 lb:1", countByState(s.In(api.Releasing)))
	check.Equal(t, "promised", "high@a:2", countByState(s.In(api.Pipelined)))
}
