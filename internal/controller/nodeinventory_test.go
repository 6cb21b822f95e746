package controller

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestInventoryRemembersCardResources: the admission policies guard the resources by which pods request cards. A
// resource stays one when its last node is gone, and those in the annotation of an admission policy were cards before
// the operator started. Listeners are called only for a change of cards or resources. No list of all nodes was read
// here, so the inventory never says that it knows them all.
func TestInventoryRemembersCardResources(t *testing.T) {
	const (
		gpu = corev1.ResourceName("nvidia.com/gpu")
		npu = corev1.ResourceName("example.com/npu")
	)
	remembered := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationCardResources: string(npu)}}}

	nodes := NewNodeInventory(nil)
	calls := 0
	nodes.OnChange(func() { calls++ })
	expect := func(when string, wantCalls int, wantResources ...corev1.ResourceName) {
		inventory, known := nodes.Inventory()
		check.That(t, !known, "%s: the inventory says that it knows all nodes", when)
		check.Equal(t, when+": resources", wantResources, inventory.Resources())
		check.Equal(t, when+": calls of the listener", wantCalls, calls)
		calls = 0
	}

	nodes.updateNode(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	expect("a node joins", 1, gpu)
	nodes.updateNode(builder.Node("a").GPUs("NVIDIA-H200", 8).Label("nvidia.com/gpu-driver-upgrade-state", "upgrade-done").Obj())
	expect("a label that changes no card", 0, gpu)
	nodes.deleteNode(toolscache.DeletedFinalStateUnknown{Obj: builder.Node("a").Obj()})
	expect("the node is deleted", 1, gpu)

	nodes.rememberResources(remembered)
	expect("the annotation of an admission policy", 1, npu, gpu)
	nodes.rememberResources(remembered)
	expect("the same annotation again", 0, npu, gpu)
}

// TestNodeChangesAreSignalledButNoHeartbeats: the CardInventory depends on labels, on resources
// that are cards or may be, on readiness and on cordons. Each change of them calls the listener. A heartbeat,
// or a change of the storage, does not. Before the change, the node has 8 H200. Its creation and its deletion
// are one call each.
func TestNodeChangesAreSignalledButNoHeartbeats(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	h200 := func() *builder.NodeBuilder { return builder.Node("a").GPUs("NVIDIA-H200", 8) }
	for t, tc := range check.Cases(t, map[string]struct {
		after     *builder.NodeBuilder
		wantCalls int
	}{
		"a heartbeat":                          {h200().With(func(node *corev1.Node) { node.ResourceVersion = "2" }), 0},
		"ephemeral storage":                    {h200().Resource(corev1.ResourceEphemeralStorage, "1Gi"), 0},
		"8 cards as 8000m, which is the same":  {h200().Resource(gpu, "8000m"), 0},
		"a cordon":                             {h200().Cordoned(), 1},
		"the node is not ready":                {h200().NotReady(), 1},
		"a label about the cards":              {h200().Label("nvidia.com/gpu.memory", "1"), 1},
		"7 of 8 cards are allocatable":         {h200().With(func(node *corev1.Node) { node.Status.Allocatable[gpu] = resource.MustParse("7") }), 1},
		"the capacity is 9 cards":              {h200().With(func(node *corev1.Node) { node.Status.Capacity[gpu] = resource.MustParse("9") }), 1},
		"a resource that may be another card":  {h200().Resource("gpu.intel.com/xe", "1"), 1},
		"the resource of the cards disappears": {h200().With(func(node *corev1.Node) { delete(node.Status.Capacity, gpu) }), 1},
	}) {
		nodes := NewNodeInventory(nil)
		calls := 0
		nodes.OnNodeChange(func() { calls++ })
		nodes.updateNode(h200().Obj())
		check.Equal(t, "calls for a new node", 1, calls)

		nodes.updateNode(tc.after.Obj())
		check.Equal(t, "calls after the change", 1+tc.wantCalls, calls)
		nodes.deleteNode(tc.after.Obj())
		check.Equal(t, "calls after the deletion", 2+tc.wantCalls, calls)
	}
}

// TestNodesAreRecognisedByTheMappingsInForce: a mapping of the ServiceTypePolicy makes a resource a card that the
// operator does not know itself. Node a has 2 of gpu.intel.com/xe, which are no cards until the mapping to B60 is in
// force. A policy that has not taken effect changes nothing.
func TestNodesAreRecognisedByTheMappingsInForce(t *testing.T) {
	nodes := NewNodeInventory(nil)
	changes := 0
	nodeChanges := 0
	nodes.OnChange(func() { changes++ })
	nodes.OnNodeChange(func() { nodeChanges++ })
	nodes.updateNode(builder.Node("a").Resource("gpu.intel.com/xe", "2").Obj())

	mapping := v1alpha1.CardMapping{Resource: "gpu.intel.com/xe", Model: "B60"}
	for _, step := range []struct {
		name      string
		policy    *v1alpha1.ServiceTypePolicy
		wantCalls int
		wantCards map[card.Name]card.Count
	}{
		{"a policy without mappings is in force", policyInForce(), 0, map[card.Name]card.Count{}},
		{"the mapping is in force", policyInForce(mapping), 1, map[card.Name]card.Count{"B60": 2}},
		{"the same mapping again", policyInForce(mapping), 0, map[card.Name]card.Count{"B60": 2}},
		{"a new policy that has not taken effect", builder.ServiceTypePolicy().Obj(), 0, map[card.Name]card.Count{"B60": 2}},
		{"the mapping is removed", policyInForce(), 1, map[card.Name]card.Count{}},
	} {
		changes = 0
		nodeChanges = 0
		nodes.updatePolicy(step.policy)

		inventory, _ := nodes.Inventory()
		check.Equal(t, step.name+": cards", step.wantCards, inventory.Physical())
		check.Equal(t, step.name+": calls of the listener of cards", step.wantCalls, changes)
		check.Equal(t, step.name+": calls of the listener of nodes", step.wantCalls, nodeChanges)
	}
}
