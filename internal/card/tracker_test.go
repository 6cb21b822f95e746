package card

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// newNamedNode builds a ready node from the text of newNode.
func newNamedNode(name, text string, changes ...func(*corev1.Node)) *corev1.Node {
	node := newNode(text)
	node.Name = name
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
	}
	for _, change := range changes {
		change(node)
	}
	return node
}

// gpusOf are the labels of a node with NVIDIA's cards of a model, as newNode reads them.
func gpusOf(model string) string {
	return "nvidia.com/gpu.product=" + model + " nvidia.com/gpu.memory=1024 "
}

// readiness sets the status of condition Ready.
func readiness(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Status.Conditions[1].Status = status }
}

func cordon(node *corev1.Node) { node.Spec.Unschedulable = true }

// TestTrackerReportsWhatChangesCards: the scheduler and the operator recount only when Update reports a
// change: of the cards of a node, of its readiness, or of its cordon. Cards of a node that is not ready are
// not healthy, and still physical. Those of a cordoned node are both. Each row updates node a, which has 8
// H200 and is ready; node b keeps its 8 H800. The inventory is built again exactly if the physical cards
// change. The same update once more, or a copy of it, is no change.
func TestTrackerReportsWhatChangesCards(t *testing.T) {
	eightH200 := gpusOf("H200") + "nvidia.com/gpu:8"
	all := map[Name]Count{"H200": 8, "H800": 8}
	onlyB := map[Name]Count{"H800": 8}

	for t, tc := range check.Cases(t, map[string]struct {
		update       *corev1.Node
		wantChanged  bool
		wantPhysical map[Name]Count
		wantHealthy  map[Name]Count
		wantState    string // of node a
	}{
		"only the resource version changes": {
			update:       newNamedNode("a", eightH200, func(node *corev1.Node) { node.ResourceVersion = "2" }),
			wantPhysical: all,
			wantHealthy:  all,
			wantState:    "a ready=true cordoned=false",
		},
		"the same number is written in thousandths": {
			update:       newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:8000m"),
			wantPhysical: all,
			wantHealthy:  all,
			wantState:    "a ready=true cordoned=false",
		},
		"a label that is none of a card changes": {
			update:       newNamedNode("a", eightH200+" nvidia.com/gpu-driver-upgrade-state=done"),
			wantPhysical: all,
			wantHealthy:  all,
			wantState:    "a ready=true cordoned=false",
		},
		"the node is cordoned": {
			update:       newNamedNode("a", eightH200, cordon),
			wantChanged:  true,
			wantPhysical: all,
			wantHealthy:  all,
			wantState:    "a ready=true cordoned=true",
		},
		"the node is not ready": {
			update:       newNamedNode("a", eightH200, readiness(corev1.ConditionFalse)),
			wantChanged:  true,
			wantPhysical: all,
			wantHealthy:  onlyB,
			wantState:    "a ready=false cordoned=false",
		},
		"the kubelet stops its heartbeats": {
			update:       newNamedNode("a", eightH200, readiness(corev1.ConditionUnknown)),
			wantChanged:  true,
			wantPhysical: all,
			wantHealthy:  onlyB,
			wantState:    "a ready=false cordoned=false",
		},
		"the node has no conditions": {
			update:       newNamedNode("a", eightH200, func(node *corev1.Node) { node.Status.Conditions = nil }),
			wantChanged:  true,
			wantPhysical: all,
			wantHealthy:  onlyB,
			wantState:    "a ready=false cordoned=false",
		},
		"one of the 8 cards fails": {
			update:       newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:7"),
			wantChanged:  true,
			wantPhysical: map[Name]Count{"H200": 7, "H800": 8},
			wantHealthy:  map[Name]Count{"H200": 7, "H800": 8},
			wantState:    "a ready=true cordoned=false",
		},
		"the labels name another model": {
			update:       newNamedNode("a", gpusOf("H20")+"nvidia.com/gpu:8"),
			wantChanged:  true,
			wantPhysical: map[Name]Count{"H20": 8, "H800": 8},
			wantHealthy:  map[Name]Count{"H20": 8, "H800": 8},
			wantState:    "a ready=true cordoned=false",
		},
		"the label of the model is empty": {
			update:       newNamedNode("a", gpusOf("")+"nvidia.com/gpu:8"),
			wantChanged:  true,
			wantPhysical: onlyB,
			wantHealthy:  onlyB,
			wantState:    "a ready=true cordoned=false",
		},
	}) {
		var tracker Tracker
		tracker.Replace(map[string]*corev1.Node{
			"a": newNamedNode("a", eightH200),
			"b": newNamedNode("b", gpusOf("H800")+"nvidia.com/gpu:8"),
		})
		before := tracker.Inventory()
		check.Equal(t, "physical before", all, before.Physical())

		check.Equal(t, "changed", tc.wantChanged, tracker.Update(tc.update))
		check.Equal(t, "physical", tc.wantPhysical, tracker.Inventory().Physical())
		check.Equal(t, "healthy", tc.wantHealthy, tracker.Healthy())
		check.Equal(t, "states", []string{tc.wantState, "b ready=true cordoned=false"}, nodeStates(&tracker))

		check.Equal(t, "the inventory is the same pointer", cmp.Equal(all, tc.wantPhysical), before == tracker.Inventory())

		check.That(t, !tracker.Update(tc.update), "the same object is reported as a change")
		check.That(t, !tracker.Update(tc.update.DeepCopy()), "an equal object is reported as a change")
	}
}

