package capacitycard

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// opening opens a session in which the pod j-0 waits, without deciding on it.
func opening(t *testing.T, nodes []*corev1.Node, running []*corev1.Pod, waiting *corev1.Pod) (map[string]*api.NodeInfo, *api.TaskInfo) {
	t.Helper()
	ssn := run(t, &uthelper.TestCommonStruct{
		Nodes:     nodes,
		Queues:    []*v1beta1.Queue{quotaQueue("q", `{"A":99,"B":99,"C":99}`)},
		PodGroups: []*v1beta1.PodGroup{group("r", "q", 1, "Running", "1"), group("j", "q", 9, "Pending", "9999")},
		Pods:      append(running, waiting),
	}, nil)
	return ssn.Nodes, ssn.Jobs["ns/j"].Tasks["j-0"]
}

func TestCardsAreTakenInTheOrderWrittenAndNodesFilled(t *testing.T) {
	nodes := []*corev1.Node{cardNode("a1", "A"), cardNode("a2", "A"), cardNode("a3", "A"), cardNode("b1", "B"), cardNode("b2", "B"), cardNode("c1", "C")}
	small := cardNode("a0", "A")
	small.Status.Allocatable[gpu] = resource.MustParse("2")
	tainted := cardNode("a9", "A")
	tainted.Spec.Taints = []corev1.Taint{{Key: "drain", Effect: corev1.TaintEffectPreferNoSchedule}}
	nodes = append(nodes, small, tainted)
	tolerating := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		return p
	}
	preferring := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}}
		return p
	}
	spreading := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.ScheduleAnyway}}
		return p
	}
	pod := func(count, request string) *corev1.Pod { return pods(1, "j", count, request, "")[0] }
	tests := map[string]struct {
		running []*corev1.Pod
		pod     *corev1.Pod
		// scored are the nodes as Volcano scored them.
		scored map[float64][]string
		want   string
	}{
		"the first card before a better score":        {nil, pod("1", "B|A"), map[float64][]string{200: {"a1", "c1"}, 1: {"b1"}}, "b1"},
		"the first card before a node in use":         {pods(4, "r", "1", "A", "a1"), pod("1", "B|A"), map[float64][]string{5: {"a1", "b1"}}, "b1"},
		"the second card when the first has no node":  {nil, pod("1", "B|A"), map[float64][]string{5: {"c1", "a2"}}, "a2"},
		"a node in use before an unused one":          {pods(1, "r", "1", "A", "a3"), pod("1", "A"), map[float64][]string{9: {"a1", "a2"}, 0: {"a3"}}, "a3"},
		"a node in use before a small unused one":     {pods(3, "r", "1", "A", "a1"), pod("1", "A"), map[float64][]string{9: {"a0"}, 0: {"a1"}}, "a1"},
		"a node to be avoided is the last":            {pods(3, "r", "1", "A", "a9"), pod("1", "A"), map[float64][]string{0: {"a1"}, 9: {"a9"}}, "a1"},
		"but before a later card":                     {nil, pod("1", "A|B"), map[float64][]string{0: {"a9"}, 9: {"b1"}}, "a9"},
		"and a pod that tolerates it does not mind":   {pods(3, "r", "1", "A", "a9"), tolerating(pod("1", "A")), map[float64][]string{9: {"a1"}, 0: {"a9"}}, "a9"},
		"the fullest of nodes in use":                 {concat(pods(2, "r", "1", "A", "a1"), pods(5, "r", "1", "A", "a2")), pod("1", "A"), map[float64][]string{9: {"a1"}, 0: {"a2", "a3"}}, "a2"},
		"among equal nodes the better score":          {nil, pod("1", "A"), map[float64][]string{1: {"a1"}, 7: {"a3"}, 3: {"a2"}}, "a3"},
		"among equals of equal score the first name":  {nil, pod("1", "A"), map[float64][]string{1: {"a3", "a2"}}, "a2"},
		"without card.name no card is preferred":      {pods(1, "r", "1", "B", "b1"), pod("1", ""), map[float64][]string{9: {"a1"}, 0: {"b1"}}, "b1"},
		"a pod with preferences goes by the score":    {pods(1, "r", "1", "A", "a3"), preferring(pod("1", "A")), map[float64][]string{9: {"a1"}, 0: {"a3"}}, "a1"},
		"but never by it to a later card":             {nil, preferring(pod("1", "B|A")), map[float64][]string{9: {"a1"}, 0: {"b1"}}, "b1"},
		"a pod that would be spread goes by it too":   {pods(1, "r", "1", "A", "a3"), spreading(pod("1", "A")), map[float64][]string{9: {"a1"}, 0: {"a3"}}, "a1"},
		"a pod without cards is left to the score":    {nil, pod("0", ""), map[float64][]string{9: {"a1"}, 0: {"b1"}}, ""},
		"only nodes of other cards is left to others": {nil, pod("1", "C"), map[float64][]string{9: {"a1"}, 0: {"b1"}}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			infos, task := opening(t, nodes, tc.running, tc.pod)
			scored := map[float64][]*api.NodeInfo{}
			for score, names := range tc.scored {
				for _, name := range names {
					scored[score] = append(scored[score], infos[name])
				}
			}
			for range 20 { // the order of a map must not matter
				got := ""
				if best := opened.bestNode(task, scored); best != nil {
					got = best.Name
				}
				if got != tc.want {
					t.Fatalf("chose %q, want %q", got, tc.want)
				}
			}
		})
	}
}

