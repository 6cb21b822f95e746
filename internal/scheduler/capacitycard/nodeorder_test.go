package capacitycard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// TestBestNode opens sessions in which the pod j-0 waits. Nodes are scored as Volcano
// scores them, written "score:node,node".
func TestBestNode(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		running, pod, scored, want string
	}{
		"the first card before a better score":        {"", "card=B|A", "200:a1,c1 1:b1", "b1"},
		"the second card when the first has no node":  {"", "card=B|A", "5:c1,a2", "a2"},
		"within a card the better score":              {"running=a1*3", "card=A|B", "1:a1 7:a3 3:a2 9:b1", "a3"},
		"of one card the better score":                {"running=a1*3", "", "1:a1 7:a3 3:a2", "a3"},
		"of equal scores the first name":              {"", "", "1:a3,a2", "a2"},
		"scores below zero":                           {"", "card=A|B", "-5:a3 -9:a2", "a3"},
		"without card.name no card is preferred":      {"running=b1", "card=none", "1:a1 9:b1", "b1"},
		"a pod without cards is left to the score":    {"", "cards=0", "9:a1 0:b1", ""},
		"only nodes of other cards is left to others": {"", "card=C|D", "9:a1 0:b1", ""},
	}) {
		s := newScene(t, `node a1,a2,a3 model=A; node b1,b2 model=B; node c1 model=C; queue q quota={"A":99,"B":99,"C":99}; job r queue=q min=1 `+tc.running).addObjects("job j queue=q min=9 pending=1 minCards=9999 phase=Pending " + tc.pod).enqueueAndAllocate()
		scored := map[float64][]*api.NodeInfo{}
		for _, word := range strings.Fields(tc.scored) {
			var score float64
			var names string
			check.Value(fmt.Sscanf(word, "%f:%s", &score, &names))(t)
			for _, name := range strings.Split(names, ",") {
				scored[score] = append(scored[score], s.Ssn.Nodes[name])
			}
		}

		for range 20 { // the order of a map must not matter
			got := ""
			if best := s.p.bestNode(s.Task("j-0"), scored); best != nil {
				got = best.Name
			}
			check.Must(t, got == tc.want, "chose %q, want %q", got, tc.want)
		}
	}
}

// TestScoresFollowTheSameOrder: preempt uses only the scores.
func TestScoresFollowTheSameOrder(t *testing.T) {
	s := newScene(t, `node a1 model=A; node b1,b2 model=B; node c1 model=C; queue q quota={"A":99,"B":99,"C":99}; job r queue=q min=1 running=a1*7; job x queue=q min=1 running=b2*3 card=B; job j queue=q min=9 pending=1 card=B|A minCards=9999 phase=Pending`).enqueueAndAllocate()
	score := func(node string) float64 { return s.scoreOf("j-0", node) }
	scores := []float64{score("c1"), score("a1"), score("b1"), score("b2")}
	check.That(t, slices.IsSorted(scores) && len(slices.Compact(slices.Clone(scores))) == 4 && scores[0] == 0,
		"scores of c1, a1, b1, b2 are %v, want them to rise from 0", scores)
	check.That(t, scores[2]-scores[1] >= packingScore/2, "the first card scores %v more, want much", scores[2]-scores[1])
}

