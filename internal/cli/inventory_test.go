package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
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
		"cards":      {fleet(), interceptor.Funcs{}, nil},
		"wide":       {fleet(), interceptor.Funcs{}, []string{"-o", "wide"}},
		"yaml":       {fleet(), interceptor.Funcs{}, []string{"-o", "yaml"}},
		"nodes":      {fleet(), interceptor.Funcs{}, []string{"--nodes"}},
		"nodes-json": {fleet(), interceptor.Funcs{}, []string{"--nodes", "-o", "json"}},
		"tenant":     {fleet(), forbid(pods, &corev1.PodList{}), []string{"--nodes"}},
		"no-nodes":   {nil, interceptor.Funcs{}, []string{"--nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, tc.objects, tc.intercept, append([]string{"inventory"}, tc.args...)...)
			check.That(t, r.code == exitOK && r.errOut == "", "exit code %d: %s", r.code, r.errOut)
			compareGolden(t, "inventory-"+name, r.out)
			if tc.args == nil {
				checkColumns(t, r.out)
			}
		})
	}
}

func TestInventoryWithoutTheOperator(t *testing.T) {
	r := execute(t, nil, interceptor.Funcs{}, "inventory")
	check.That(t, r.code == exitError && r.out == "", "exit code %d, printed %q", r.code, r.out)
	check.Contains(t, "error", r.errOut, "no CardInventory cluster", "--nodes")
}

// TestMappedCards: cards that the labels of nodes do not name count as the policy says, in every
// command.
func TestMappedCards(t *testing.T) {
	policy := policyOf("v0.2.0")
	policy.Status.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}}
	objects := []client.Object{policy, builder.Node("a").Resource("amd.com/gpu", "8").Obj(), builder.Queue("research").Obj(),
		builder.Pod("lab", "runs").Queue("research").Requests("amd.com/gpu", "2").Running("a").Obj(),
		builder.Pod("lab", "waits").Queue("research").Requests("amd.com/gpu", "7").Unschedulable("0/1 nodes are unavailable: 1 Insufficient amd.com/gpu.").Obj()}
	for command, want := range map[string]string{"inventory --nodes": "MI300X      8     2     6", "doctor": "hold 2 MI300X", "why waits -n lab": "at most 6 MI300X"} {
		r := execute(t, objects, interceptor.Funcs{}, strings.Fields(command)...)
		check.Contains(t, command, r.out, want)
	}
}
