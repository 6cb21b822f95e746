package capacitycard

import (
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// podCards are the cards of a pod, and of all pods that its gang still lacks for its minimum, with this one.
type podCards struct{ pod, gang float64 }

// scoreFor returns the score of a node for a pod.
func scoreFor(pod podCards, node placement) float64 {
	node.cards = pod.pod
	node.restCards = pod.gang
	return node.score()
}

// TestPackingPrefersFullerNodes: nodes are compared for one pod, and the better one scores higher. First comes a node
// on which pods of the gang already are, then one that fits the rest of the gang, then the fuller one. That keeps
// gangs together, and whole nodes free for the next gang. A node with a PreferNoSchedule taint (avoided) comes last. Of a
// node, total are all cards and idle the free ones. hasGang: pods of the gang already are there. fitsRest: all waiting pods
// of the gang fit. pods: so many of them fit now; none fits where the pod must wait.
func TestPackingPrefersFullerNodes(t *testing.T) {
	single := podCards{pod: 1, gang: 1}     // the cards of the pod, and of all waiting pods of its gang
	gangOfFour := podCards{pod: 2, gang: 8} // 4 pods of 2 cards

	for t, tc := range check.Cases(t, map[string]struct {
		pod           podCards
		better, worse placement
	}{
		"a node in use comes before an unused one": {
			pod:    single,
			better: placement{total: 8, idle: 5, fitsRest: true, pods: 5},
			worse:  placement{total: 8, idle: 8, fitsRest: true, pods: 8},
		},
		"of two nodes in use the fuller one comes first": {
			pod:    single,
			better: placement{total: 8, idle: 1, fitsRest: true, pods: 1},
			worse:  placement{total: 8, idle: 2, fitsRest: true, pods: 2},
		},
		"of two unused nodes the smaller one comes first": {
			pod:    single,
			better: placement{total: 2, idle: 2, fitsRest: true, pods: 2},
			worse:  placement{total: 8, idle: 8, fitsRest: true, pods: 8},
		},
		"an unused node for the whole gang comes before a fuller one for two of its pods": {
			pod:    gangOfFour,
			better: placement{total: 8, idle: 8, fitsRest: true, pods: 4},
			worse:  placement{total: 8, idle: 4, pods: 2},
		},
		"the node where pods of the gang are comes before one for all the others": {
			pod:    gangOfFour,
			better: placement{total: 8, idle: 2, hasGang: true, pods: 1},
			worse:  placement{total: 8, idle: 8, fitsRest: true, pods: 4},
		},
		"where the gang must be split, the node for three pods comes before the fuller one for one": {
			pod:    gangOfFour,
			better: placement{total: 8, idle: 6, pods: 3},
			worse:  placement{total: 8, idle: 2, pods: 1},
		},
		"an unused node that the gang fills comes before one that it half fills": {
			pod:    gangOfFour,
			better: placement{total: 8, idle: 8, fitsRest: true, pods: 4},
			worse:  placement{total: 16, idle: 16, fitsRest: true, pods: 8},
		},
		"an unused node comes before one with a PreferNoSchedule taint, even beside pods of the gang": {
			pod:    single,
			better: placement{total: 8, idle: 8, fitsRest: true, pods: 8},
			worse:  placement{total: 8, idle: 1, avoided: true, hasGang: true, fitsRest: true, pods: 1},
		},
		"a node where the pod fits now comes before a full one": {
			pod:    single,
			better: placement{total: 8, idle: 8, fitsRest: true, pods: 8},
			worse:  placement{total: 8, idle: 0},
		},
		"of two nodes where the pod must wait for others to end, the fuller one comes first": {
			pod:    single,
			better: placement{total: 8, idle: 1},
			worse:  placement{total: 8, idle: 4},
		},
	}) {
		better := scoreFor(tc.pod, tc.better)
		worse := scoreFor(tc.pod, tc.worse)

		check.That(t, better > worse, "the better node %+v scores %v, the worse one %+v %v", tc.better, better, tc.worse, worse)
	}
}

// TestScoreStepsDoNotOverlap draws two nodes of up to 80 cards for a pod of 1 to 8 cards in a gang of 1 to 8 pods. A
// node that already has pods of the gang is one step above a node that fits the rest of it. That one is a step above
// all others. However full nodes are, a higher step scores at least scoreStep more. All scores are from 0 to 1.
func TestScoreStepsDoNotOverlap(t *testing.T) {
	step := func(node placement) int {
		switch {
		case node.hasGang:
			return 2
		case node.fitsRest:
			return 1
		}
		return 0
	}

	seed.Check(t, func(t *rapid.T) {
		drawNode := func(label string) placement {
			total := rapid.IntRange(0, 80).Draw(t, label+" total")
			return placement{
				total:    float64(total),
				idle:     float64(rapid.IntRange(-1, total).Draw(t, label+" idle")), // -1: more are used than there are
				hasGang:  rapid.Bool().Draw(t, label+" has pods of the gang"),
				fitsRest: rapid.Bool().Draw(t, label+" fits the rest"),
				pods:     rapid.IntRange(0, 80).Draw(t, label+" pods"),
			}
		}

		cards := float64(rapid.IntRange(1, 8).Draw(t, "cards"))
		pod := podCards{pod: cards, gang: cards * float64(rapid.IntRange(1, 8).Draw(t, "pods"))}
		a := drawNode("a")
		b := drawNode("b")
		scoreA := scoreFor(pod, a)
		scoreB := scoreFor(pod, b)

		check.Must(t, min(scoreA, scoreB) >= 0 && max(scoreA, scoreB) <= 1, "scores %v and %v are not from 0 to 1", scoreA, scoreB)
		const rounding = 1e-9
		check.Must(t, step(a) <= step(b) || scoreA-scoreB >= scoreStep-rounding, "%v and %v are not a step apart: %+v, %+v", scoreA, scoreB, a, b)
	})
}
