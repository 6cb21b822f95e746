package capacitycard

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// pluginMetrics are the plugin's metrics, whose manual is docs/metrics.md. What can be
// read off the books is made anew at every scrape from the latest view, so that a
// queue or card that is gone is gone here as well; only refusals and durations are
// counted on the way.
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
			Help: "Refusals that were news to the pod or PodGroup they were told to. Being refused again for the same reason does not count.",
		}, []string{"queue", "reason"}),
		sessions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "cardquota_session_seconds",
			Help:    "Time that capacity-card takes to open and to close a scheduling session.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"step"}),
	}
}

// Metrics are the plugin's, for the program to register.
func (c *Cache) Metrics() prometheus.Collector { return c.metrics }

// startTimer times a step of a session.
func (m *pluginMetrics) startTimer(step string) (done func()) {
	began := time.Now()
	return func() { m.sessions.WithLabelValues(step).Observe(time.Since(began).Seconds()) }
}

// publishSnapshot replaces the view, and forgets the counters of queues that exist no more.
func (m *pluginMetrics) publishSnapshot(v *metricsSnapshot, exists func(queue string) bool) {
	if last := m.latestSnapshot.Swap(v); last != nil {
		for i := range last.queues {
			if queue := last.queues[i].usage.Queue; !exists(queue) {
				m.refusals.DeletePartialMatch(prometheus.Labels{"queue": queue})
			}
		}
	}
}

// countRefusal counts a refusal that is news to a job or a pod of it.
func (m *pluginMetrics) countRefusal(job *api.JobInfo, refusal *workload.Refusal) {
	if job != nil {
		m.refusals.WithLabelValues(string(job.Queue), refusal.Reason).Inc()
	}
}

// metricsSnapshot is what one session found when it opened. It never changes, because
// scrapes read it while later sessions write the account.
type metricsSnapshot struct {
	at time.Time
	// ready is false while decisions are held back.
	ready  bool
	queues []queueMetrics
	// unowned are the cards of pods whose queue does not exist or is not known.
	unowned map[card.Name]card.Count
	// pods is how many pods are charged, to a queue or to none.
	pods int
	// inventory is what the nodes offer.
	inventory *card.Inventory
}

// queueMetrics is one queue that exists.
type queueMetrics struct {
	usage quota.QueueUsage
	// inqueue is what was admitted and waits, pending what waiting pods ask for.
	inqueue, pending []quota.Demand
}

func (q *queueMetrics) queueID() api.QueueID { return api.QueueID(q.usage.Queue) }

// newMetricsSnapshot copies what the session knows when it opens, as far as it will change. Then the
// ledger and the reservations agree: while a session decides, a pod that it places is in
// both.
func (p *plugin) newMetricsSnapshot() *metricsSnapshot {
	usages, pending := p.ledger.Snapshot(), p.pendingDemands()
	v := &metricsSnapshot{
		at: p.cache.now(), ready: p.notReadyReason == "" && p.argumentsErr == nil, inventory: p.inventory,
		queues: make([]queueMetrics, 0, len(usages)), unowned: map[card.Name]card.Count{},
	}
	for _, b := range usages {
		v.pods += b.Pods
		queue := queueMetrics{usage: b}
		if _, exists := p.queueRules[queue.queueID()]; !exists {
			for _, held := range b.Used {
				v.unowned[held.Name] = v.unowned[held.Name].Add(held.Count)
			}
			continue
		}
		queue.inqueue, queue.pending = slices.Clone(p.inqueue[queue.queueID()].Demands), pending[queue.queueID()]
		v.queues = append(v.queues, queue)
	}
	return v
}

// pendingDemands sums what the waiting pods of the session's jobs ask for. Pods that
// are gated do not wait yet, and one that can never be placed as it is written
// asks for no card.
func (p *plugin) pendingDemands() map[api.QueueID][]quota.Demand {
	type demandKey struct {
		queue   api.QueueID
		request string // "" for any card of the resource
		of      corev1.ResourceName
	}
	sums := map[demandKey]quota.Demand{}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			state := p.cache.podsByObject[task.Pod] // every pod of a job was seen when the books were opened
			if task.SchGated || state == nil || state.request.Count == 0 || len(state.request.Names) == 0 {
				continue
			}
			key := demandKey{job.Queue, state.request.Named.String(), state.request.Resource}
			sums[key] = quota.Demand{Names: state.request.Names, Count: sums[key].Count.Add(state.request.Count)}
		}
	}
	all := map[api.QueueID][]quota.Demand{}
	for key, demand := range sums {
		all[key.queue] = append(all[key.queue], demand)
	}
	return all
}

// gauges are all gauges that are read off the books.
var gauges []*prometheus.Desc

func newGauge(name, help string, labels ...string) *prometheus.Desc {
	desc := prometheus.NewDesc(name, help, labels, nil)
	gauges = append(gauges, desc)
	return desc
}