// TestTheReasonOfNotReadyIsNoChange: a node whose condition Ready becomes False, and one whose heartbeats stop
// (Unknown), are both not ready. The change from one to the other is none for quotas, so nothing is counted again.
func TestTheReasonOfNotReadyIsNoChange(t *testing.T) {
	var tracker Tracker
	tracker.Update(newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:8", readiness(corev1.ConditionFalse)))
	withoutHeartbeat := newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:8", readiness(corev1.ConditionUnknown))
	check.That(t, !tracker.Update(withoutHeartbeat), "the status Unknown is a change")
}

// nodeStates are the nodes of a tracker, each with what it says about its use.
func nodeStates(tracker *Tracker) (states []string) {
	for _, n := range tracker.Nodes() {
		states = append(states, fmt.Sprintf("%s ready=%t cordoned=%t", n.Name, n.IsReady, n.IsCordoned))
	}
	return states
}

// TestACardStaysOneWithoutNodes: a resource that was a card once stays one when its last node is deleted, or is
// missing in a new list of nodes. Otherwise no quota would limit its pods until the tracker knows the next node with
// it. The first removal is a change, a second one is none.
func TestACardStaysOneWithoutNodes(t *testing.T) {
	noCards := map[Name]Count{}
	for t, removeNode := range check.Cases(t, map[string]func(*Tracker) bool{
		"the node is deleted":               func(tracker *Tracker) bool { return tracker.Delete("a") },
		"a new list of nodes leaves it out": func(tracker *Tracker) bool { return tracker.Replace(nil) },
	}) {
		var tracker Tracker
		tracker.Update(newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:8"))

		check.That(t, removeNode(&tracker), "the removal of a node is no change")
		check.Equal(t, "physical", noCards, tracker.Inventory().Physical())
		check.Equal(t, "healthy", noCards, tracker.Healthy())
		check.That(t, tracker.Inventory().IsCard("nvidia.com/gpu"), "the resource is no card any more")
		check.That(t, !removeNode(&tracker), "the removal of an unknown node is a change")
	}
}

// TestARecordedCardStaysOne: the operator records the resources that are cards, and AddResources adds them after its
// start. So a resource whose last node left before the start is still a card. So is example.com/npu, whose node comes
// and is removed before the inventory is read. Only a resource that the tracker does not know yet is a change.
func TestARecordedCardStaysOne(t *testing.T) {
	var tracker Tracker
	tracker.Update(newNamedNode("b", "example.com/npu.product=Novel-1 example.com/npu.memory=1 example.com/npu:1"))
	tracker.Delete("b")

	check.That(t, tracker.AddResources("huawei.com/Ascend910"), "AddResources reports no change for a new resource")
	check.That(t, !tracker.AddResources("huawei.com/Ascend910", "example.com/npu"), "AddResources reports a change for known resources")
	check.Equal(t, "cards", resources("example.com/npu", "huawei.com/Ascend910"), tracker.Inventory().Resources())
	check.Equal(t, "card names", 0, len(tracker.Inventory().Names()))
}

// TestTrackerEqualsANewInventory: three nodes are updated and deleted at random. A Tracker then has the same cards
// and states as a new one that only sees the last nodes. If cards or states change, it reports a change. A resource
// that was a card stays one.
func TestTrackerEqualsANewInventory(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var tracker Tracker
		nodes := map[string]*corev1.Node{}
		var everCards []corev1.ResourceName
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node")
			before := tracker.Inventory()
			healthy := tracker.Healthy()
			states := tracker.Nodes()

			var changed bool
			if rapid.IntRange(0, 4).Draw(t, "deleted") == 0 {
				delete(nodes, name)
				changed = tracker.Delete(name)
			} else {
				model := rapid.SampledFrom([]string{"", "H200", "H800"}).Draw(t, "model")
				count := rapid.IntRange(0, 2).Draw(t, "count")
				ready := rapid.SampledFrom([]corev1.ConditionStatus{"True", "False"}).Draw(t, "ready")
				nodes[name] = newNamedNode(name, fmt.Sprintf("%snvidia.com/gpu:%d", gpusOf(model), count), readiness(ready))
				nodes[name].Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
				changed = tracker.Update(nodes[name])
			}

			everCards = append(everCards, tracker.Inventory().Resources()...)
			slices.Sort(everCards)
			everCards = slices.Compact(everCards)

			var fresh Tracker
			fresh.Replace(nodes)
			check.Equal(t, "physical", fresh.Inventory().Physical(), tracker.Inventory().Physical())
			check.Equal(t, "healthy", fresh.Healthy(), tracker.Healthy())
			check.Equal(t, "nodes", fresh.Nodes(), tracker.Nodes())
			check.Equal(t, "cards", everCards, tracker.Inventory().Resources())

			isSame := before == tracker.Inventory() && cmp.Equal(healthy, tracker.Healthy()) && cmp.Equal(states, tracker.Nodes())
			check.Must(t, changed || isSame, "something changed, and the tracker reports no change")
		}
	})
}

