package nodecards

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// listThreeNodes lists node a with 8 H200, node unnamed with 8 cards that no label names, and a node without cards.
func listThreeNodes(isUsageKnown bool, pods ...*corev1.Pod) []Node {
	var tracker card.Tracker
	tracker.Update(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	tracker.Update(builder.Node("cpu").Obj())
	tracker.Update(builder.Node("unnamed").Resource("nvidia.com/gpu", "8").Obj())
	return NewList(tracker.Nodes(), pods, &workload.Resolver{Inventory: tracker.Inventory()}, isUsageKnown).Items
}

// TestPodsOnANodeUseItsCards: node a has 8 cards, and each pod requests 3. Pods that are bound to the node use cards
// until they have ended, also while they terminate. Free cards are never negative. The list also has the node whose
// cards no label names, with an anomaly and without card name, and omits the node without cards.
func TestPodsOnANodeUseItsCards(t *testing.T) {
	const isUsageKnown = true
	pod := func() *builder.PodBuilder { return builder.Pod("lab", "p").GPUs(3) }

	for t, tc := range check.Cases(t, map[string]struct {
		pods               []*corev1.Pod
		wantUsed, wantFree int64
	}{
		"no pods":               {nil, 0, 8},
		"a running pod":         {[]*corev1.Pod{pod().Running("a").Obj()}, 3, 5},
		"a terminating pod":     {[]*corev1.Pod{pod().Running("a").Deleted(time.Unix(1, 0)).Obj()}, 3, 5},
		"a finished pod":        {[]*corev1.Pod{pod().Node("a").Phase(corev1.PodSucceeded).Obj()}, 0, 8},
		"a pod without a node":  {[]*corev1.Pod{pod().Obj()}, 0, 8},
		"9 cards used of the 8": {pod().Running("a").Copies(3), 9, 0},
	}) {
		nodes := listThreeNodes(isUsageKnown, tc.pods...)
		check.Must(t, len(nodes) == 2, "nodes %+v", nodes)
		check.Equal(t, "used cards of node a", tc.wantUsed, *nodes[0].Used)
		check.Equal(t, "free cards of node a", tc.wantFree, *nodes[0].Free)

		check.Equal(t, "second node", "unnamed", nodes[1].Name)
		check.Equal(t, "card of the second node", "", nodes[1].Card)
		check.Equal(t, "number of anomalies of the second node", 1, len(nodes[1].Anomalies))
	}
}

// TestUsageIsUnknownWithoutPods: a user who may not list pods sees no numbers for used and free cards, not even 0.
func TestUsageIsUnknownWithoutPods(t *testing.T) {
	const isUsageKnown = false
	a := listThreeNodes(isUsageKnown)[0]
	check.Equal(t, "used", nil, a.Used)
	check.Equal(t, "free", nil, a.Free)
	check.Equal(t, "total", 8, a.Total)
}