var (
	quotaDesc     = newGauge("cardquota_queue_card_quota", "Cards that the queue may use. Absent for a queue without limit.", "queue", "card")
	allocatedDesc = newGauge("cardquota_queue_card_allocated", "Cards that placed pods of the queue hold.", "queue", "card")
	inqueueDesc   = newGauge("cardquota_queue_card_inqueue", "Cards reserved for jobs of the queue that were admitted and are not placed yet. A job that may use either of two cards is shown as A|B.", "queue", "card")
	requestDesc   = newGauge("cardquota_queue_card_request", "Cards that all pods of the queue ask for: those of placed pods, and those of waiting pods, which are shown as A|B if they may use either. Gated pods do not count.", "queue", "card")

	cpuQuotaDesc        = newGauge("cardquota_queue_cpu_quota_cores", "CPU cores that the queue may use. Absent for a queue without limit.", "queue")
	cpuAllocatedDesc    = newGauge("cardquota_queue_cpu_allocated_cores", "CPU cores that placed pods request and that are counted against the queue.", "queue")
	memoryQuotaDesc     = newGauge("cardquota_queue_memory_quota_bytes", "Memory that the queue may use. Absent for a queue without limit.", "queue")
	memoryAllocatedDesc = newGauge("cardquota_queue_memory_allocated_bytes", "Memory that placed pods request and that is counted against the queue.", "queue")

	physicalDesc  = newGauge("cardquota_card_physical", "Cards that all nodes together offer now.", "card")
	unownedDesc   = newGauge("cardquota_card_unowned", "Cards held by pods whose queue does not exist or is not known, so that no quota pays for them.", "card")
	anomalousDesc = newGauge("cardquota_nodes_anomalous", "Nodes with cards that are labelled wrongly and take no pod that asks for cards.")
	podsDesc      = newGauge("cardquota_pods_charged", "Pods in the books: placed and not finished, with cards or without.")
	readyDesc     = newGauge("cardquota_ready", "1 if pods are decided on, 0 while everything is held back: the scheduler has not seen all nodes and pods yet, or the plugin's arguments are invalid.")
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

// Collect implements prometheus.Collector. Before the first session, and in a
// replica that does not lead, there is nothing to read off the books.
func (m *pluginMetrics) Collect(ch chan<- prometheus.Metric) {
	m.refusals.Collect(ch)
	m.sessions.Collect(ch)
	v := m.latestSnapshot.Load()
	if v == nil {
		return
	}
	to, physical := sender(ch), v.inventory.Physical()
	for i := range v.queues {
		v.queues[i].sendMetrics(to, physical)
	}
	for name, count := range physical {
		to.sendGauge(physicalDesc, float64(count), string(name))
	}
	for name, count := range v.unowned {
		to.sendGauge(unownedDesc, float64(count), string(name))
	}
	to.sendGauge(anomalousDesc, float64(v.inventory.AnomalousNodes()))
	to.sendGauge(podsDesc, float64(v.pods))
	to.sendGauge(readyDesc, map[bool]float64{true: 1}[v.ready])
	to.sendGauge(sessionDesc, float64(v.at.UnixMilli())/1000)
}

// sender sends gauges. A label that Prometheus does not accept costs that
// series and not the scrape.
type sender chan<- prometheus.Metric

func (s sender) sendGauge(desc *prometheus.Desc, value float64, labels ...string) {
	if metric, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...); err == nil {
		s <- metric
	}
}

// sendMetrics sends the numbers of one queue: all four of every card that it has quota
// for or uses, so that they can be compared, and what is waiting for one of
// several cards.
func (q *queueMetrics) sendMetrics(ch sender, physical map[card.Name]card.Count) {
	queue, limits := q.usage.Queue, q.usage.Limits
	used, waiting := map[card.Name]card.Count{}, map[string]*[2]card.Count{}
	at := func(label string) *[2]card.Count {
		if waiting[label] == nil {
			waiting[label] = &[2]card.Count{}
		}
		return waiting[label]
	}
	for name := range limits.Cards {
		used[name] = 0
		at(string(name))
	}
	for _, held := range q.usage.Used {
		used[held.Name] = held.Count
		at(string(held.Name))
	}
	for i, demands := range [][]quota.Demand{q.inqueue, q.pending} {
		for _, demand := range demands {
			if len(demand.Names) > 0 { // a request that can not be read names no card
				at(q.cardLabel(demand, physical))[i] += demand.Count
			}
		}
	}
	for name, held := range used {
		if !limits.AnyCard {
			ch.sendGauge(quotaDesc, float64(limits.Cards[name]), queue, string(name))
		}
		ch.sendGauge(allocatedDesc, float64(held), queue, string(name))
	}
	for label, sums := range waiting {
		ch.sendGauge(inqueueDesc, float64(sums[0]), queue, label)
		ch.sendGauge(requestDesc, float64(sums[1].Add(used[card.Name(label)])), queue, label)
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

// unknownCard is the label of what is asked for under names that no node and no
// quota knows: they are words of users, who can invent any number of them.
const unknownCard = "unknown"

// cardLabel names the cards of a demand, in the order of the alphabet, since another
// order of preference is no other card.
func (q *queueMetrics) cardLabel(demand quota.Demand, physical map[card.Name]card.Count) string {
	texts := make([]string, len(demand.Names))
	for i, name := range demand.Names {
		_, offered := physical[name]
		_, granted := q.usage.Limits.Cards[name]
		if !offered && !granted {
			return unknownCard
		}
		texts[i] = string(name)
	}
	slices.Sort(texts)
	return strings.Join(texts, "|")
}
