package action

import "github.com/prometheus/client_golang/prometheus"

// counters tell what the tide took. They are registered once: Volcano makes new
// plugins every session, but the action lives as long as the process.
type counters struct{ jobs, pods, loss *prometheus.CounterVec }

var counted = newCounters(prometheus.DefaultRegisterer)

func newCounters(registry prometheus.Registerer) *counters {
	vec := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"queue"})
		registry.MustRegister(v)
		return v
	}
	return &counters{
		jobs: vec("cardquota_reclaimed_jobs_total", "Jobs of the queue that were taken whole so that another queue gets its cards."),
		pods: vec("cardquota_reclaimed_pods_total", "Pods of the queue that were taken so that another queue gets its cards."),
		loss: vec("cardquota_reclaimed_card_seconds_total", "Work of the queue that was lost with reclaimed pods, in card-seconds."),
	}
}

func (c *counters) took(p *parting, loss int64) {
	queue := string(p.giver.job.Queue)
	if p.whole {
		c.jobs.WithLabelValues(queue).Inc()
	}
	c.pods.WithLabelValues(queue).Add(float64(len(p.places)))
	c.loss.WithLabelValues(queue).Add(float64(loss))
}
