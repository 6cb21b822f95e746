package capacitycard

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// pluginMetrics are the plugin's metrics, documented in docs/metrics.md. Gauges are computed at
// every scrape from the latest snapshot, so those of deleted queues and cards disappear. Only
// refusals and durations are counted.
type pluginMetrics struct {
	latestSnapshot atomic.Pointer[metricsSnapshot]
	refusals       *prometheus.CounterVec
	sessions       *prometheus.HistogramVec
}

var _ prometheus.Collector = &pluginMetrics{}

func newPluginMetrics() *pluginMetrics {
	return &pluginMetrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cardquota_refusals_total",
			Help: "Pods and PodGroups that the scheduler refused, with the reasons of their events. A repeated refusal for the same reason and with the same numbers does not count.",
		}, []string{"queue", "reason"}),
		sessions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "cardquota_session_seconds",
			Help:    "Histogram: how long `capacity-card` takes to open and to close a scheduling session, by step. Its `_count` is the number of sessions.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"step"}),
	}
}

// startTimer measures a step of a session, until done is called.
func (m *pluginMetrics) startTimer(step string) (done func()) {
	began := time.Now()
	return func() { m.sessions.WithLabelValues(step).Observe(time.Since(began).Seconds()) }
}

// publishSnapshot replaces the snapshot, and deletes the counters of queues that exist no more.
func (m *pluginMetrics) publishSnapshot(found *metricsSnapshot, exists func(queue string) bool) {
	if last := m.latestSnapshot.Swap(found); last != nil {
		for i := range last.queues {
			if queue := last.queues[i].usage.Queue; !exists(queue) {
				m.refusals.DeletePartialMatch(prometheus.Labels{"queue": queue})
			}
		}
	}
}

// countRefusal counts a new refusal of a job or of one of its pods.
func (m *pluginMetrics) countRefusal(job *api.JobInfo, refusal *workload.Refusal) {
	if job != nil {
		m.refusals.WithLabelValues(string(job.Queue), refusal.Reason()).Inc()
	}
}

// metricsSnapshot is what one session found when it opened. It never changes, because scrapes
// read it during later sessions.
type metricsSnapshot struct {
	at time.Time
	// ready is false while decisions are delayed.
	ready  bool
	queues []queueMetrics
	// unowned are the cards of pods whose queue does not exist or is not known.
	unowned map[card.Name]card.Count
	// pods is how many pods are charged, with or without a queue.
	pods int
	// inventory is what the nodes have.
	inventory *card.Inventory
}

// queueMetrics is one existing queue.
type queueMetrics struct {
	usage quota.QueueUsage
	// inqueue is reserved for enqueued jobs, pending is requested by pending pods.
	inqueue, pending []quota.CardRequest
}

func (q *queueMetrics) queueID() api.QueueID { return api.QueueID(q.usage.Queue) }

// gauges are all gauges that come from the snapshot.
var gauges []*prometheus.Desc

// newGauge describes a gauge and adds it to gauges.
func newGauge(name, help string, labels ...string) *prometheus.Desc {
	desc := prometheus.NewDesc(name, help, labels, nil)
	gauges = append(gauges, desc)
	return desc
}

