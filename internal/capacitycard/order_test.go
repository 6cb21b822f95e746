package capacitycard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// TestCardsAreTakenInTheOrderWrittenAndNodesFilled opens sessions in which the
// pod j-0 waits, and scores nodes as Volcano does, written "score:node,node".
func TestCardsAreTakenInTheOrderWrittenAndNodesFilled(t *testing.T) {
	tolerating := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
	preferring := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}}
	}
	spreading := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.ScheduleAnyway}}
	}
	as := func(*corev1.Pod) {}
	for name, tc := range map[string]struct {
		running, pod string
		change       func(*corev1.Pod)
		scored, want string
	}{
		"the first card before a better score":        {"", "card=B|A", as, "200:a1,c1 1:b1", "b1"},
		"the first card before a node in use":         {"a1*4", "card=B|A", as, "5:a1,b1", "b1"},
		"the second card when the first has no node":  {"", "card=B|A", as, "5:c1,a2", "a2"},
		"a node in use before an unused one":          {"a3", "", as, "9:a1,a2 0:a3", "a3"},
		"a node in use before a small unused one":     {"a1*3", "", as, "9:a0 0:a1", "a1"},
		"a node to be avoided is the last":            {"a9*3", "", as, "0:a1 9:a9", "a1"},
		"but before a later card":                     {"", "card=A|B", as, "0:a9 9:b1", "a9"},
		"and a pod that tolerates it does not mind":   {"a9*3", "", tolerating, "9:a1 0:a9", "a9"},
		"the fullest of nodes in use":                 {"a1*2 a2*5", "", as, "9:a1 0:a2,a3", "a2"},
		"among equal nodes the better score":          {"", "", as, "1:a1 7:a3 3:a2", "a3"},
		"among equals of equal score the first name":  {"", "", as, "1:a3,a2", "a2"},
		"without card.name no card is preferred":      {"b1", "card=-", as, "9:a1 0:b1", "b1"},
		"a pod with preferences goes by the score":    {"a3", "", preferring, "9:a1 0:a3", "a1"},
		"but never by it to a later card":             {"", "card=B|A", preferring, "9:a1 0:b1", "b1"},
		"a pod that would be spread goes by it too":   {"a3", "", spreading, "9:a1 0:a3", "a1"},
		"a pod without cards is left to the score":    {"", "cards=0", as, "9:a1 0:b1", ""},
		"only nodes of other cards is left to others": {"", "card=C", as, "9:a1 0:b1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, `node a1,a2,a3,a9 A; node a0 A 2; node b1,b2 B; node c1 C; queue q {"A":99,"B":99,"C":99}; r q 1: `+tc.running).add("j q 9: - least=9999 phase=Pending "+tc.pod, tc.change)
			for _, node := range s.Nodes {
				if node.Name == "a9" {
					node.Spec.Taints = []corev1.Taint{{Key: "drain", Effect: corev1.TaintEffectPreferNoSchedule}}
				}
			}
			s.run()
			scored := map[float64][]*api.NodeInfo{}
			for _, word := range strings.Fields(tc.scored) {
				var score float64
				var names string
				_, err := fmt.Sscanf(word, "%f:%s", &score, &names)
				check.Must(t, err == nil, "%v", err)
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
		})
	}
}

// TestScoresFollowTheSameOrder: preempt goes by scores alone.
func TestScoresFollowTheSameOrder(t *testing.T) {
	s := newScene(t, `node a1 A; node b1,b2 B; node c1 C; queue q {"A":99,"B":99,"C":99}; r q 1: a1*8; x q 1: b2*3 card=B; j q 9: - card=B|A least=9999 phase=Pending`).run()
	scoreOf := func(node string) float64 {
		score, err := s.p.nodeOrder(s.Task("j-0"), s.Ssn.Nodes[node])
		check.NoError(t, err)
		return score
	}
	scores := []float64{scoreOf("c1"), scoreOf("a1"), scoreOf("b1"), scoreOf("b2")}
	check.That(t, slices.IsSorted(scores) && len(slices.Compact(slices.Clone(scores))) >= 4 && scores[0] == 0 && scores[3] <= maxNodeScore,
		"scores of c1, a1, b1, b2 are %v, want them to rise from 0 to at most %d", scores, maxNodeScore)
	s.p.args.nodeOrderWeight = 10
	check.Equal(t, "with weight 10 the score", 10*scores[3], scoreOf("b2"))
}

// TestTheOrderIsExactAboveAHundredNodes: the only node of the first card is
// found among 300, whatever Volcano looks at first.
func TestTheOrderIsExactAboveAHundredNodes(t *testing.T) {
	s := newScene(t, `node a A; queue q {"A":2,"B":8}; j q 3: -*3 card=A|B`)
	for i := range 300 {
		s.add(fmt.Sprintf("node b%d B", i))
	}
	on := strings.Fields(s.run().on("j"))
	check.That(t, len(on) == 2 && on[0] == "a:2", "placed %v, want two on the only A, one on a B", on)
}

// TestANodeOfTheGangIsLookedAt: Volcano looks at a sample of 300 nodes, which need not
// contain the one that holds pods of the same job.
func TestANodeOfTheGangIsLookedAt(t *testing.T) {
	for _, own := range []int{0, 60, 120, 180, 240, 299} {
		s := newScene(t, `queue q {"A":99}`)
		for i := range 300 {
			s.add(fmt.Sprintf("node a%d A", i))
		}
		s.add(fmt.Sprintf("j q 2: a%d -*4", own)).run()
		check.Equal(t, "placed", fmt.Sprintf("a%d:5", own), s.on("j"))
	}
}

// TestHowManyNodesAreLookedAt: all for a pod that names alternatives, as many as the
// flag says for any other one, and the flag is as it was when the session is closed.
func TestHowManyNodesAreLookedAt(t *testing.T) {
	s := newScene(t, `node a A; queue q {"A":8}; one q 1: - card=A; any q 1: - card=-; two q 1: - card=A|B; none q 1: - cards=0`).open()
	for pod, want := range map[string]int32{"one-0": 0, "any-0": 0, "two-0": 100, "none-0": 0} {
		check.NoError(t, s.Ssn.PrePredicateFn(s.Task(pod)))
		check.Equal(t, "percentage for "+pod, want, options.ServerOpts.PercentageOfNodesToFind)
	}
	check.NoError(t, s.Ssn.PrePredicateFn(s.Task("two-0")))
	s.Close()
	check.Equal(t, "percentage after the session", 0, options.ServerOpts.PercentageOfNodesToFind)
}
