package cardquota

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/forecast"
	"cardquota.dev/operator/internal/policy"
)

// observedNamespaces returns for which queue pods count that name none. It is nil in mode Enforce, in which such pods count
// for no queue.
func observedNamespaces(read *countedObjects) *forecast.Namespaces {
	if policy.Mode(read.inForce) != v1alpha1.ModeObserve {
		return nil
	}
	return forecast.NewNamespaces(read.owners, read.tree.Queues(), read.namespaces)
}

// queueOfNamespace returns the function by which a count asks for the queue of a namespace, nil without namespaces.
func queueOfNamespace(namespaces *forecast.Namespaces) func(string) string {
	if namespaces == nil {
		return nil
	}
	return namespaces.QueueFor
}

// forecastInput returns what the forecast of a count is made from. The count has left the charges of all pods.
func (u *UsageCollector) forecastInput(read *countedObjects, inventory *card.Inventory, namespaces *forecast.Namespaces, allowsNamespace func(queue, namespace string) bool) *forecast.Input {
	tree := read.tree.Queues()
	if tree.IsFlat() {
		tree = tree.WithFlat(cardquota.FlatLimits(read.owners))
	}

	return &forecast.Input{
		Pods: read.pods, PodGroups: read.groups, Charges: u.lastCharges, Facts: &u.facts, Inventory: inventory, Healthy: u.inventory.Healthy(), Nodes: u.inventory.Nodes(), Owners: read.owners, Tree: tree,
		Namespaces: namespaces, AllowsNamespace: allowsNamespace, Schedulers: read.schedulers,
		TypeFor: policy.ServiceTypes(read.inForce), Matrix: policy.ReclaimMatrix(read.inForce), IgnoresComputeOfCardPods: policy.IgnoresComputeOfCardPods(read.inForce),
	}
}

// sameForecast reports whether two forecasts say the same.
func sameForecast(a, b *v1alpha1.CardQuotaForecast) bool { return equality.Semantic.DeepEqual(a, b) }
