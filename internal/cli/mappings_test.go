package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// TestEveryCommandKnowsMappedCards: no label of a node says which card amd.com/gpu is. The policy maps the resource
// to MI300X, or, while the policy is deleted, the CardInventory still names it. Each command then counts 8 MI300X, of
// which a pod uses 2, and whatif simulates them.
func TestEveryCommandKnowsMappedCards(t *testing.T) {
	mappings := []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}}
	inForce := kubectl.PolicyWithScheduler("v0.2.0")
	inForce.Status.Cards = mappings
	written := kubectl.PolicyWithScheduler("v0.2.0")
	written.Spec.Cards = mappings

	for t, tc := range check.Cases(t, map[string]struct {
		source client.Object
		// whatif writes a mapping that is not in force into the configuration of the simulated scheduler.
		wantWritten bool
	}{
		"the status of the policy has the mapping":                  {inForce, false},
		"the spec of the policy has it, and it is not in force yet": {written, true},
		"the policy is deleted, and the CardInventory has the card": {amdInventory("MI300X"), true},
	}) {
		objects := append(clusterWithUnnamedCards(), tc.source)
		execute(t, objects, kubectl.MayReadAll, "inventory --nodes").Prints("MI300X      8     2     6")
		execute(t, objects, kubectl.MayReadAll, "doctor").Prints("hold 2 MI300X")
		execute(t, objects, kubectl.MayReadAll, "why waits -n lab").Prints("at most 6 MI300X")
		execute(t, objects, kubectl.MayReadAll, "import research").Prints("MI300X")

		var simulated *simulation.Cluster
		configuration := ""
		cluster := kubectl.NewCluster(t, objects, kubectl.MayReadAll)
		plugin.Run(t.Context(), t, func(p *program.Program) {
			p.Connect = func() (client.WithWatch, error) { return cluster, nil }
			p.Simulate = func(_ context.Context, c *simulation.Cluster, _ []simulation.Workload, text string, _ time.Time) (simulation.Result, error) {
				simulated = c
				configuration = text
				return simulation.Result{IsSettled: true}, nil
			}
		}, "whatif", "--drain", "a").Exits(program.ExitOK)
		check.Equal(t, "MI300X for whatif", card.Count(8), simulated.Inventory().Physical()["MI300X"])
		check.Equal(t, "the configuration for whatif has the mapping", tc.wantWritten, strings.Contains(configuration, "model: MI300X"))
	}
}

// TestARemovedMappingHasNoEffect: no label of a node says which card amd.com/gpu is. The spec of the policy maps the
// resource to MI300X. The status has service types, so the operator has installed the policy, but it does not have
// the mapping. So the mapping is not in force, and inventory does not show MI300X.
func TestARemovedMappingHasNoEffect(t *testing.T) {
	removed := kubectl.PolicyWithScheduler("v0.2.0")
	removed.Spec.Cards = []v1alpha1.CardMapping{{Resource: "amd.com/gpu", Model: "MI300X"}}
	removed.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training"}}
	execute(t, append(clusterWithUnnamedCards(), removed), kubectl.MayReadAll, "inventory --nodes").Lacks("MI300X")
}

// clusterWithUnnamedCards is node a with 8 amd.com/gpu that no label names. A pod uses 2 of them, and another waits
// for 7.
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
// amd.com/gpu. Two nodes offer 8 each, and nothing says which node has which card. So inventory, import, why and
// doctor say that, and what helps.
func TestAMappingThatIsNotKnownIsSaid(t *testing.T) {
	objects := append(clusterWithUnnamedCards(), builder.Node("b").Resource("amd.com/gpu", "8").Obj(), amdInventory("MI210", "MI300X"))
	for _, command := range []string{"inventory --nodes", "import research", "why waits -n lab", "doctor"} {
		execute(t, objects, kubectl.MayReadAll, command).Says("the CardInventory does not say which card of amd.com/gpu a node has: create the policy again")
	}
}
