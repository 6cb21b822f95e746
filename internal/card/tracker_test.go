package card

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

func trackedGPUs(name, model, count string, changes ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": "1024"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(count)},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeDiskPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(node)
	}
	return node
}

func readiness(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[1].Status = status }
}

func TestTracker(t *testing.T) {
	var tracker Tracker
	expect := func(when string, changed, wantChanged bool, physical, healthy map[Name]Count) {
		check.Equal(t, when+": changed", wantChanged, changed)
		check.Equal(t, when+": physical", physical, tracker.Inventory().Physical())
		check.Equal(t, when+": healthy", healthy, tracker.Healthy())
	}

	both := map[Name]Count{"H200": 8, "H800": 8}
	a := trackedGPUs("a", "H200", "8")
	expect("first", tracker.Replace(map[string]*corev1.Node{"a": a, "b": trackedGPUs("b", "H800", "8")}), true, both, both)
	before := tracker.Inventory()

	expect("the same object", tracker.Update(a), false, both, both)
	expect("a heartbeat", tracker.Update(trackedGPUs("a", "H200", "8", func(n *corev1.Node) { n.ResourceVersion = "2" })), false, both, both)
	expect("the same amount in another writing", tracker.Update(trackedGPUs("a", "H200", "8000m")), false, both, both)
	expect("a label that is none of a card", tracker.Update(trackedGPUs("a", "H200", "8", func(n *corev1.Node) { n.Labels["nvidia.com/gpu-driver-upgrade-state"] = "done" })), false, both, both)
	expect("a cordon", tracker.Update(trackedGPUs("a", "H200", "8", func(n *corev1.Node) { n.Spec.Unschedulable = true })), true, both, both)
	check.Equal(t, "states", []string{"a ready cordoned", "b ready"}, statesOf(&tracker))

	expect("the same cordon", tracker.Update(trackedGPUs("a", "H200", "8", func(n *corev1.Node) { n.Spec.Unschedulable = true })), false, both, both)
	expect("a node that is not ready", tracker.Update(trackedGPUs("a", "H200", "8", readiness(corev1.ConditionFalse))), true, both, map[Name]Count{"H800": 8})
	check.Equal(t, "states", []string{"a", "b ready"}, statesOf(&tracker))
	check.That(t, tracker.Inventory() == before, "the inventory was made again although no cards changed")

	expect("a node without a heartbeat", tracker.Update(trackedGPUs("a", "H200", "8", readiness(corev1.ConditionUnknown))), false, both, map[Name]Count{"H800": 8})
	expect("a node that never said anything", tracker.Update(trackedGPUs("a", "H200", "8", func(n *corev1.Node) { n.Status.Conditions = nil })), false, both, map[Name]Count{"H800": 8})
	failed := map[Name]Count{"H200": 7, "H800": 8}
	expect("a failed card", tracker.Update(trackedGPUs("a", "H200", "7")), true, failed, failed)

	other := map[Name]Count{"H20": 8, "H800": 8}
	expect("another model", tracker.Update(trackedGPUs("a", "H20", "8")), true, other, other)
	expect("a node that does not name its card", tracker.Update(trackedGPUs("a", "", "8")), true, map[Name]Count{"H800": 8}, map[Name]Count{"H800": 8})
	expect("a node that goes", tracker.Delete("b"), true, map[Name]Count{}, map[Name]Count{})
	expect("a node that is gone", tracker.Delete("b"), false, map[Name]Count{}, map[Name]Count{})
	expect("no node", tracker.Replace(nil), true, map[Name]Count{}, map[Name]Count{})
	check.That(t, tracker.Inventory().IsCard("nvidia.com/gpu"), "a resource that was a card does not stay one")
}

// statesOf is what the tracker says of each node.
func statesOf(tracker *Tracker) []string {
	var states []string
	for _, n := range tracker.Nodes() {
		state := n.Name
		if n.IsReady {
			state += " ready"
		}
		if n.IsCordoned {
			state += " cordoned"
		}
		states = append(states, state)
	}

	return states
}

// TestACardStaysOne: a node that is deleted before the inventory is read, and one that was
// before the start.
func TestACardStaysOne(t *testing.T) {
	var tracker Tracker
	tracker.Update(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"example.com/npu.product": "Novel-1", "example.com/npu.memory": "1"}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"example.com/npu": resource.MustParse("1")}},
	})
	tracker.Delete("b")
	check.That(t, tracker.AddResources("huawei.com/Ascend910"), "a new resource is no news")
	check.That(t, !tracker.AddResources("huawei.com/Ascend910", "example.com/npu"), "a known resource is news")
	check.Equal(t, "resources", []corev1.ResourceName{"example.com/npu", "huawei.com/Ascend910"}, tracker.Inventory().Resources())
	check.Equal(t, "cards", 0, len(tracker.Inventory().Names()))
}

// TestTrackerEqualsANewInventory: whatever happened before, a Tracker says what
// one says that sees the nodes for the first time.
func TestTrackerEqualsANewInventory(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var tracker Tracker
		nodes := map[string]*corev1.Node{}
		var resources []corev1.ResourceName
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
				nodes[name] = trackedGPUs(name, rapid.SampledFrom([]string{"", "H200", "H800"}).Draw(t, "model"), fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "count")),
					readiness(rapid.SampledFrom([]corev1.ConditionStatus{"True", "False"}).Draw(t, "ready")))
				nodes[name].Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
				changed = tracker.Update(nodes[name])
			}

			resources = append(resources, tracker.Inventory().Resources()...)
			slices.Sort(resources)
			resources = slices.Compact(resources)

			var fresh Tracker
			fresh.Replace(nodes)
			check.Equal(t, "physical", fresh.Inventory().Physical(), tracker.Inventory().Physical())
			check.Equal(t, "healthy", fresh.Healthy(), tracker.Healthy())
			check.Equal(t, "nodes", fresh.Nodes(), tracker.Nodes())
			check.Equal(t, "resources", resources, tracker.Inventory().Resources())
			check.Must(t, changed || (before == tracker.Inventory() && cmp.Equal(healthy, tracker.Healthy()) && cmp.Equal(states, tracker.Nodes())), "something changed without a notice")
		}
	})
}

// TestTrackerFollowsHowCardsAreShared: the name of a share stays when only the strategy changes.
func TestTrackerFollowsHowCardsAreShared(t *testing.T) {
	shares := func(strategy string) *corev1.Node {
		return trackedGPUs("a", "H200-SHARED", "8", func(n *corev1.Node) { n.Labels["nvidia.com/gpu.sharing-strategy"] = strategy })
	}

	var tracker Tracker
	tracker.Update(shares("time-slicing"))
	inventory := tracker.Inventory()

	check.Equal(t, "shared", map[corev1.ResourceName]string{"nvidia.com/gpu": "time-slicing"}, tracker.Nodes()[0].Sharing)
	check.That(t, !tracker.Update(shares("time-slicing")), "the same strategy is a change")
	check.That(t, tracker.Update(shares("mps")), "another strategy is no change")
	check.Equal(t, "shared", map[corev1.ResourceName]string{"nvidia.com/gpu": "mps"}, tracker.Nodes()[0].Sharing)
	check.That(t, inventory == tracker.Inventory(), "the inventory was made again although no cards changed")

	tracker.Update(trackedGPUs("a", "H200", "8"))
	check.Equal(t, "not shared", 0, len(tracker.Nodes()[0].Sharing))
}
