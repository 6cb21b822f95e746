package cardinventory

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func TestMetricsOfTheFleet(t *testing.T) {
	m := &metricsCollector{}
	check.Equal(t, "series before the first count", 0, testutil.CollectAndCount(m))

	allowing := builder.CardQuota("a").Card("A", 12).With(func(q *v1alpha1.CardQuota) { q.Spec.OverAllocation = v1alpha1.OverAllocationAllow }).Obj()
	count := cardinventory.NewCount(cardinventory.CountInput{Totals: cardquota.NewQuotaTotals([]*v1alpha1.CardQuota{allowing, builder.CardQuota("b").Card("granted", 1).Obj()}, nil, nil)})
	m.latest.Store(&latestCount{count: count, anomalies: map[v1alpha1.AnomalyReason]int{v1alpha1.AnomalyUnmappedResource: 2, v1alpha1.AnomalyCardsUnhealthy: 0}, status: v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{
		{Name: "A", Total: 8, Healthy: 7, Cordoned: 1, Allocated: 3, Quota: 12, OverAllocatedBy: 5},
		{Name: "granted", Quota: 1}, {Name: "held", Allocated: 1},
		{Name: "only requested", ServiceTypes: []v1alpha1.InventoryServiceType{{Name: "training", Pending: 4}}},
	}}})

	want := map[string]string{
		"cardquota_physical_cards": "8", "cardquota_healthy_cards": "7", "cardquota_cordoned_cards": "1",
		"cardquota_allocated_cards": "3", "cardquota_granted_cards": "12", "cardquota_over_allocated_cards": "5",
		"cardquota_over_allocation_allowed": "1",
	}
	check.Equal(t, "series", 3*len(want)+2, testutil.CollectAndCount(m))

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families := check.Value(registry.Gather())(t)
	for _, family := range families {
		value, ofCards := want[family.GetName()]
		check.That(t, ofCards || family.GetName() == "cardquota_anomalies", "metric %s", family.GetName())
		for _, series := range family.GetMetric() {
			if text := series.String(); strings.Contains(text, `"A"`) {
				check.That(t, strings.Contains(text, "value:"+value+"}") || strings.Contains(text, "value:"+value+" "), "%s is %s, want %s", family.GetName(), text, value)
			}
		}
	}

	check.NoError(t, testutil.CollectAndCompare(m, strings.NewReader(`
# HELP cardquota_anomalies Anomalies of nodes, cards and bills, by their reason in the CardInventory.
# TYPE cardquota_anomalies gauge
cardquota_anomalies{reason="CardsUnhealthy"} 0
cardquota_anomalies{reason="UnmappedResource"} 2
# HELP cardquota_over_allocation_allowed 1 if every CardQuota with quota for the card has `+"`overAllocation: Allow`"+`, else 0. Then the alert leaves the card out.
# TYPE cardquota_over_allocation_allowed gauge
cardquota_over_allocation_allowed{card="A"} 1
cardquota_over_allocation_allowed{card="granted"} 0
cardquota_over_allocation_allowed{card="held"} 0
`), "cardquota_over_allocation_allowed", "cardquota_anomalies"))

	check.Equal(t, "problems", nil, check.Value(testutil.CollectAndLint(m))(t))
}
