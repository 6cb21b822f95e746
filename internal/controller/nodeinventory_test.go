package controller

import (
	"slices"
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

func TestNodeInventory(t *testing.T) {
	const (
		gpu = corev1.ResourceName("nvidia.com/gpu")
		npu = corev1.ResourceName("example.com/npu")
	)

	n := NewNodeInventory(nil)
	told := 0
	n.OnChange(func() { told++ })
	expect := func(when string, wantTold int, want ...corev1.ResourceName) {
		inventory, known := n.Inventory()
		check.That(t, !known, "%s: all nodes are known before they were read", when)
		check.That(t, slices.Equal(inventory.Resources(), want), "%s: resources %v, want %v", when, inventory.Resources(), want)
		check.Equal(t, when+": notices", wantTold, told)
		told = 0
	}

	n.updateNode(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj())
	expect("a node comes", 1, gpu)
	n.updateNode(builder.Node("a").GPUs("NVIDIA-H200", 8).Label("nvidia.com/gpu-driver-upgrade-state", "upgrade-done").Obj())
	expect("a label that changes no card", 0, gpu)
	n.deleteNode(toolscache.DeletedFinalStateUnknown{Obj: builder.Node("a").Obj()})
	expect("the node goes", 1, gpu)

	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationCardResources: string(npu)}}}
	n.rememberResources(policy)
	expect("what was a card before the start", 1, npu, gpu)
	n.rememberResources(policy)
	expect("what is known", 0, npu, gpu)
}

// TestNodeChanges: the CardInventory shows more of a node than its recognised cards. Heartbeats
// of nodes must cost nothing.
func TestNodeChanges(t *testing.T) {
	h200 := func() *builder.NodeBuilder { return builder.Node("a").GPUs("NVIDIA-H200", 8) }
	for t, tc := range check.Cases(t, map[string]struct {
		after *corev1.Node
		want  int
	}{
		"a heartbeat":                        {h200().With(func(n *corev1.Node) { n.ResourceVersion = "2" }).Obj(), 0},
		"storage":                            {h200().Resource(corev1.ResourceEphemeralStorage, "1Gi").Obj(), 0},
		"the same number, written otherwise": {h200().Resource("nvidia.com/gpu", "8000m").Obj(), 0},
		"a cordon":                           {h200().Cordoned().Obj(), 1},
		"a node that is not ready":           {h200().NotReady().Obj(), 1},
		"a label":                            {h200().Label("nvidia.com/gpu.memory", "1").Obj(), 1},
		"a broken card":                      {h200().With(func(n *corev1.Node) { n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("7") }).Obj(), 1},
		"a card more":                        {h200().With(func(n *corev1.Node) { n.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("9") }).Obj(), 1},
		"another resource":                   {h200().Resource("gpu.intel.com/xe", "1").Obj(), 1},
		"a resource that goes":               {builder.Node("a").GPUs("NVIDIA-H200", 8).With(func(n *corev1.Node) { delete(n.Status.Capacity, "nvidia.com/gpu") }).Obj(), 1},
	}) {
		n := NewNodeInventory(nil)
		changes := 0
		n.OnNodeChange(func() { changes++ })
		n.updateNode(h200().Obj())
		check.Equal(t, "a node comes", 1, changes)

		n.updateNode(tc.after)
		check.Equal(t, "it changes", 1+tc.want, changes)
		n.deleteNode(tc.after)
		check.Equal(t, "it goes", 2+tc.want, changes)
	}
}

// TestMappingsOfThePolicy: the operator recognises nodes by the policy in force.
func TestMappingsOfThePolicy(t *testing.T) {
	n := NewNodeInventory(nil)
	changes := 0
	nodeChanges := 0
	n.OnChange(func() { changes++ })
	n.OnNodeChange(func() { nodeChanges++ })
	n.updateNode(builder.Node("a").Resource("gpu.intel.com/xe", "2").Obj())

	policy := policyInForce
	for _, step := range []struct {
		apply func()
		told  int
		want  map[card.Name]card.Count
	}{
		{func() { n.updatePolicy(policy()) }, 0, map[card.Name]card.Count{}},
		{func() { n.updatePolicy(policy(v1alpha1.CardMapping{Resource: "gpu.intel.com/xe", Model: "B60"})) }, 1, map[card.Name]card.Count{"B60": 2}},
		{func() { n.updatePolicy(policy(v1alpha1.CardMapping{Resource: "gpu.intel.com/xe", Model: "B60"})) }, 0, map[card.Name]card.Count{"B60": 2}},
		{func() { n.updatePolicy(builder.ServiceTypePolicy().Obj()) }, 0, map[card.Name]card.Count{"B60": 2}},
		{func() { n.updatePolicy(policy()) }, 1, map[card.Name]card.Count{}},
	} {
		changes = 0
		nodeChanges = 0
		step.apply()
		inventory, _ := n.Inventory()
		check.Equal(t, "cards", step.want, inventory.Physical())
		check.Equal(t, "told", [2]int{step.told, step.told}, [2]int{changes, nodeChanges})
	}
}
