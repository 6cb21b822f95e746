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
func drawMappings(t *rapid.T, least int) (theirs card.Mappings, ours []rule.Mapping) {
	for range drawInt(t, least, 3, "mappings") {
		m := drawMapping(t)
		theirs = append(theirs, m)
		ours = append(ours, rule.Mapping{Resource: m.Resource, Model: m.Model, ModelLabel: m.ModelLabel, MemoryLabel: m.MemoryLabel, NodeSelector: m.NodeSelector})
	}
	return theirs, ours
}

// anomalySum is what several nodes have of one anomaly.
type anomalySum struct{ count, nodes int64 }

// The CardInventory lists the anomalies that the observer finds in the same nodes.
func TestAnomaliesAgree(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		for range perDraw {
			theirs, ours := drawMappings(t, 0)
			tracker := &card.Tracker{}
			inventory := rule.NewInventory().WithMappings(ours)
			tracker.SetMappings(theirs)

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
				Nodes: tracker.TrackedNodes(), Cards: tracker.Inventory(), Count: cardinventory.NewCount(cardinventory.CountInput{Totals: cardquota.NewQuotaTotals(nil, nil, nil)}),
			})

			said := map[string]anomalySum{}
			found := map[string]anomalySum{}
			for _, a := range status.Anomalies {
				name := cmp.Or(a.Card, a.Resource)
				if a.Reason == v1alpha1.AnomalyUnmappedResource && !rule.IsVendorCard(corev1.ResourceName(name)) {
					continue // the observer knows few device plugins
				}
				addAnomaly(said, fmt.Sprint(a.Reason, " ", name), anomalySum{a.Count, int64(a.NodesTotal)})
			}

			for _, node := range nodes {
				for _, a := range rule.AnomaliesOf(node, ours, inventory.IsCard) {
					addAnomaly(found, fmt.Sprint(a.Reason, " ", a.Name), anomalySum{a.Count, 1})
				}
			}

			equal(t, "anomalies", fmt.Sprint(said), fmt.Sprint(found))
		}
	})
}

func addAnomaly(sums map[string]anomalySum, key string, more anomalySum) {
	sums[key] = anomalySum{sums[key].count + more.count, sums[key].nodes + more.nodes}
}