var (
	quotaDesc     = newGauge("cardquota_scheduler_quota_cards", "Quota: cards that the queue may use. 0 for a card in use that the quota does not list. Absent for a queue without limit: `root` and queues without a quota, with `unmanagedQueues: Ignore`.", "queue", "card")
	allocatedDesc = newGauge("cardquota_scheduler_used_cards", "Cards that the placed pods of the queue hold, by the card of their node.", "queue", "card")
	inqueueDesc   = newGauge("cardquota_queue_card_inqueue", "Cards reserved for enqueued jobs whose pods are not placed yet. A job that may use either of two cards shows as `A|B`, in alphabetical order. In a queue without limits, names that no node has show as `unknown`.", "queue", "card")
	requestDesc   = newGauge("cardquota_queue_card_request", "Cards that all placed and pending pods of the queue request. A pending pod that may use either of two cards shows as `A|B`, one that names no card as all cards of its resource. Gated pods do not count.", "queue", "card")

	deservedDesc  = newGauge("cardquota_scheduler_deserved_cards", "Cards that the queue deserves in a tree of queues. Absent if the queues are flat.", "queue", "card")
	guaranteeDesc = newGauge("cardquota_queue_card_guarantee", "Cards that a tree of queues guarantees to the queue. Absent if the queues are flat.", "queue", "card")
	borrowedDesc  = newGauge("cardquota_queue_card_borrowed", "Cards that the queue uses beyond what it deserves in a tree of queues. Absent if the queues are flat.", "queue", "card")

	cpuQuotaDesc        = newGauge("cardquota_queue_cpu_quota_cores", "CPU cores that the queue may use. Absent for a queue without limit.", "queue")
	cpuAllocatedDesc    = newGauge("cardquota_queue_cpu_allocated_cores", "CPU cores of placed pods that are charged to the queue. With `cardUnlimitedCpuMemory` pods that request cards do not count.", "queue")
	memoryQuotaDesc     = newGauge("cardquota_queue_memory_quota_bytes", "Memory that the queue may use. Absent for a queue without limit.", "queue")
	memoryAllocatedDesc = newGauge("cardquota_queue_memory_allocated_bytes", "Memory of placed pods that is charged to the queue. With `cardUnlimitedCpuMemory` pods that request cards do not count.", "queue")

	physicalDesc  = newGauge("cardquota_scheduler_physical_cards", "Cards of all nodes together (allocatable).", "card")
	unownedDesc   = newGauge("cardquota_card_unowned", "Cards held by pods whose queue does not exist or is not known. No quota is charged for them.", "card")
	anomalousDesc = newGauge("cardquota_nodes_anomalous", "Nodes with cards whose labels are wrong. They accept no pod that requests cards.")
	podsDesc      = newGauge("cardquota_pods_charged", "Charged pods: placed and not finished, with or without cards.")
	readyDesc     = newGauge("cardquota_ready", "1 if the scheduler places pods, 0 if it waits: it has not seen all nodes and pods yet, or the plugin's arguments are invalid.")
	sessionDesc   = newGauge("cardquota_last_session_timestamp_seconds", "Unix time at which the last scheduling session opened.")
)

// Describe implements prometheus.Collector.
func (m *pluginMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range gauges {
		ch <- desc
	}
	m.refusals.Describe(ch)
	m.sessions.Describe(ch)
}

// Collect implements prometheus.Collector. Without a session, as in a replica that is not the
// leader, there are no gauges.
func (m *pluginMetrics) Collect(ch chan<- prometheus.Metric) {
	m.refusals.Collect(ch)
	m.sessions.Collect(ch)
	found := m.latestSnapshot.Load()
	if found == nil {
		return
	}

	to := sender(ch)
	physical := found.inventory.Physical()
	for i := range found.queues {
		found.queues[i].sendMetrics(to, physical)
	}

	for name, count := range physical {
		to.sendGauge(physicalDesc, float64(count), string(name))
	}

	for name, count := range found.unowned {
		to.sendGauge(unownedDesc, float64(count), string(name))
	}

	to.sendGauge(anomalousDesc, float64(found.inventory.AnomalousNodes()))
	to.sendGauge(podsDesc, float64(found.pods))
	to.sendGauge(readyDesc, map[bool]float64{true: 1}[found.ready]) // else 0
	to.sendGauge(sessionDesc, float64(found.at.UnixMilli())/1000)
}

// sender sends gauges. An invalid label costs that series and not the scrape.
type sender chan<- prometheus.Metric

func (s sender) sendGauge(desc *prometheus.Desc, value float64, labels ...string) {
	if metric, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...); err == nil {
		s <- metric
	}
}

