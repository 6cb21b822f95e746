package capacitycard

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// TestBestNodeHasTheFirstCardAndThenTheHighestScore: Volcano scores the nodes on which a pod fits, and asks this
// plugin for the best one. The plugin takes a node with the first card of the pod's alternatives that any scored node
// has. Among those it takes the highest score, and among equal scores the first name. Nodes a1 to a3 have card A, b1
// and b2 card B, c1 card C. The row gives Volcano's scores. How full a node is (running) does not count here. Pod j-0
// is not placed: its job needs 9999 cards to be enqueued.
func TestBestNodeHasTheFirstCardAndThenTheHighestScore(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		running, pod string
		scored       map[float64]string // nodes by score
		want         string             // "" if the plugin leaves the choice to Volcano
	}{
		"B|A: the B before an A with a higher score": {
			pod: "card=B|A", scored: map[float64]string{200: "a1 c1", 1: "b1"}, want: "b1",
		},
		"B|A, no node with B is scored: the A": {
			pod: "card=B|A", scored: map[float64]string{5: "c1 a2"}, want: "a2",
		},
		"A|B: the A with the highest score": {
			running: "running=a1*3", pod: "card=A|B", scored: map[float64]string{1: "a1", 7: "a3", 3: "a2", 9: "b1"}, want: "a3",
		},
		"A: the highest score": {
			running: "running=a1*3", scored: map[float64]string{1: "a1", 7: "a3", 3: "a2"}, want: "a3",
		},
		"A, equal scores: the first name": {
			scored: map[float64]string{1: "a3 a2"}, want: "a2",
		},
		"A|B, scores below zero: the higher one": {
			pod: "card=A|B", scored: map[float64]string{-5: "a3", -9: "a2"}, want: "a3",
		},
		"no card is named: the highest score, whatever the card": {
			running: "running=b1", pod: "card=none", scored: map[float64]string{1: "a1", 9: "b1"}, want: "b1",
		},
		"the pod requests no cards: Volcano chooses": {
			pod: "cards=0", scored: map[float64]string{9: "a1", 0: "b1"}, want: "",
		},
		"C|D, no scored node has either: Volcano chooses": {
			pod: "card=C|D", scored: map[float64]string{9: "a1", 0: "b1"}, want: "",
		},
	}) {
		s := newScene(t, `node a1,a2,a3 model=A
			node b1,b2 model=B
			node c1 model=C
			queue q quota={"A":99,"B":99,"C":99}
			job r queue=q min=1 `+tc.running+`
			job j queue=q min=9 pending=1 minCards=9999 phase=Pending `+tc.pod).enqueueAndAllocate()
		scored := map[float64][]*api.NodeInfo{}
		for score, names := range tc.scored {
			for name := range strings.FieldsSeq(names) {
				scored[score] = append(scored[score], s.Ssn.Nodes[name])
			}
		}

		for range 20 { // the order of a map must not matter
			best := s.p.nodes.bestNode(s.Task("j-0"), scored) // nil if Volcano chooses
			check.Must(t, best == s.Ssn.Nodes[tc.want], "chose %v, want %q", best, tc.want)
		}
	}
}

// scoreOf returns this plugin's score of a node for a pod.
func (s *scene) scoreOf(pod, node string) float64 {
	return check.Value(s.p.nodes.nodeOrder(s.Task(pod), s.Ssn.Nodes[node]))(s.t)
}

// TestScoresFollowTheOrderOfAlternatives: Volcano's action preempt asks no plugin for the best node; it takes the
// highest score. So the scores too must prefer the first alternative. Pod j-0 accepts "B|A". c1 has neither card
// and scores 0. a1 is the fullest node, with 7 of 8 cards in use, but has the second alternative. b1 is unused, and
// scores at least half of packingScore more, the most that a full node gains. b2 has 3 cards in use, and scores more
// than b1. Job j needs 9999 cards to be enqueued, so j-0 stays pending.
func TestScoresFollowTheOrderOfAlternatives(t *testing.T) {
	s := newScene(t, `node a1 model=A
		node b1,b2 model=B
		node c1 model=C
		queue q quota={"A":99,"B":99,"C":99}
		job r queue=q min=1 running=a1*7
		job x queue=q min=1 running=b2*3 card=B
		job j queue=q min=9 pending=1 card=B|A minCards=9999 phase=Pending`).enqueueAndAllocate()
	a1 := s.scoreOf("j-0", "a1")
	b1 := s.scoreOf("j-0", "b1")
	b2 := s.scoreOf("j-0", "b2")

	check.Equal(t, "score of the node without such a card", 0, s.scoreOf("j-0", "c1"))
	check.That(t, a1 > 0, "the A scores %v, want more than 0", a1)
	check.That(t, b1-a1 >= packingScore/2, "the unused B scores only %v more than the full A: packing could outweigh that", b1-a1)
	check.That(t, b2 > b1, "the B in use scores %v, want more than the unused one with %v", b2, b1)
}