// TestTrackerFollowsHowCardsAreShared: the label sharing-strategy says whether shares are of time slicing or of MPS.
// A node's state follows it. The name of the share is the same for both, so the inventory stays as it is.
func TestTrackerFollowsHowCardsAreShared(t *testing.T) {
	newSharedNode := func(strategy string) *corev1.Node {
		return newNamedNode("a", gpusOf("H200-SHARED")+"nvidia.com/gpu:8 nvidia.com/gpu.sharing-strategy="+strategy)
	}

	var tracker Tracker
	tracker.Update(newSharedNode("time-slicing"))
	inventory := tracker.Inventory()
	check.Equal(t, "first strategy", map[corev1.ResourceName]string{"nvidia.com/gpu": "time-slicing"}, tracker.Nodes()[0].Sharing)

	check.That(t, !tracker.Update(newSharedNode("time-slicing")), "the same strategy is a change")
	check.That(t, tracker.Update(newSharedNode("mps")), "another strategy is no change")
	check.Equal(t, "second strategy", map[corev1.ResourceName]string{"nvidia.com/gpu": "mps"}, tracker.Nodes()[0].Sharing)
	check.That(t, inventory == tracker.Inventory(), "the inventory was built again although no card changed")

	tracker.Update(newNamedNode("a", gpusOf("H200")+"nvidia.com/gpu:8"))
	check.Equal(t, "strategies of whole cards", 0, len(tracker.Nodes()[0].Sharing))
}
