package cardquota

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/forecast"
	"cardquota.dev/operator/internal/servicetype"
)

var (
	labels    = []string{"queue", "card"}
	quotaDesc = prometheus.NewDesc("cardquota_quota_cards", "Quota of a queue for a card name, in whole cards.", labels, nil)
	usedDesc  = prometheus.NewDesc("cardquota_used_cards", "Cards that the assigned pods of a queue hold.", labels, nil)

	pendingDesc = prometheus.NewDesc("cardquota_pending_cards",
		"Cards that the pending pods and jobs of a queue request. A card name that no node has and the queue has no quota for shows as `unknown`.", labels, nil)
	overDesc = prometheus.NewDesc("cardquota_over_quota_cards",
		"Cards that a queue holds beyond its quota. Absent while it is within its quota.", labels, nil)
	deservedDesc = prometheus.NewDesc("cardquota_deserved_cards",
		"Cards that a queue deserves in a tree of queues. Absent if the queues are flat.", labels, nil)
	infoDesc = prometheus.NewDesc("cardquota_queue_info",
		"Always 1. Join it by queue: whose queue it is, by its CardQuota. A parent in a tree has it, too.",
		[]string{"queue", "tenant", "project", "service_type", "cardquota", "parent"}, nil)
	oldestDesc = prometheus.NewDesc("cardquota_oldest_pending_timestamp_seconds",
		"Unix time at which the oldest pending pod or job of a queue was created. Absent while nothing is pending. Pods with scheduling gates do not count.",
		[]string{"queue"}, nil)
	oldestWithinQuotaDesc = prometheus.NewDesc("cardquota_oldest_pending_within_quota_timestamp_seconds",
		"Unix time at which the oldest pending pod or job of a queue was created that requests cards and waits although the queue has quota for it, also for a card whose nodes are gone. Absent while none does.",
		[]string{"queue"}, nil)
	blockedDesc = prometheus.NewDesc("cardquota_blocked_cards",
		"Cards for which pods and jobs of a queue wait, by the reason that `status.blocked` of the CardQuota has. Absent for a reason without cards.",
		[]string{"queue", "reason"}, nil)
	forecastWorkloadsDesc = prometheus.NewDesc("cardquota_forecast_workloads",
		"Workloads of a queue that mode Enforce would treat differently now, by outcome. Only in mode Observe. Absent for an outcome without workloads.",
		[]string{"queue", "outcome"}, nil)
	forecastCardsDesc = prometheus.NewDesc("cardquota_forecast_cards",
		"Cards that the workloads of a queue use or request that mode Enforce would treat differently now, by outcome. Only in mode Observe. Absent for an outcome without workloads.",
		[]string{"queue", "outcome"}, nil)
)

// metricsCollector collects the metrics of all CardQuotas. It builds the series at every
// scrape, so that the series of a deleted card or CardQuota disappear. So do those of a card
// without numbers.
type metricsCollector struct {
	mu sync.Mutex
	// queues is by queue, so that two CardQuotas of one queue never report it twice.
	queues map[string]queueMetrics
}

// queueMetrics are the numbers of one queue.
type queueMetrics struct {
	// quota is the name of the CardQuota that owns the queue.
	quota                                string
	tenant, project, serviceType, parent string
	// cards is nil for a parent: the queues below it report its cards.
	cards []v1alpha1.CardStatus
	// isInTree is false while queues are flat, and deserve nothing.
	isInTree bool
	// oldest is zero while nothing is pending, oldestWithinQuota while nothing waits within the quota.
	oldest, oldestWithinQuota time.Time
	// blocked are the cards that wait, by reason.
	blocked map[v1alpha1.BlockedReason]card.Count
	// forecast is what Enforce would do in mode Observe.
	forecast []forecastMetrics
}

// forecastMetrics are the numbers of one outcome of the forecast.
type forecastMetrics struct {
	outcome          string
	workloads, cards int64
}

// newForecastMetrics returns the numbers of a forecast. It keeps nothing of the status, which its write overwrites.
func newForecastMetrics(f *v1alpha1.CardQuotaForecast) []forecastMetrics {
	var numbers []forecastMetrics
	for _, outcome := range forecast.Outcomes(f) {
		numbers = append(numbers, forecastMetrics{outcome.Name, int64(outcome.Workloads.Total), outcome.Workloads.Cards})
	}
	return numbers
}

// newQueueMetrics returns the description of a CardQuota's queue, without numbers.
func newQueueMetrics(q *v1alpha1.CardQuota) queueMetrics {
	return queueMetrics{
		quota: q.Name, tenant: q.Spec.Tenant, project: q.Spec.Project, parent: q.Spec.Parent,
		serviceType: servicetype.DisplayName(q.Spec.ServiceType),
	}
}

func newMetricsCollector() *metricsCollector {
	return &metricsCollector{queues: map[string]queueMetrics{}}
}

// setQueue replaces the numbers of a queue.
func (m *metricsCollector) setQueue(queue string, numbers queueMetrics) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queues[queue] = numbers
}

// forgetQuota drops the numbers of the queue that the CardQuota owned.
func (m *metricsCollector) forgetQuota(quota string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.queues, func(_ string, q queueMetrics) bool { return q.quota == quota })
}