// TestPackingWeight: the weight multiplies it, preferences of a pod leave a fifth, and
// a node to be avoided is not packed.
func TestPackingWeight(t *testing.T) {
	preferring := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}}
	}
	spreading := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.ScheduleAnyway}}
	}

	tolerating := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
	scene := func(change func(*corev1.Pod)) *scene {
		s := newScene(t, `node a1,a2 model=A; queue q quota={"A":99}; job r queue=q min=1 running=a1*3,a2*3; job j queue=q min=1 pending=1 minCards=9999 phase=Pending`, change)
		s.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "drain", Effect: corev1.TaintEffectPreferNoSchedule}}
		return s
	}

	base := scene(nil).openSession().scoreOf("j-0", "a1")
	check.That(t, base > 0 && base <= packingScore, "the score is %v, want at most %d", base, packingScore)
	check.Equal(t, "with weight 10", 10*base, scene(nil).withArguments(map[string]any{"nodeOrderWeight": 10}).openSession().scoreOf("j-0", "a1"))
	check.Equal(t, "beside a preferred affinity", base*preferenceFactor, scene(preferring).openSession().scoreOf("j-0", "a1"))
	check.Equal(t, "beside preferred spreading", base*preferenceFactor, scene(spreading).openSession().scoreOf("j-0", "a1"))
	check.Equal(t, "to be avoided", 0, scene(nil).openSession().scoreOf("j-0", "a2"))
	check.Equal(t, "to be avoided, and tolerated", base, scene(tolerating).openSession().scoreOf("j-0", "a2"))

	topology := scene(nil)
	topology.Groups[1].Annotations["volcano.sh/task-topology-anti-affinity"] = "w"
	check.Equal(t, "beside a task topology", base*preferenceFactor, topology.openSession().scoreOf("j-0", "a1"))
	for _, affinity := range []v1beta1.Affinity{
		{NodeGroupAffinity: &v1beta1.NodeGroupAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []string{"g"}}},
		{NodeGroupAntiAffinity: &v1beta1.NodeGroupAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []string{"g"}}},
	} {
		groups := scene(nil).changeQueue("q", func(q *v1beta1.Queue) { q.Spec.Affinity = &affinity })
		check.Equal(t, "beside preferred node groups", base*preferenceFactor, groups.openSession().scoreOf("j-0", "a1"))
	}
}

// scoreOf is the plugin's own score of a node for a pod.
func (s *scene) scoreOf(pod, node string) float64 {
	return check.Value(s.p.nodeOrder(s.Task(pod), s.Ssn.Nodes[node]))(s.t)
}

// TestOrderIsExactAboveAHundredNodes: the only node of the first card is
// found among 300, whatever Volcano looks at first.
func TestOrderIsExactAboveAHundredNodes(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":2,"B":8}; job j queue=q min=3 pending=3 card=A|B`)
	for i := range 300 {
		s.addObjects(fmt.Sprintf("node b%d model=B", i))
	}
	on := strings.Fields(s.enqueueAndAllocate().podsByNode("j"))
	check.That(t, len(on) == 2 && on[0] == "a:2", "placed %v, want two on the only A, one on a B", on)
}

// TestNodeOfTheGangIsCheckedOutsideTheSample: Volcano looks at a sample of 300 nodes, which need not
// contain the one that holds pods of the same job.
func TestNodeOfTheGangIsCheckedOutsideTheSample(t *testing.T) {
	for _, own := range []int{0, 60, 120, 180, 240, 299} {
		s := newScene(t, `queue q quota={"A":99}`)
		for i := range 300 {
			s.addObjects(fmt.Sprintf("node a%d model=A", i))
		}
		s.addObjects(fmt.Sprintf("job j queue=q min=2 running=a%d pending=4", own)).enqueueAndAllocate()
		check.Equal(t, "placed", fmt.Sprintf("a%d:5", own), s.podsByNode("j"))
	}
}

// TestSampleOfNodes: all for a pod that names alternatives, as many as the
// flag says for any other one, and the flag is as it was when the session is closed.
func TestSampleOfNodes(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":8}; job one queue=q min=1 pending=1 card=A; job any queue=q min=1 pending=1 card=none; job two queue=q min=1 pending=1 card=A|B; job none queue=q min=1 pending=1 cards=0`).openSession()
	for pod, want := range map[string]int32{"one-0": 0, "any-0": 0, "two-0": 100, "none-0": 0} {
		check.NoError(t, s.Ssn.PrePredicateFn(s.Task(pod)))
		check.Equal(t, "percentage for "+pod, want, options.ServerOpts.PercentageOfNodesToFind)
	}
	check.NoError(t, s.Ssn.PrePredicateFn(s.Task("two-0")))
	s.Close()
	check.Equal(t, "percentage after the session", 0, options.ServerOpts.PercentageOfNodesToFind)
}
