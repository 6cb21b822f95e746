package cardinventory

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	shared "cardquota.dev/operator/internal/controller"
)

// cardGauge is a metric of each card.
type cardGauge struct {
	desc  *prometheus.Desc
	value func(c *v1alpha1.InventoryCard) int64
}

var cardGauges = []cardGauge{
	{newCardDesc("cardquota_physical_cards", "Cards of all nodes together (allocatable)."), func(c *v1alpha1.InventoryCard) int64 { return c.Total }},
	{newCardDesc("cardquota_healthy_cards", "Cards of nodes that are ready."), func(c *v1alpha1.InventoryCard) int64 { return c.Healthy }},
	{newCardDesc("cardquota_cordoned_cards", "Healthy cards of nodes that are cordoned."), func(c *v1alpha1.InventoryCard) int64 { return c.Cordoned }},
	{newCardDesc("cardquota_allocated_cards", "Cards that assigned pods hold, in any queue or in none."), func(c *v1alpha1.InventoryCard) int64 { return c.Allocated }},
	{newCardDesc("cardquota_granted_cards", "Quotas of all queues together, in a tree those of the top level."), func(c *v1alpha1.InventoryCard) int64 { return c.Quota }},
	{newCardDesc("cardquota_over_allocated_cards", "Cards by which all quotas together exceed the healthy cards, 0 if they do not."), func(c *v1alpha1.InventoryCard) int64 { return c.OverAllocatedBy }},
}

var anomaliesDesc = prometheus.NewDesc("cardquota_anomalies", "Anomalies of nodes, cards and bills, by their reason in the CardInventory.", []string{"reason"}, nil)

func newCardDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"card"}, nil)
}

var allowedDesc = newCardDesc("cardquota_over_allocation_allowed",
	"1 if every CardQuota with quota for the card has `overAllocation: Allow`, else 0. Then the alert leaves the card out.")

// latestCount is the last status with its anomalies by reason, and the count from which it was made.
type latestCount struct {
	status    v1alpha1.CardInventoryStatus
	anomalies map[v1alpha1.AnomalyReason]int
	count     *cardinventory.Count
}

// metricsCollector collects the metrics of the fleet. It builds the series at every scrape, so
// that the series of a card that is gone disappear.
type metricsCollector struct {
	// latest is nil before the first count.
	latest atomic.Pointer[latestCount]
}

// Metrics returns metrics like those that Setup registers, for their descriptions.
func Metrics() []prometheus.Collector { return []prometheus.Collector{&metricsCollector{}} }

// Describe implements prometheus.Collector.
func (m *metricsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, gauge := range cardGauges {
		ch <- gauge.desc
	}
	ch <- anomaliesDesc
	ch <- allowedDesc
}

// Collect implements prometheus.Collector. A card that is only requested has no series, because
// tenants can request any number of names.
func (m *metricsCollector) Collect(ch chan<- prometheus.Metric) {
	latest := m.latest.Load()
	if latest == nil {
		return
	}

	for reason, count := range latest.anomalies {
		ch <- prometheus.MustNewConstMetric(anomaliesDesc, prometheus.GaugeValue, float64(count), string(reason))
	}

	for i := range latest.status.Cards {
		c := &latest.status.Cards[i]
		if c.Total == 0 && c.Allocated == 0 && c.Quota == 0 {
			continue
		}

		for _, gauge := range cardGauges {
			ch <- prometheus.MustNewConstMetric(gauge.desc, prometheus.GaugeValue, float64(gauge.value(c)), c.Name)
		}

		isAllowed := latest.count.AllowsOverAllocation(card.Name(c.Name))
		ch <- prometheus.MustNewConstMetric(allowedDesc, prometheus.GaugeValue, shared.BoolGauge(isAllowed), c.Name)
	}
}
