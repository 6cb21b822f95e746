package action

import (
	"github.com/prometheus/client_golang/prometheus"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// counters tell what the tide took. They are registered once: Volcano makes new
// plugins every session, but the action lives as long as the process.
type counters struct {
	jobs, pods, loss *prometheus.CounterVec
	// queues are those that are counted. Only sessions read and write them, one at a time.
	queues map[api.QueueID]bool
}

var counted = newCounters(prometheus.DefaultRegisterer)

func newCounters(registry prometheus.Registerer) *counters {
	vec := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"queue"})
		registry.MustRegister(v)
		return v
	}
	return &counters{
		queues: map[api.QueueID]bool{},
		jobs:   vec("cardquota_reclaimed_jobs_total", "Jobs of the queue that were taken whole so that another queue gets its cards."),
		pods:   vec("cardquota_reclaimed_pods_total", "Pods of the queue that were taken so that another queue gets its cards."),
		loss:   vec("cardquota_reclaimed_card_seconds_total", "Work of the queue that was lost with reclaimed pods, in card-seconds."),
	}
}

func (c *counters) took(p *parting, loss int64) {
	queue := string(p.giver.job.Queue)
	c.queues[p.giver.job.Queue] = true
	if p.whole {
		c.jobs.WithLabelValues(queue).Inc()
	}
	c.pods.WithLabelValues(queue).Add(float64(len(p.places)))
	c.loss.WithLabelValues(queue).Add(float64(loss))
}

// keep forgets what was counted of queues that are gone.
func (c *counters) keep(queues map[api.QueueID]*api.QueueInfo) {
	for queue := range c.queues {
		if queues[queue] != nil {
			continue
		}
		delete(c.queues, queue)
		for _, vec := range []*prometheus.CounterVec{c.jobs, c.pods, c.loss} {
			vec.DeleteLabelValues(string(queue))
		}
	}
}