// sendMetrics sends the gauges of one queue. physical are the cards of all nodes. A card with quota or usage
// has the gauges of quota, usage, inqueue and requests, also where they are 0, so that they can be compared.
// A request for one of several cards has only the gauges inqueue and requests, with the label of all its
// cards.
func (q *queueMetrics) sendMetrics(ch sender, physical map[card.Name]card.Count) {
	queue := q.usage.Queue
	limits := q.usage.Limits
	used := map[card.Name]card.Count{}
	for name := range limits.Cards {
		used[name] = 0
	}
	for _, amount := range q.usage.Used {
		used[amount.Name] = amount.Count
	}

	// By label: what is reserved for enqueued jobs, and what all placed and pending pods request.
	inqueue := map[string]card.Count{}
	requested := map[string]card.Count{}
	for name, count := range used {
		q.sendCardMetrics(ch, name, count)
		inqueue[string(name)] = 0
		requested[string(name)] = count
	}

	q.addByLabel(inqueue, q.inqueue, physical)
	q.addByLabel(requested, q.pending, physical)
	for label := range inqueue {
		requested[label] += 0 // so that each label has both gauges
	}
	for label, count := range requested {
		ch.sendGauge(inqueueDesc, float64(inqueue[label]), queue, label)
		ch.sendGauge(requestDesc, float64(count), queue, label)
	}

	if limits.MilliCPU != quota.Unlimited {
		ch.sendGauge(cpuQuotaDesc, float64(limits.MilliCPU)/1000, queue)
	}

	if limits.Memory != quota.Unlimited {
		ch.sendGauge(memoryQuotaDesc, float64(limits.Memory), queue)
	}

	ch.sendGauge(cpuAllocatedDesc, float64(q.usage.MilliCPU)/1000, queue)
	ch.sendGauge(memoryAllocatedDesc, float64(q.usage.Memory), queue)
}

// addByLabel adds the cards of requests to the sums of their labels.
func (q *queueMetrics) addByLabel(sums map[string]card.Count, requests []quota.CardRequest, physical map[card.Name]card.Count) {
	for _, request := range requests {
		if len(request.Names) > 0 { // an unreadable request names no card
			label := q.cardLabel(request, physical)
			sums[label] = sums[label].Add(request.Count)
		}
	}
}

// sendCardMetrics sends what a queue uses of a card, and what it may use, unless it has no limit.
func (q *queueMetrics) sendCardMetrics(ch sender, name card.Name, count card.Count) {
	queue := q.usage.Queue
	limits := q.usage.Limits
	if !limits.AnyCard {
		ch.sendGauge(quotaDesc, float64(limits.Cards[name]), queue, string(name))
	}

	ch.sendGauge(allocatedDesc, float64(count), queue, string(name))
	if limits.Deserved != nil && !limits.AnyCard {
		deserved := limits.Deserved[quota.Resource(name)]
		ch.sendGauge(deservedDesc, float64(deserved), queue, string(name))
		ch.sendGauge(guaranteeDesc, float64(limits.Guarantee[quota.Resource(name)]), queue, string(name))
		ch.sendGauge(borrowedDesc, float64(max(0, int64(count)-deserved)), queue, string(name))
	}
}

// cardLabel returns the label for the cards of a request, sorted, because preference does not
// matter here. If neither a node nor the quota has one of them, the label is UnknownLabel: users
// could otherwise create any number of series.
func (q *queueMetrics) cardLabel(request quota.CardRequest, physical map[card.Name]card.Count) string {
	texts := make([]string, len(request.Names))
	for i, name := range request.Names {
		_, offered := physical[name]
		_, granted := q.usage.Limits.Cards[name]
		if !offered && !granted {
			return card.UnknownLabel
		}
		texts[i] = string(name)
	}
	slices.Sort(texts)
	return strings.Join(texts, "|")
}
