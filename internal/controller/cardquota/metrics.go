package cardquota

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/metricspage"
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
)

// unknownCard is the label for cards that no node and no quota of the queue has. Tenants
// could otherwise create any number of series.
const unknownCard = "unknown"

// metricsCollector collects the metrics of all CardQuotas. It builds the series at every
// scrape, so that the series of a deleted card or CardQuota disappear.
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
	for _, desc := range []*prometheus.Desc{quotaDesc, usedDesc, pendingDesc, overDesc, deservedDesc, infoDesc, oldestDesc, oldestWithinQuotaDesc, blockedDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *metricsCollector) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	queues := maps.Clone(m.queues)
	m.mu.Unlock()
	for queue, q := range queues {
		q.send(queue, func(desc *prometheus.Desc, value float64, labels ...string) {
			// An invalid label costs that series and not the scrape.
			if metric, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...); err == nil {
				ch <- metric
			}
		})
	}
}

// SendSeries implements metricspage.Sender.
func (m *metricsCollector) SendSeries(send metricspage.Send) {
	m.mu.Lock()
	queues := maps.Clone(m.queues)
	m.mu.Unlock()
	for queue, q := range queues {
		q.send(queue, send)
	}
}

func (q *queueMetrics) send(queue string, gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	gauge(infoDesc, 1, queue, q.tenant, q.project, q.serviceType, q.quota, q.parent)
	if !q.oldest.IsZero() {
		gauge(oldestDesc, float64(q.oldest.Unix()), queue)
	}
	if !q.oldestWithinQuota.IsZero() {
		gauge(oldestWithinQuotaDesc, float64(q.oldestWithinQuota.Unix()), queue)
	}
	for reason, count := range q.blocked {
		gauge(blockedDesc, float64(count), queue, string(reason))
	}
	pending := map[string]float64{} // a card may have the name of unknownCard
	for _, c := range q.cards {
		if c.Quota == 0 && c.Used == 0 && c.Physical == 0 {
			if c.Pending > 0 {
				pending[unknownCard] += float64(c.Pending)
			}
			continue
		}
		pending[c.Name] += float64(c.Pending)
		gauge(quotaDesc, float64(c.Quota), queue, c.Name)
		gauge(usedDesc, float64(c.Used), queue, c.Name)
		if c.OverQuotaBy > 0 {
			gauge(overDesc, float64(c.OverQuotaBy), queue, c.Name)
		}
		if q.isInTree {
			gauge(deservedDesc, float64(c.Deserved), queue, c.Name)
		}
	}
	for name, cards := range pending {
		gauge(pendingDesc, cards, queue, name)
	}
}
