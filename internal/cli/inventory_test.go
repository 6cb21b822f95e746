package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// fleetWithFaults has five nodes. h200-0 has 8 H200, of which pods use 5. h200-1 has 8 and is not ready. mig-0 has 14
// slices and is cordoned. new-0 has 8 cards that no label names, and cpu-0 has none. The CardInventory has counted
// them.
func fleetWithFaults() []client.Object {
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{
		Nodes: 4, AnomaliesTotal: 2,
		Cards: []v1alpha1.InventoryCard{
			{
				Name: "NVIDIA-H200", Resources: []string{"nvidia.com/gpu"}, Total: 16, Healthy: 8, Allocated: 5, Quota: 12, OverAllocatedBy: 4,
				ServiceTypes: []v1alpha1.InventoryServiceType{{Name: "inference", Quota: 4, Used: 1}, {Name: "training", Quota: 8, Used: 4}},
			},
			{Name: "NVIDIA-H200/mig-1g.18gb-mixed", Resources: []string{"nvidia.com/mig-1g.18gb"}, Total: 14, Healthy: 14, Cordoned: 14, Quota: 3},
		},
		Anomalies: []v1alpha1.InventoryAnomaly{{Reason: v1alpha1.AnomalyNoModelLabel, Resource: "nvidia.com/gpu", Count: 8, NodesTotal: 1, Nodes: []string{"new-0"},
			Message: "node new-0: offers nvidia.com/gpu but no label nvidia.com/<type>.product with nvidia.com/<type>.memory names the card; no pod gets it: add these labels to the nodes"}},
	}}

	inventory.Name = v1alpha1.InventoryName
	return []client.Object{
		inventory,
		builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(),
		builder.Node("h200-1").GPUs("NVIDIA-H200", 8).NotReady().Obj(),
		builder.Node("mig-0").GPUs("NVIDIA-H200", 2).MIG("1g.18gb", 14).Cordoned().Obj(),
		builder.Node("new-0").Resource("nvidia.com/gpu", "8").Obj(),
		builder.Node("cpu-0").Obj(),
		builder.Pod("lab", "a").Queue("q").GPUs(4).Running("h200-0").Obj(),
		builder.Pod("lab", "b").GPUs(1).Running("h200-0").Obj(),
		builder.Pod("lab", "done").GPUs(8).Node("h200-1").Phase(corev1.PodSucceeded).Obj(),
	}
}

// TestInventoryShowsCardsOrNodes: the golden files have the cards of the CardInventory, or with --nodes those of each node. A user
// who may not list pods sees the nodes without used and free cards. Tables without -o fit a terminal.
func TestInventoryShowsCardsOrNodes(t *testing.T) {
	noPods := forbid(schema.GroupResource{Resource: "pods"}, &corev1.PodList{})
	withNPUs := append(fleetWithFaults(),
		builder.Node("npu-0").NPUs("Ascend-910B", 8).Resource("nvidia.com/mig-1g.18gb", "7").Obj(), // slices without a label
		builder.Node("npu-1").NPUs("Ascend-910B", 8).Obj())

	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		command   string
	}{
		"cards":         {fleetWithFaults(), mayReadAll, "inventory"},
		"wide":          {fleetWithFaults(), mayReadAll, "inventory -o wide"},
		"yaml":          {fleetWithFaults(), mayReadAll, "inventory -o yaml"},
		"nodes":         {fleetWithFaults(), mayReadAll, "inventory --nodes"},
		"nodes-anomaly": {withNPUs, mayReadAll, "inventory --nodes"},
		"nodes-json":    {fleetWithFaults(), mayReadAll, "inventory --nodes -o json"},
		"tenant":        {fleetWithFaults(), noPods, "inventory --nodes"},
		"no-nodes":      {nil, mayReadAll, "inventory --nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, tc.objects, tc.intercept, tc.command).exits(exitOK).reportsNothing().matchesGolden("inventory-" + name)
			if !strings.Contains(tc.command, "-o") {
				r.fitsTerminal()
			}
		})
	}
}

// TestInventoryWithoutTheOperatorAdvisesTheNodes: the operator writes the CardInventory. Without it inventory has nothing to
// show, but inventory --nodes, which reads the nodes, has.
func TestInventoryWithoutTheOperatorAdvisesTheNodes(t *testing.T) {
	execute(t, nil, mayReadAll, "inventory").exits(exitError).printsNothing().reports("no CardInventory cluster", "--nodes")
}

