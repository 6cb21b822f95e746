package cardquota

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/servicetype"
)

// countMetrics are the metrics of counting.
type countMetrics struct {
	duration prometheus.Histogram
	// lastCount has no series before the first count, as in a replica that does not lead.
	lastCount *prometheus.GaugeVec
	unowned   *shared.GaugeSet
	// unlimited and ambiguous have a series in mode Observe only, and only for a number that is not 0.
	unlimited, ambiguous *shared.GaugeSet
	waited               *prometheus.HistogramVec
}

func newCountMetrics() countMetrics {
	return countMetrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "cardquota_recount_seconds", Help: "Histogram: how long one count of all pods takes.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
		}),
		lastCount: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cardquota_last_recount_timestamp_seconds",
			Help: "Unix time of the last count of all pods. The leader counts after each change, and at least once a minute.",
		}, nil),

		unowned: shared.NewGaugeSet("cardquota_unowned_quota_cards",
			"Quota of a queue without a CardQuota, in whole cards. Such a Queue was retained, or a user writes its annotation.", labels...),
		unlimited: shared.NewGaugeSet("cardquota_forecast_unlimited_cards",
			"Cards of workloads that no CardQuota counts, so that no quota limits them. Only in mode Observe. Absent without such cards."),
		ambiguous: shared.NewGaugeSet("cardquota_forecast_ambiguous_namespaces",
			"Namespaces that several CardQuotas select, and whose pods use cards and name no queue, so that they count for none. Only in mode Observe. Absent without such namespaces."),

		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "cardquota_pod_bound_seconds",
			Help:    "Histogram: time from the creation of a pod until it was bound to a node, by the service type of its queue and the card that it holds. A pod that may hold one of several cards counts once.",
			Buckets: []float64{1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600},
		}, []string{"service_type", "card"}),
	}
}

// collectors returns the metrics for registration.
func (m *countMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.duration, m.lastCount, m.unowned, m.unlimited, m.ambiguous, m.waited}
}

// Metrics returns metrics like those that Setup registers, for their descriptions.
func Metrics() []prometheus.Collector {
	counts := newCountMetrics()
	return append(counts.collectors(), newMetricsCollector())
}

// setUnowned replaces the metric of quotas without a CardQuota. unowned has them by queue.
func (m *countMetrics) setUnowned(unowned map[string]card.Quota) {
	var series []shared.GaugeValue
	for queue, quota := range unowned {
		for name, count := range quota {
			series = append(series, shared.GaugeValue{Value: float64(count), Labels: []string{queue, string(name)}})
		}
	}
	m.unowned.Replace(series...)
}

// setPolicyForecast replaces the metrics of what no CardQuota decides about, nil for nothing.
func (m *countMetrics) setPolicyForecast(f *v1alpha1.PolicyForecast) {
	var cards, namespaces []shared.GaugeValue
	if f != nil && f.Unlimited != nil {
		cards = append(cards, shared.GaugeValue{Value: float64(f.Unlimited.Cards)})
	}
	if f != nil && f.AmbiguousNamespacesTotal > 0 {
		namespaces = append(namespaces, shared.GaugeValue{Value: float64(f.AmbiguousNamespacesTotal)})
	}

	m.unlimited.Replace(cards...)
	m.ambiguous.Replace(namespaces...)
}

// setLastCount records when the last count began.
func (m *countMetrics) setLastCount(at time.Time) {
	m.lastCount.WithLabelValues().Set(float64(at.UnixMilli()) / 1000)
}

// observeBindings records how long pods waited that were bound since the last count. types are the service types by
// queue.
func (m *countMetrics) observeBindings(bindings []queueusage.Binding, types map[string]string) {
	for _, b := range bindings {
		for _, amount := range b.Cards {
			m.waited.WithLabelValues(servicetype.DisplayName(types[b.Queue]), string(amount.Name)).Observe(b.Waited.Seconds())
		}
	}
}
