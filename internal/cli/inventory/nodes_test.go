package inventory

import (
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// listThreeNodes lists node a with 8 H200, node unnamed with 8 cards that no label names, and a node without cards.
func listThreeNodes(isUsageKnown bool, pods ...*corev1.Pod) []nodecards.Node {
	var tracker card.Tracker
	tracker.Update(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	tracker.Update(builder.Node("cpu").Obj())
	tracker.Update(builder.Node("unnamed").Resource("nvidia.com/gpu", "8").Obj())
	resolver := workload.Resolver{Inventory: tracker.Inventory()}
	return nodecards.NewList(tracker.Nodes(), pods, &resolver, isUsageKnown).Items
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

// TestTheStateThatKeepsAllPodsAwayIsShownFirst: a table has one word for a node. Not ready goes before cordoned, and
// both before an anomaly, cards that cannot be recognised: other pods may still use such a node.
func TestTheStateThatKeepsAllPodsAwayIsShownFirst(t *testing.T) {
	for want, node := range map[string]nodecards.Node{
		"Ready":    {Ready: true},
		"NotReady": {Cordoned: true, Anomalies: []string{"x"}},
		"Cordoned": {Ready: true, Cordoned: true, Anomalies: []string{"x"}},
		"Anomaly":  {Ready: true, Anomalies: []string{"x"}},
	} {
		check.Equal(t, "state", want, nodeState(node))
	}
}

// TestListsAreNeverNull: a program that reads JSON can iterate over [], and has to guard against null.
func TestListsAreNeverNull(t *testing.T) {
	list := NewList(v1alpha1.CardInventoryStatus{})
	check.That(t, list.Cards != nil, "cards are null")
	check.That(t, list.Anomalies != nil, "anomalies are null")
	check.That(t, nodecards.NewList(nil, nil, nil, true).Items != nil, "nodes are null")
}

// TestSharesOfDifferentKindsAreShownApart: with MPS or time slicing the device plugin offers each card several times,
// here four times. The names of these cards are alike, so a table has column SHARING. In the table of nodes it says how
// the node shares its cards. In the table of cards it has all ways in which nodes share the card. Without shared cards
// there is no such column.
func TestSharesOfDifferentKindsAreShownApart(t *testing.T) {
	var tracker card.Tracker
	tracker.Update(builder.Node("mps").GPUs("NVIDIA-H200", 8).MPS(4).Obj())
	tracker.Update(builder.Node("slices").GPUs("NVIDIA-H200", 8).MPS(4).Label("nvidia.com/gpu.sharing-strategy", "time-slicing").Obj())
	tracker.Update(builder.Node("whole").GPUs("NVIDIA-H200", 8).Obj())
	nodes := nodecards.NewList(tracker.Nodes(), nil, nil, true)

	var sharing []string
	for _, item := range nodes.Items {
		sharing = append(sharing, item.Name+" "+item.Sharing)
	}
	check.Equal(t, "nodes", []string{"mps mps", "slices time-slicing", "whole "}, sharing)

	status := cardinventory.NewStatus(cardinventory.Input{Nodes: tracker.TrackedNodes(), Cards: tracker.Inventory(), Count: &cardinventory.Count{}})
	cards := NewList(status)
	write := func(table interface {
		Write(out io.Writer, style output.Style) error
	}) string {
		var text strings.Builder
		check.NoError(t, table.Write(&text, output.Style{}))
		return text.String()
	}

	check.Contains(t, "table of nodes", write(nodeTable(nodes)), "SHARING", "time-slicing")
	check.Contains(t, "table of cards", write(cards), "SHARING", "mps,time-slicing")
	onlyWhole := nodecards.NewList(tracker.Nodes()[2:], nil, nil, true)
	check.Text(t, "table of the node with whole cards", write(nodeTable(onlyWhole))).Lacks("SHARING")
}