// TestEveryCommandKnowsMappedCards: no label of a node says which card amd.com/gpu is. The policy maps the resource to MI300X, or,
// while the policy is deleted, the CardInventory still names it. Each command then counts 8 MI300X, of which a pod uses 2,
// and whatif simulates them.
func TestEveryCommandKnowsMappedCards(t *testing.T) {
	mappings := []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}}
	inForce := policyWithScheduler("v0.2.0")
	inForce.Status.Cards = mappings
	written := policyWithScheduler("v0.2.0")
	written.Spec.Cards = mappings

	for t, tc := range check.Cases(t, map[string]struct {
		source client.Object
		// whatif writes a mapping that is not in force into the configuration of the simulated scheduler.
		wantConfiguration string
	}{
		"the status of the policy has the mapping":                  {inForce, ""},
		"the spec of the policy has it, and it is not in force yet": {written, "model: MI300X"},
		"the policy is deleted, and the CardInventory has the card": {amdInventory("MI300X"), "model: MI300X"},
	}) {
		objects := append(clusterWithUnnamedCards(), tc.source)
		execute(t, objects, mayReadAll, "inventory --nodes").prints("MI300X      8     2     6")
		execute(t, objects, mayReadAll, "doctor").prints("hold 2 MI300X")
		execute(t, objects, mayReadAll, "why waits -n lab").prints("at most 6 MI300X")
		execute(t, objects, mayReadAll, "import research").prints("MI300X")

		cluster := &simulation.Cluster{Nodes: []*corev1.Node{builder.Node("a").Resource("amd.com/gpu", "8").Obj()}}
		r := &reader{client: newCluster(t, objects, mayReadAll)}
		configuration := check.Value(readConfiguration(t.Context(), r, defaultSystemNamespace, cluster))(t)
		check.Equal(t, "MI300X for whatif", card.Count(8), cluster.Inventory().Physical()["MI300X"])
		check.Contains(t, "configuration for whatif", configuration, tc.wantConfiguration)
	}
}

// TestARemovedMappingHasNoEffect: no label of a node says which card amd.com/gpu is. The spec of the policy maps the resource
// to MI300X. The status has service types, so the operator has installed the policy, but it does not have the mapping. So
// the mapping is not in force, and inventory does not show MI300X.
func TestARemovedMappingHasNoEffect(t *testing.T) {
	removed := policyWithScheduler("v0.2.0")
	removed.Spec.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}}
	removed.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training"}}
	execute(t, append(clusterWithUnnamedCards(), removed), mayReadAll, "inventory --nodes").lacks("MI300X")
}

// clusterWithUnnamedCards is node a with 8 amd.com/gpu that no label names. A pod uses 2 of them, and another waits for 7.
func clusterWithUnnamedCards() []client.Object {
	return []client.Object{
		builder.Node("a").Resource("amd.com/gpu", "8").Obj(), builder.Queue("research").Obj(),
		builder.Pod("lab", "runs").Queue("research").Requests("amd.com/gpu", "2").Running("a").Obj(),
		builder.Pod("lab", "waits").Queue("research").Requests("amd.com/gpu", "7").Unschedulable("0/1 nodes are unavailable: 1 Insufficient amd.com/gpu.").Obj(),
	}
}

// amdInventory is a CardInventory with eight cards of each model.
func amdInventory(models ...string) *v1alpha1.CardInventory {
	inventory := &v1alpha1.CardInventory{}
	inventory.Name = v1alpha1.InventoryName
	for _, model := range models {
		inventory.Status.Cards = append(inventory.Status.Cards, v1alpha1.InventoryCard{Name: model, Resources: []string{"amd.com/gpu"}, Total: 8, Healthy: 8})
	}
	return inventory
}

// TestAMappingThatIsNotKnownIsSaid: the policy is deleted, and the CardInventory has 8 MI210 and 8 MI300X of
// amd.com/gpu. Two nodes offer 8 each, and nothing says which node has which card. So each command says that, and what
// helps.
func TestAMappingThatIsNotKnownIsSaid(t *testing.T) {
	objects := append(clusterWithUnnamedCards(), builder.Node("b").Resource("amd.com/gpu", "8").Obj(), amdInventory("MI210", "MI300X"))
	for _, command := range []string{"inventory --nodes", "import research", "why waits -n lab", "doctor"} {
		execute(t, objects, mayReadAll, command).says("the CardInventory does not say which card of amd.com/gpu a node has: create the policy again")
	}
}

// TestMappingsAreInferredFromTheInventory: without the policy, the CardInventory may show which card a resource is. It does if
// it lists one card for all that nodes without labels offer of the resource. With two cards, or fewer cards than the nodes
// offer, the mapping is unknown. A resource of which it lists no card gets no mapping. Nodes with labels need none.
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
