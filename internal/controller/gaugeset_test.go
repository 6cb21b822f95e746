package controller

import (
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"cardquota.dev/operator/internal/testing/check"
)

// TestAScrapeSeesAllSeriesOfAGaugeSet: one goroutine replaces the series a and b of a gauge set a thousand times. A
// scrape at the same time sees both series of one replacement: they have the same value. The label "\xff" is no UTF-8.
// Prometheus would refuse the whole page for it, so the series with this label is skipped.
func TestAScrapeSeesAllSeriesOfAGaugeSet(t *testing.T) {
	set := NewGaugeSet("quota_cards", "Cards.", "queue")
	check.Equal(t, "series at first", 0, testutil.CollectAndCount(set))

	replace := func(value float64) {
		set.Replace(GaugeValue{value, []string{"a"}}, GaugeValue{value, []string{"b"}}, GaugeValue{value, []string{"\xff"}})
	}

	replace(0)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 1_000 {
			replace(float64(i))
		}
	})

	registry := prometheus.NewPedanticRegistry()
	check.NoError(t, registry.Register(set))
	for range 100 {
		families := check.Value(registry.Gather())(t)
		check.Must(t, len(families) == 1 && len(families[0].Metric) == 2, "a scrape sees %v", families)
		check.Must(t, *families[0].Metric[0].Gauge.Value == *families[0].Metric[1].Gauge.Value, "a scrape sees a part of a change: %v", families)
	}

	writer.Wait()
	set.Replace() // by no series
	check.Equal(t, "series after all were removed", 0, testutil.CollectAndCount(set))
}
