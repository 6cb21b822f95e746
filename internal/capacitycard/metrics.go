package capacitycard

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/workload"
)

// meters are the plugin's metrics, whose manual is docs/metrics.md. What can be
// read off the books is made anew at every scrape from the latest view, so that a
// queue or card that is gone is gone here as well; only refusals and durations are
// counted on the way.
type meters struct {
	latest   atomic.Pointer[view]
	refusals *prometheus.CounterVec
	sessions *prometheus.HistogramVec
	stock    stock
}

var _ prometheus.Collector = &meters{}

func newMeters() *meters {
	return &meters{
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

// opening times the opening of a session and publishes what it found. Every
// number is of this moment, when the account and the reservations agree: while
// a session decides, a pod that it places is in both.
func (m *meters) opening(p *plugin) (done func()) {
	began := time.Now()
	return func() {
		m.publish(p)
		m.sessions.WithLabelValues("open").Observe(time.Since(began).Seconds())
	}
}

// closing times the closing of a session.
func (m *meters) closing() (done func()) {
	began := time.Now()
	return func() { m.sessions.WithLabelValues("close").Observe(time.Since(began).Seconds()) }
}

// publish replaces the view, and forgets the counters of queues that are gone.
func (m *meters) publish(p *plugin) {
	m.stock.take(p)
	last := m.latest.Swap(p.view(m.stock))
	if last == nil {
		return
	}
	for _, queue := range last.queues {
		if _, exists := p.rules[queue.id()]; !exists {
			m.refusals.DeletePartialMatch(prometheus.Labels{"queue": queue.books.Queue})
		}
	}
}

// refused counts a refusal that is news to a job or a pod of it.
func (m *meters) refused(job *api.JobInfo, refusal *workload.Refusal) {
	if job != nil {
		m.refusals.WithLabelValues(string(job.Queue), refusal.Reason).Inc()
	}
}
