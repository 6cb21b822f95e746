package cardinventory

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestMetricsShowTheCardsOfTheInventory: each card in the status has seven gauges, and each reason of an anomaly one
// series. A card that pods only request has no series: a user could create any number of such names. A card is allowed
// to be over-allocated if it has CardQuotas, and each of them says so. CardQuota a says so for card A, b does not for
// card granted, and card used has no CardQuota. The metrics pass Prometheus' linter.
func TestMetricsShowTheCardsOfTheInventory(t *testing.T) {
	m := &metricsCollector{}
	check.Equal(t, "series before the first count", 0, testutil.CollectAndCount(m))

	allowing := builder.CardQuota("a").Card("A", 12).With(func(q *v1alpha1.CardQuota) { q.Spec.OverAllocation = v1alpha1.OverAllocationAllow }).Obj()
	quotas := []*v1alpha1.CardQuota{allowing, builder.CardQuota("b").Card("granted", 1).Obj()}
	m.latest.Store(&latestCount{
		count:     cardinventory.NewCount(cardinventory.CountInput{Tree: cardquota.Flat, Totals: cardquota.Flat.QuotaTotals(quotas, nil, nil)}),
		anomalies: map[v1alpha1.AnomalyReason]int{v1alpha1.AnomalyUnmappedResource: 2, v1alpha1.AnomalyCardsUnhealthy: 0},
		status: v1alpha1.CardInventoryStatus{Cards: []v1alpha1.InventoryCard{
			{Name: "A", Total: 8, Healthy: 7, Cordoned: 1, Allocated: 3, Quota: 12, OverAllocatedBy: 5},
			{Name: "granted", Quota: 1},
			{Name: "used", Allocated: 1},
			{Name: "only requested", ServiceTypes: []v1alpha1.InventoryServiceType{{Name: "training", Pending: 4}}},
		}},
	})

	ofCardA := map[string]string{
		"cardquota_physical_cards": "8", "cardquota_healthy_cards": "7", "cardquota_cordoned_cards": "1",
		"cardquota_allocated_cards": "3", "cardquota_granted_cards": "12", "cardquota_over_allocated_cards": "5",
		"cardquota_over_allocation_allowed": "1",
	}
	check.Equal(t, "series: each gauge for 3 cards, and 2 reasons of anomalies", 3*len(ofCardA)+2, testutil.CollectAndCount(m))

	page := check.Value(testutil.CollectAndFormat(m, expfmt.TypeTextPlain, slices.Collect(maps.Keys(ofCardA))...))(t)
	for name, value := range ofCardA {
		check.Contains(t, "metrics", string(page), name+`{card="A"} `+value+"\n")
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
cardquota_over_allocation_allowed{card="used"} 0
`), "cardquota_over_allocation_allowed", "cardquota_anomalies"))

	check.Equal(t, "problems that Prometheus' linter finds", nil, check.Value(testutil.CollectAndLint(m))(t))
}
