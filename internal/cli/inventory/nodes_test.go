package inventory

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestTheStateThatKeepsAllPodsAwayIsShownFirst: a table has one word for a node. Not ready comes before cordoned, and
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

// hasPods is true for a user who may read pods.
const hasPods = true

// TestListsAreNeverNull: without cards, anomalies or nodes the lists are empty, and not nil. JSON has [] for an empty
// list, over which programs can iterate, and null for nil, against which they would have to guard.
func TestListsAreNeverNull(t *testing.T) {
	list := NewList(v1alpha1.CardInventoryStatus{})
	check.That(t, list.Cards != nil, "cards are null")
	check.That(t, list.Anomalies != nil, "anomalies are null")
	check.That(t, nodecards.NewList(nil, nil, nil, hasPods).Items != nil, "nodes are null")
}

// TestSharesOfDifferentKindsAreShownApart: with MPS or time slicing the device plugin offers each card several times,
// here four times. The names of these cards are alike, so a table has column SHARING. In the table of nodes it says how
// the node shares its cards. In the table of cards it has all ways in which nodes share the card. Without shared cards
// there is no such column.
func TestSharesOfDifferentKindsAreShownApart(t *testing.T) {
	var tracker card.Tracker
	tracker.Update(builder.Node("mps").GPUs("NVIDIA-H200", 8).MPS(4).Obj())
	tracker.Update(builder.Node("slices").GPUs("NVIDIA-H200", 8).MPS(4).Label("nvidia.com/gpu.sharing-strategy", "time-slicing").Obj()) // instead of mps
	tracker.Update(builder.Node("whole").GPUs("NVIDIA-H200", 8).Obj())
	nodes := nodecards.NewList(tracker.Nodes(), nil, nil, hasPods)

	var sharing []string
	for _, item := range nodes.Items {
		sharing = append(sharing, item.Name+" "+item.Sharing)
	}
	check.Equal(t, "nodes", []string{"mps mps", "slices time-slicing", "whole "}, sharing)

	status := cardinventory.NewStatus(cardinventory.Input{Nodes: tracker.TrackedNodes(), Cards: tracker.Inventory(), Count: &cardinventory.Count{}})
	cards := NewList(status)
	check.Contains(t, "table of nodes", nodeTable(nodes).Render(output.Style{}), "SHARING", "time-slicing")
	check.Contains(t, "table of cards", cards.Render(output.Style{}), "SHARING", "mps,time-slicing")
	onlyWhole := nodecards.NewList(tracker.Nodes()[2:], nil, nil, hasPods)
	check.Text(t, "table of the node with whole cards", nodeTable(onlyWhole).Render(output.Style{})).Lacks("SHARING")
}
