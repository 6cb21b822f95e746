package cli

import (
	"slices"
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

// fleet is a fleet with an inventory, and with nodes in which something is wrong.
func fleet() []client.Object {
	inventory := &v1alpha1.CardInventory{Status: v1alpha1.CardInventoryStatus{
		Nodes: 4, AnomaliesTotal: 2,
		Cards: []v1alpha1.InventoryCard{
			{Name: "NVIDIA-H200", Resources: []string{"nvidia.com/gpu"}, Total: 16, Healthy: 8, Allocated: 5, Quota: 12, OverAllocatedBy: 4,
				ServiceTypes: []v1alpha1.InventoryServiceType{{Name: "inference", Quota: 4, Used: 1}, {Name: "training", Quota: 8, Used: 4}}},
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

func TestInventory(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}

	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		args      []string
	}{
		"cards": {fleet(), interceptor.Funcs{}, nil},
		"wide":  {fleet(), interceptor.Funcs{}, []string{"-o", "wide"}},
		"yaml":  {fleet(), interceptor.Funcs{}, []string{"-o", "yaml"}},
		"nodes": {fleet(), interceptor.Funcs{}, []string{"--nodes"}},
		"nodes-anomaly": {append(fleet(), builder.Node("npu-0").NPUs("Ascend-910B", 8).Resource("nvidia.com/mig-1g.18gb", "7").Obj(),
			builder.Node("npu-1").NPUs("Ascend-910B", 8).Obj()), interceptor.Funcs{}, []string{"--nodes"}},
		"nodes-json": {fleet(), interceptor.Funcs{}, []string{"--nodes", "-o", "json"}},
		"tenant":     {fleet(), forbid(pods, &corev1.PodList{}), []string{"--nodes"}},
		"no-nodes":   {nil, interceptor.Funcs{}, []string{"--nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, tc.objects, tc.intercept, append([]string{"inventory"}, tc.args...)...).exits(exitOK).silently().matchesGolden("inventory-" + name)
			if !slices.Contains(tc.args, "-o") {
				checkColumns(t, r.out)
			}
		})
	}
}

func TestInventoryWithoutTheOperator(t *testing.T) {
	execute(t, nil, interceptor.Funcs{}, "inventory").exits(exitError).printsNothing().reports("no CardInventory cluster", "--nodes")
}

// TestMappedCards: cards that the labels of nodes do not name count as the policy says, in every
// command.
func TestMappedCards(t *testing.T) {
	inForce := policyOf("v0.2.0")
	written := policyOf("v0.2.0")
	removed := policyOf("v0.2.0")
	deleted := amdInventory("MI300X")
	inForce.Status.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}}
	written.Spec.Cards = inForce.Status.Cards
	removed.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training"}}
	removed.Spec.Cards = inForce.Status.Cards

	for source, object := range map[string]client.Object{"in force": inForce, "written, and not in force yet": written, "kept while the policy is deleted": deleted} {
		objects := append(amdCluster(), object)
		for command, want := range map[string]string{"inventory --nodes": "MI300X      8     2     6", "doctor": "hold 2 MI300X", "why waits -n lab": "at most 6 MI300X", "import research": "MI300X"} {
			r := execute(t, objects, interceptor.Funcs{}, strings.Fields(command)...)
			check.Contains(t, source+": "+command, r.out, want)
		}

		cluster := &simulation.Cluster{Nodes: []*corev1.Node{builder.Node("a").Resource("amd.com/gpu", "8").Obj()}}
		text := check.Value(readConfiguration(t.Context(), &reader{client: newCluster(t, objects, interceptor.Funcs{})}, defaultSystemNamespace, cluster))(t)
		check.Equal(t, source+": whatif", card.Count(8), cluster.Inventory().Physical()["MI300X"])
		check.That(t, source == "in force" || strings.Contains(text, "model: MI300X"), "%s: the scheduler has the configuration\n%s", source, text)
	}

	execute(t, append(amdCluster(), removed), interceptor.Funcs{}, "inventory", "--nodes").lacks("MI300X")
}

// amdCluster is a node with cards that no label names, and pods that use and request them.
func amdCluster() []client.Object {
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

// TestMappingsThatTheInventoryDoesNotTell: without the policy a command says that it does not know which
// node has which card.
func TestMappingsThatTheInventoryDoesNotTell(t *testing.T) {
	objects := append(amdCluster(), builder.Node("b").Resource("amd.com/gpu", "8").Obj(), amdInventory("MI210", "MI300X"))
	const gap = "the CardInventory does not say which card of amd.com/gpu a node has: create the policy again"
	for _, command := range []string{"inventory --nodes", "import research", "why waits -n lab", "doctor"} {
		r := execute(t, objects, interceptor.Funcs{}, strings.Fields(command)...)
		check.Contains(t, command, strings.Join(strings.Fields(r.out+r.errOut), " "), gap)
	}
}

func TestMappingsThatTheInventoryTells(t *testing.T) {
	amd := func(name string) *builder.NodeBuilder { return builder.Node(name).Resource("amd.com/gpu", "8") }
	listed := func(name, resource string, total int64) v1alpha1.InventoryCard {
		return v1alpha1.InventoryCard{Name: name, Resources: []string{resource}, Total: total}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		nodes   []*builder.NodeBuilder
		cards   []v1alpha1.InventoryCard
		want    []v1alpha1.CardMapping
		unknown []corev1.ResourceName
	}{
		"labels tell":            {[]*builder.NodeBuilder{builder.Node("a").GPUs("NVIDIA-H200", 8)}, []v1alpha1.InventoryCard{listed("NVIDIA-H200", "nvidia.com/gpu", 8)}, nil, nil},
		"one model":              {[]*builder.NodeBuilder{amd("a"), amd("b")}, []v1alpha1.InventoryCard{listed("MI300X", "amd.com/gpu", 16)}, []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}}, nil},
		"slices":                 {[]*builder.NodeBuilder{builder.Node("a").Resource("nvidia.com/mig-1g.18gb", "7")}, []v1alpha1.InventoryCard{listed("X/mig-1g.18gb-mixed", "nvidia.com/mig-1g.18gb", 7)}, []v1alpha1.CardMapping{{Resource: "nvidia.com/mig-1g.18gb", Model: "X"}}, nil},
		"two models":             {[]*builder.NodeBuilder{amd("a"), amd("b")}, []v1alpha1.InventoryCard{listed("MI210", "amd.com/gpu", 8), listed("MI300X", "amd.com/gpu", 8)}, nil, []corev1.ResourceName{"amd.com/gpu"}},
		"of some nodes only":     {[]*builder.NodeBuilder{amd("a"), amd("b")}, []v1alpha1.InventoryCard{listed("MI300X", "amd.com/gpu", 8)}, nil, []corev1.ResourceName{"amd.com/gpu"}},
		"that no node has":       {[]*builder.NodeBuilder{amd("a")}, []v1alpha1.InventoryCard{{Name: "MI300X", Quota: 8}}, nil, nil},
		"nodes may not be read":  {nil, []v1alpha1.InventoryCard{listed("MI300X", "amd.com/gpu", 8)}, nil, nil},
		"beside a labelled node": {[]*builder.NodeBuilder{amd("a"), amd("b").Label("amd.com/gpu.product", "MI210").Label("amd.com/gpu.memory", "1")}, []v1alpha1.InventoryCard{listed("MI210", "amd.com/gpu", 8), listed("MI300X", "amd.com/gpu", 8)}, nil, []corev1.ResourceName{"amd.com/gpu"}},
	}) {
		var nodes []*corev1.Node
		for _, node := range tc.nodes {
			nodes = append(nodes, node.Obj())
		}
		entries, unknown := inferMappings(nodes, tc.cards)
		check.Equal(t, "mappings", tc.want, entries)
		check.Equal(t, "unknown", tc.unknown, unknown)
	}
}
