package reader

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestMappingsAreInferredFromTheInventory: without the policy, the CardInventory may show which card a resource is.
// It does if it lists one card for all that nodes without labels offer of the resource. With two cards, or fewer
// cards than the nodes offer, the mapping is unknown. A resource of which it lists no card gets no mapping. Nodes
// with labels need none.
func TestMappingsAreInferredFromTheInventory(t *testing.T) {
	amd := func(name string) *builder.NodeBuilder { return builder.Node(name).Resource("amd.com/gpu", "8") }
	labelled := func(name string) *builder.NodeBuilder {
		return amd(name).Label("amd.com/gpu.product", "MI210").Label("amd.com/gpu.memory", "1")
	}
	listed := func(name, resource string, total int64) v1alpha1.InventoryCard {
		return v1alpha1.InventoryCard{Name: name, Resources: []string{resource}, Total: total}
	}
	unknown := []corev1.ResourceName{"amd.com/gpu"}

	for t, tc := range check.Cases(t, map[string]struct {
		nodes       []*builder.NodeBuilder
		cards       []v1alpha1.InventoryCard
		want        []v1alpha1.CardMapping
		wantUnknown []corev1.ResourceName
	}{
		"the labels of the node name the card": {
			nodes: []*builder.NodeBuilder{builder.Node("a").GPUs("NVIDIA-H200", 8)},
			cards: []v1alpha1.InventoryCard{listed("NVIDIA-H200", "nvidia.com/gpu", 8)},
		},
		"16 MI300X for 8 + 8 of two nodes": {
			nodes: []*builder.NodeBuilder{amd("a"), amd("b")},
			cards: []v1alpha1.InventoryCard{listed("MI300X", "amd.com/gpu", 16)},
			want:  []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}},
		},
		"slices: the model is in the name before the slash": {
			nodes: []*builder.NodeBuilder{builder.Node("a").Resource("nvidia.com/mig-1g.18gb", "7")},
			cards: []v1alpha1.InventoryCard{listed("X/mig-1g.18gb-mixed", "nvidia.com/mig-1g.18gb", 7)},
			want:  []v1alpha1.CardMapping{{Resource: "nvidia.com/mig-1g.18gb", Model: "X"}},
		},
		"8 MI210 and 8 MI300X for two nodes": {
			nodes:       []*builder.NodeBuilder{amd("a"), amd("b")},
			cards:       []v1alpha1.InventoryCard{listed("MI210", "amd.com/gpu", 8), listed("MI300X", "amd.com/gpu", 8)},
			wantUnknown: unknown,
		},
		"8 MI300X for 8 + 8 of two nodes: one of them has another card": {
			nodes:       []*builder.NodeBuilder{amd("a"), amd("b")},
			cards:       []v1alpha1.InventoryCard{listed("MI300X", "amd.com/gpu", 8)},
			wantUnknown: unknown,
		},
		"MI300X is listed for its quota only, so no card of amd.com/gpu is listed": {
			nodes: []*builder.NodeBuilder{amd("a")},
			cards: []v1alpha1.InventoryCard{{Name: "MI300X", Quota: 8}},
		},
		"the user may not list nodes, so no resource is known": {
			cards: []v1alpha1.InventoryCard{listed("MI300X", "amd.com/gpu", 8)},
		},
		"one node has labels for MI210, the other has none: a mapping would make all 16 cards MI300X": {
			nodes:       []*builder.NodeBuilder{amd("a"), labelled("b")},
			cards:       []v1alpha1.InventoryCard{listed("MI210", "amd.com/gpu", 8), listed("MI300X", "amd.com/gpu", 8)},
			wantUnknown: unknown,
		},
	}) {
		var nodes []*corev1.Node
		for _, node := range tc.nodes {
			nodes = append(nodes, node.Obj())
		}

		mappings, unknown := inferMappings(nodes, tc.cards)
		check.Equal(t, "mappings", tc.want, mappings)
		check.Equal(t, "unknown", tc.wantUnknown, unknown)
	}
}
