package inventory

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// execute runs the command against a cluster with some objects.
var execute = kubectl.Plugin{Commands: []program.Command{NewCommand}}.Execute

// TestInventoryShowsCardsOrNodes: the golden files have the cards of the CardInventory, or with --nodes those of each
// node. A user who may not list pods sees the nodes without used and free cards. One node is not Ready, one is
// cordoned, and one has cards that no label names. In row nodes-anomaly, a node with Ascend-910B also offers slices
// that no label names. Tables without -o fit a terminal.
func TestInventoryShowsCardsOrNodes(t *testing.T) {
	noPods := kubectl.Forbid(schema.GroupResource{Resource: "pods"}, &corev1.PodList{})
	withNPUs := append(kubectl.FleetWithFaults(),
		builder.Node("npu-0").NPUs("Ascend-910B", 8).Resource("nvidia.com/mig-1g.18gb", "7").Obj(), // slices without a label
		builder.Node("npu-1").NPUs("Ascend-910B", 8).Obj())

	for name, tc := range map[string]struct {
		objects   []client.Object
		intercept interceptor.Funcs
		command   string
	}{
		"cards":         {kubectl.FleetWithFaults(), kubectl.MayReadAll, "inventory"},
		"wide":          {kubectl.FleetWithFaults(), kubectl.MayReadAll, "inventory -o wide"},
		"yaml":          {kubectl.FleetWithFaults(), kubectl.MayReadAll, "inventory -o yaml"},
		"nodes":         {kubectl.FleetWithFaults(), kubectl.MayReadAll, "inventory --nodes"},
		"nodes-anomaly": {withNPUs, kubectl.MayReadAll, "inventory --nodes"},
		"nodes-json":    {kubectl.FleetWithFaults(), kubectl.MayReadAll, "inventory --nodes -o json"},
		"tenant":        {kubectl.FleetWithFaults(), noPods, "inventory --nodes"},
		"no-nodes":      {nil, kubectl.MayReadAll, "inventory --nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, tc.objects, tc.intercept, tc.command).Exits(program.ExitOK).ReportsNothing().MatchesGolden("inventory-" + name)
			if !strings.Contains(tc.command, "-o") {
				r.FitsTerminal()
			}
		})
	}
}

// TestInventoryNeedsNothingInstalled: without a CardInventory, which the operator writes, inventory counts nodes and pods
// itself. The golden files have the cards of kubectl.ForeignCluster: for an administrator, as JSON, for a user who may
// not list pods, and after the installation, while the operator does not run.
func TestInventoryNeedsNothingInstalled(t *testing.T) {
	noPods := kubectl.Forbid(schema.GroupResource{Resource: "pods"}, &corev1.PodList{})

	for name, tc := range map[string]struct {
		intercept interceptor.Funcs
		command   string
	}{
		"foreign":              {kubectl.Nothing, "inventory"},
		"foreign-wide":         {kubectl.Nothing, "inventory -o wide"},
		"foreign-json":         {kubectl.Nothing, "inventory -o json"},
		"foreign-without-pods": {kubectl.WithoutKinds(noPods, kubectl.OurGroup, kubectl.VolcanoGroup), "inventory"},
		"foreign-nodes":        {kubectl.Nothing, "inventory --nodes"},
		"no-operator":          {kubectl.MayReadAll, "inventory"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, kubectl.ForeignCluster(), tc.intercept, tc.command).Exits(program.ExitOK).ReportsNothing().MatchesGolden("inventory-" + name)
			if !strings.Contains(tc.command, "-o") {
				r.FitsTerminal()
			}
		})
	}
}

// TestInventoryOfAUserWithoutRights: a user of namespace lab alone may neither read the CardInventory nor list nodes. One
// sentence names both, or the nodes alone where there is no such kind.
func TestInventoryOfAUserWithoutRights(t *testing.T) {
	execute(t, kubectl.ForeignCluster(), kubectl.ForbidCluster("lab"), "inventory").Exits(program.ExitError).PrintsNothing().
		Reports("may not get cardinventories.cardquota.dev", "may not list nodes")
	execute(t, kubectl.ForeignCluster(), kubectl.WithoutKinds(kubectl.ForbidCluster("lab"), kubectl.OurGroup, kubectl.VolcanoGroup), "inventory").
		Exits(program.ExitError).PrintsNothing().Reports("may not list nodes").Lacks("cardinventories")
	execute(t, nil, kubectl.Nothing, "inventory").Exits(program.ExitOK).Prints("No node offers cards.")
}