// TestPackingScoreFollowsWeightAndPreferences: nodeOrderWeight multiplies the plugin's score for packing. If the pod,
// its job or its queue prefers nodes itself, a fifth of that score is left (preferenceFactor), so that the preference
// decides. A node with a PreferNoSchedule taint scores 0, unless the pod tolerates the taint. a1 and a2 both have 3 of
// 8 cards in use, and only a2 has the taint.
func TestPackingScoreFollowsWeightAndPreferences(t *testing.T) {
	newTaintedScene := func(t *testing.T, change func(*corev1.Pod)) *scene {
		s := newScene(t, `node a1,a2 model=A
			queue q quota={"A":99}
			job r queue=q min=1 running=a1*3,a2*3
			job j queue=q min=1 pending=1`, change)
		s.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "drain", Effect: corev1.TaintEffectPreferNoSchedule}}
		return s
	}

	base := newTaintedScene(t, nil).openSession().scoreOf("j-0", "a1")
	check.That(t, base > 0 && base <= packingScore, "the score is %v, want at most %d", base, packingScore)

	preferredGroup := []string{"g"}
	for t, tc := range check.Cases(t, map[string]struct {
		change     func(*corev1.Pod)
		args       map[string]any
		affinity   *v1beta1.Affinity // of the queue
		topology   string            // of the job's tasks
		node       string
		wantFactor float64 // times the score of a1 without changes
	}{
		"the weight is 10": {args: map[string]any{"nodeOrderWeight": 10}, node: "a1", wantFactor: 10},
		"the pod prefers nodes": {
			change: func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}},
				}}
			},
			node: "a1", wantFactor: preferenceFactor,
		},
		"the pod prefers to be spread": {
			change: func(p *corev1.Pod) {
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.ScheduleAnyway}}
			},
			node: "a1", wantFactor: preferenceFactor,
		},
		"the job prefers to keep its tasks apart": {topology: "w", node: "a1", wantFactor: preferenceFactor},
		"the queue prefers a node group": {
			affinity: &v1beta1.Affinity{NodeGroupAffinity: &v1beta1.NodeGroupAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: preferredGroup,
			}},
			node: "a1", wantFactor: preferenceFactor,
		},
		"the queue would rather avoid a node group": {
			affinity: &v1beta1.Affinity{NodeGroupAntiAffinity: &v1beta1.NodeGroupAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: preferredGroup,
			}},
			node: "a1", wantFactor: preferenceFactor,
		},
		"the node has the taint": {node: "a2", wantFactor: 0},
		"the node has the taint, and the pod tolerates it": {
			change: func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} },
			node:   "a2", wantFactor: 1,
		},
	}) {
		s := newTaintedScene(t, tc.change).withArguments(tc.args)
		s.Queues[0].Spec.Affinity = tc.affinity
		s.Groups[1].Annotations["volcano.sh/task-topology-anti-affinity"] = tc.topology

		check.Equal(t, "score", base*tc.wantFactor, s.openSession().scoreOf("j-0", tc.node))
	}
}

// TestFirstAlternativeIsFoundAmongManyNodes: of more than a hundred nodes Volcano looks at a sample. For a pod with
// alternatives, "A|B", it must not miss the only node with A among 300 with B, wherever it is in the list. The gang
// has three pods and the quota of A is 2, so the third pod gets a B.
func TestFirstAlternativeIsFoundAmongManyNodes(t *testing.T) {
	for _, place := range []int{0, 60, 120, 180, 240, 300} { // of node a in the list
		s := newScene(t, `queue q quota={"A":2,"B":8}
			job j queue=q min=3 pending=3 card=A|B`)
		for i := range 301 {
			if i == place {
				s.addObjects("node a model=A")
			} else {
				s.addObjects(fmt.Sprintf("node b%d model=B", i))
			}
		}

		placed := strings.Fields(s.enqueueAndAllocate().podsByNode("j"))
		check.That(t, len(placed) == 2 && placed[0] == "a:2", "placed %v, want two pods on the only A and one on a B", placed)
	}
}

// TestNodeOfTheGangIsCheckedOutsideTheSample: Volcano's sample of 300 nodes need not contain the node that already
// has pods of the gang. This plugin checks it besides. So the 4 waiting pods join the running one on its node of 8
// cards, wherever it is in the list.
func TestNodeOfTheGangIsCheckedOutsideTheSample(t *testing.T) {
	for _, gangNode := range []int{0, 60, 120, 180, 240, 299} {
		s := newScene(t, `queue q quota={"A":99}`)
		for i := range 300 {
			s.addObjects(fmt.Sprintf("node a%d model=A", i))
		}

		s.addObjects(fmt.Sprintf("job j queue=q min=2 running=a%d pending=4", gangNode)).enqueueAndAllocate()
		check.Equal(t, "placed", fmt.Sprintf("a%d:5", gangNode), s.podsByNode("j")) // 1 running + 4 pending
	}
}

// TestAllNodesAreSearchedForAPodWithAlternatives: Volcano's flag --percentage-nodes-to-find is the size of the
// sample, and 0 lets Volcano choose it. The plugin sets it to 100 % while Volcano looks for nodes for a pod with
// alternatives (job two). For every other pod, and when the session closes, it is what the flag says: 0.
func TestAllNodesAreSearchedForAPodWithAlternatives(t *testing.T) {
	s := newScene(t, `node a model=A
		queue q quota={"A":8}
		job one queue=q min=1 pending=1 card=A
		job any queue=q min=1 pending=1 card=none
		job two queue=q min=1 pending=1 card=A|B
		job none queue=q min=1 pending=1 cards=0`).openSession()
	percentageFor := func(pod string) int32 {
		check.NoError(t, s.Ssn.PrePredicateFn(s.Task(pod)))
		return options.ServerOpts.PercentageOfNodesToFind
	}

	for _, pod := range []string{"one-0", "any-0", "none-0"} {
		check.Equal(t, "percentage for two-0, before "+pod, 100, percentageFor("two-0"))
		check.Equal(t, "percentage for "+pod, 0, percentageFor(pod))
	}

	check.Equal(t, "percentage for two-0", 100, percentageFor("two-0"))
	s.Close()
	check.Equal(t, "percentage after the session", 0, options.ServerOpts.PercentageOfNodesToFind)
}