// TestScoresFollowTheSameOrder: preempt goes by scores alone.
func TestScoresFollowTheSameOrder(t *testing.T) {
	nodes := []*corev1.Node{cardNode("a1", "A"), cardNode("b1", "B"), cardNode("b2", "B"), cardNode("c1", "C")}
	infos, task := opening(t, nodes, concat(pods(8, "r", "1", "A", "a1"), pods(3, "r", "1", "B", "b2")), pods(1, "j", "1", "B|A", "")[0])
	var scores []float64
	for _, node := range []string{"b2", "b1", "a1", "c1"} {
		score, err := opened.nodeOrder(task, infos[node])
		if err != nil {
			t.Fatal(err)
		}
		scores = append(scores, score)
	}
	for i := range scores[1:] {
		if scores[i] <= scores[i+1] {
			t.Errorf("scores of b2, b1, a1, c1 are %v, want them to fall", scores)
		}
	}
	if scores[0] > maxNodeScore || scores[3] != 0 {
		t.Errorf("scores %v, want them within 0 and %d", scores, maxNodeScore)
	}
	opened.args.nodeOrderWeight = 10
	if heavier, _ := opened.nodeOrder(task, infos["b2"]); heavier != 10*scores[0] {
		t.Errorf("with weight 10 the score is %v, want %v", heavier, 10*scores[0])
	}
}

// TestTheOrderIsExactAboveAHundredNodes: the only node of the first card is
// found among 300, whatever Volcano looks at first.
func TestTheOrderIsExactAboveAHundredNodes(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 300 {
		nodes = append(nodes, cardNode(fmt.Sprintf("b%d", i), "B"))
	}
	nodes = append(nodes, cardNode("a", "A"))
	ssn := run(t, &uthelper.TestCommonStruct{
		Nodes: nodes, Queues: []*v1beta1.Queue{quotaQueue("q", `{"A":2,"B":8}`)},
		PodGroups: []*v1beta1.PodGroup{group("j", "q", 3, "Inqueue", "3")}, Pods: pods(3, "j", "1", "A|B", ""),
	}, nil)
	on := placed(ssn, "j")
	if len(on) != 2 || on["a"] != 2 {
		t.Errorf("placed %v, want two on the only A, one on a B", on)
	}
}
