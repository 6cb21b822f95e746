package differential

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/test/observer/rule"
)

// drawMappings draws entries of spec.cards, as both sides read them.
func drawMappings(t *rapid.T, least int) (product card.Mappings, observed []rule.Mapping) {
	for range drawInt(t, least, 3, "mappings") {
		m := drawMapping(t)
		product = append(product, m)
		observed = append(observed, rule.Mapping{Resource: m.Resource, Model: m.Model, ModelLabel: m.ModelLabel, MemoryLabel: m.MemoryLabel, NodeSelector: m.NodeSelector})
	}
	return product, observed
}

// anomalySum is what several nodes have of one anomaly.
type anomalySum struct{ count, nodes int64 }

// TestProductAndObserverFindTheSameAnomalies: an anomaly is a node or resource that is not recognised, and why. The
// observer, a tool of the tests, has the rules of the documents a second time. Nodes are random, and some were others
// before. The status of the CardInventory must have the same anomalies as the observer, with the same numbers of
// cards and nodes. The observer does not know all device plugins, so unmapped resources of others are not compared.
func TestProductAndObserverFindTheSameAnomalies(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		for range perDraw {
			productMappings, observerMappings := drawMappings(t, 0)
			tracker := &card.Tracker{}
			inventory := rule.NewInventory().WithMappings(observerMappings)
			tracker.SetMappings(productMappings)

			var nodes []*corev1.Node
			for i := range drawInt(t, 1, 3, "nodes") {
				if drawInt(t, 1, 3, "whether the node was another") == 1 {
					before := drawNode(t, nodeNames[i])
					tracker.Update(before)
					inventory.Set(before.Name, inventory.Read(before))
				}

				node := drawNode(t, nodeNames[i])
				node.Status.Capacity = node.Status.Allocatable.DeepCopy()
				for _, name := range slices.Sorted(maps.Keys(node.Status.Capacity)) {
					if rapid.Bool().Draw(t, "a broken card") {
						node.Status.Capacity[name] = resource.MustParse("9")
					}
				}

				tracker.Update(node)
				inventory.Set(node.Name, inventory.Read(node))
				nodes = append(nodes, node)
			}

			status := cardinventory.NewStatus(cardinventory.Input{
				Nodes: tracker.TrackedNodes(),
				Cards: tracker.Inventory(),
				Count: cardinventory.NewCount(cardinventory.CountInput{Tree: cardquota.Flat, Totals: cardquota.Flat.QuotaTotals(nil, nil, nil)}),
			})

			listed := map[string]anomalySum{}
			found := map[string]anomalySum{}
			for _, a := range status.Anomalies {
				name := cmp.Or(a.Card, a.Resource)
				if a.Reason == v1alpha1.AnomalyUnmappedResource && !rule.IsVendorCard(corev1.ResourceName(name)) {
					continue // the observer knows few device plugins
				}
				addAnomaly(listed, fmt.Sprint(a.Reason, " ", name), anomalySum{a.Count, int64(a.NodesTotal)})
			}

			for _, node := range nodes {
				for _, a := range rule.AnomaliesOf(node, observerMappings, inventory.IsCard) {
					addAnomaly(found, fmt.Sprint(a.Reason, " ", a.Name), anomalySum{a.Count, 1})
				}
			}

			equal(t, "anomalies", fmt.Sprint(listed), fmt.Sprint(found))
		}
	})
}

func addAnomaly(sums map[string]anomalySum, key string, more anomalySum) {
	sums[key] = anomalySum{sums[key].count + more.count, sums[key].nodes + more.nodes}
}