// Describe implements prometheus.Collector.
func (m *metricsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{quotaDesc, usedDesc, pendingDesc, overDesc, deservedDesc, infoDesc, oldestDesc, oldestWithinQuotaDesc, blockedDesc, forecastWorkloadsDesc, forecastCardsDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *metricsCollector) Collect(ch chan<- prometheus.Metric) {
	// Sending can block on the scrape, so it must not have the lock that every reconcile needs.
	m.mu.Lock()
	queues := maps.Clone(m.queues)
	m.mu.Unlock()

	count := 0
	for _, q := range queues {
		count += len(q.cards) + 1
	}

	cards := make([]cardMetrics, 0, count)
	for queue, q := range queues {
		q.sendState(queue, ch)
		cards = q.appendCards(cards, queue)
	}

	// The registry sorts in this order. It takes twice the time for series in any other one.
	slices.SortFunc(cards, func(a, b cardMetrics) int {
		if byCard := strings.Compare(a.Name, b.Name); byCard != 0 {
			return byCard
		}
		return strings.Compare(a.queue, b.queue)
	})
	for i := range cards {
		cards[i].send(ch)
	}
}

// sendState sends the series of a queue that are not by card.
func (q *queueMetrics) sendState(queue string, ch chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, value float64, labels ...string) {
		// An invalid label costs that series and not the scrape.
		if metric, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...); err == nil {
			ch <- metric
		}
	}

	send(infoDesc, 1, queue, q.tenant, q.project, q.serviceType, q.quota, q.parent)
	if !q.oldest.IsZero() {
		send(oldestDesc, float64(q.oldest.Unix()), queue)
	}

	if !q.oldestWithinQuota.IsZero() {
		send(oldestWithinQuotaDesc, float64(q.oldestWithinQuota.Unix()), queue)
	}

	for reason, count := range q.blocked {
		send(blockedDesc, float64(count), queue, string(reason))
	}

	for _, numbers := range q.forecast {
		send(forecastWorkloadsDesc, float64(numbers.workloads), queue, numbers.outcome)
		send(forecastCardsDesc, float64(numbers.cards), queue, numbers.outcome)
	}
}

// cardMetrics are the numbers of one queue and card.
type cardMetrics struct {
	*v1alpha1.CardStatus

	queue    string
	isInTree bool
}

// appendCards appends the numbers of a queue's cards, unless all of a card are zero. Tenants can name any number of
// unknown cards, and each would become a series. So what is pending for them is added up under one name.
func (q *queueMetrics) appendCards(all []cardMetrics, queue string) []cardMetrics {
	unknown := &v1alpha1.CardStatus{Name: card.UnknownLabel}
	for i := range q.cards {
		switch c := &q.cards[i]; {
		case c.Name == card.UnknownLabel: // a card may have this name
			pending := unknown.Pending
			unknown = c.DeepCopy()
			unknown.Pending += pending
		case isUnknown(c):
			unknown.Pending += c.Pending
		case hasNumbers(c):
			all = append(all, cardMetrics{c, queue, q.isInTree})
		}
	}

	if hasNumbers(unknown) {
		all = append(all, cardMetrics{unknown, queue, q.isInTree})
	}

	return all
}

// hasNumbers reports whether a queue may use, uses or requests a card.
func hasNumbers(c *v1alpha1.CardStatus) bool {
	return c.Quota > 0 || c.Deserved > 0 || c.Used > 0 || c.Pending > 0
}

// isUnknown reports whether a card is only requested: no node and no quota of the queue has it.
func isUnknown(c *v1alpha1.CardStatus) bool {
	return c.Quota == 0 && c.Used == 0 && c.Physical == 0
}

// send sends the series of a queue and card. Of unknown cards there are only pending ones.
func (m *cardMetrics) send(ch chan<- prometheus.Metric) {
	if !utf8.ValidString(m.Name) { // the registry would refuse all series for one such label
		return
	}
	pairs := prometheus.MakeLabelPairs(quotaDesc, []string{m.queue, m.Name})
	gauge := func(desc *prometheus.Desc, cards int64) { ch <- newCardGauge(desc, cards, pairs) }

	gauge(pendingDesc, m.Pending)
	if isUnknown(m.CardStatus) {
		return
	}

	gauge(quotaDesc, m.Quota)
	gauge(usedDesc, m.Used)
	if m.OverQuotaBy > 0 {
		gauge(overDesc, m.OverQuotaBy)
	}

	if m.isInTree {
		gauge(deservedDesc, m.Deserved)
	}
}

// cardGauge is a gauge of a queue and card. All gauges of both have the same pairs of labels. Each metric of
// client_golang itself has a copy, and a scrape takes twice the memory.
type cardGauge struct {
	desc  *prometheus.Desc
	value float64
	gauge dto.Gauge
	pairs []*dto.LabelPair
}

func newCardGauge(desc *prometheus.Desc, cards int64, pairs []*dto.LabelPair) *cardGauge {
	g := &cardGauge{desc: desc, value: float64(cards), pairs: pairs}
	g.gauge.Value = &g.value
	return g
}

// Desc implements prometheus.Metric.
func (g *cardGauge) Desc() *prometheus.Desc { return g.desc }

// Write implements prometheus.Metric.
func (g *cardGauge) Write(out *dto.Metric) error {
	out.Label = g.pairs
	out.Gauge = &g.gauge
	return nil
}
