package cardquota

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"cardquota.dev/operator/api/v1alpha1"
)

var (
	labels      = []string{"queue", "card"}
	quotaDesc   = prometheus.NewDesc("cardquota_quota_cards", "Quota of a queue for a card name, in whole cards.", labels, nil)
	usedDesc    = prometheus.NewDesc("cardquota_used_cards", "Cards that the assigned pods of a queue hold.", labels, nil)
	pendingDesc = prometheus.NewDesc("cardquota_pending_cards", "Cards that the pending pods of a queue request.", labels, nil)
)

// unknownCard is the label for cards that no node and no quota of the queue has. Tenants
// could otherwise create any number of series.
const unknownCard = "unknown"

// metricsCollector collects the metrics of all CardQuotas. It builds the series at every
// scrape, so that the series of a deleted card or CardQuota disappear.
type metricsCollector struct {
	mu sync.Mutex
	// queues is by queue, so that two CardQuotas of one queue never report it twice.
	queues map[string]queueCards
}

type queueCards struct {
	quota string
	cards []v1alpha1.CardStatus
}

func newMetricsCollector() *metricsCollector {
	return &metricsCollector{queues: map[string]queueCards{}}
}

// setCards replaces the numbers of a queue; quota is the CardQuota that owns it.
func (m *metricsCollector) setCards(queue, quota string, cards []v1alpha1.CardStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queues[queue] = queueCards{quota: quota, cards: cards}
}

// forgetQuota drops the numbers of the queue that the CardQuota owned.
func (m *metricsCollector) forgetQuota(quota string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.queues, func(_ string, q queueCards) bool { return q.quota == quota })
}

// Describe implements prometheus.Collector.
func (m *metricsCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- quotaDesc
	ch <- usedDesc
	ch <- pendingDesc
}

// Collect implements prometheus.Collector.
func (m *metricsCollector) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	queues := maps.Clone(m.queues)
	m.mu.Unlock()
	for queue, q := range queues {
		unknown := 0.0
		for _, c := range q.cards {
			if c.Quota == 0 && c.Used == 0 && c.Physical == 0 {
				unknown += float64(c.Pending)
				continue
			}
			ch <- prometheus.MustNewConstMetric(quotaDesc, prometheus.GaugeValue, float64(c.Quota), queue, c.Name)
			ch <- prometheus.MustNewConstMetric(usedDesc, prometheus.GaugeValue, float64(c.Used), queue, c.Name)
			ch <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(c.Pending), queue, c.Name)
		}
		if unknown > 0 {
			ch <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, unknown, queue, unknownCard)
		}
	}
}
