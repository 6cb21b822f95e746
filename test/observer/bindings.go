package observer

import (
	"fmt"
	"time"
)

// bindingsMetric is how many pods the histogram of their waiting time has.
const bindingsMetric = "cardquota_pod_bound_seconds_count"

// typeCard is a service type and a card.
type typeCard struct{ serviceType, card string }

// binding is a pod that the observer saw placed with cards.
type binding struct {
	state *podState
	key   typeCard
	seen  time.Time
	// isSure reports whether the operator must count it: the pod is of our scheduler, and its card is
	// certain.
	isSure bool
	// ended is when the pod used its cards no more, zero while it does.
	ended time.Time
}

// bindings are the pods that were placed, and what the first page of the operator that leads had
// counted before.
type bindings struct {
	placed []*binding
	// since is when that page was there, zero without one, and process who served it.
	since   time.Time
	process int
	before  map[typeCard]float64
}

// recordBinding records a pod that was placed.
func (m *clusterState) recordBinding(state *podState, seen time.Time) {
	if m.options.Metrics == nil || state.charge == nil {
		return
	}
	queue := state.charge.Queue
	for card := range state.charge.Cards {
		m.bindings.placed = append(m.bindings.placed, &binding{
			state: state, key: typeCard{shownType(m.ownerOf(queue), m.queues[queue]), card}, seen: seen,
			isSure: state.pod.Spec.SchedulerName == m.options.SchedulerName && len(state.charge.Cards) == 1 && queue != "",
		})
	}
}

// recordUnbound records that a pod uses no cards any more.
func (m *clusterState) recordUnbound(state *podState, at time.Time) {
	for _, b := range m.bindings.placed {
		if b.state == state && b.ended.IsZero() {
			b.ended = at
		}
	}
}

// checkBindings compares how many pods the operator saw bound since the first page that it served as the
// leader. It may miss a pod that ends soon.
func (c *metricsComparison) checkBindings(page *samplePages) {
	b := &c.state.bindings
	counts := bindingsOn(page.operator)
	if b.since.IsZero() || b.process != page.operatorProcess {
		b.since = page.answered
		b.process = page.operatorProcess
		b.before = counts
		return
	}

	for key := range c.state.countBindings(page) {
		counts[key] += 0
	}

	expected := c.state.countBindings(page)
	for key, count := range counts {
		s := sample{bindingsMetric, map[string]string{"service_type": key.serviceType, "card": key.card}, count - b.before[key]}
		if !c.concerns(&s) {
			continue
		}

		want := expected[key]
		difference := ""
		if s.value < want[0] || s.value > want[1] {
			difference = fmt.Sprintf("%g more than at %s, a recount gives %g to %g", s.value, b.since.Format("15:04:05"), want[0], want[1])
		}
		c.compare(s.key(), difference)
	}
}

// countBindings returns the least and the most pods of each service type and card that the operator may
// have counted since the first page.
func (m *clusterState) countBindings(page *samplePages) map[typeCard][2]float64 {
	counts := map[typeCard][2]float64{}
	for _, b := range m.bindings.placed {
		if b.seen.Before(m.bindings.since.Add(-maxWatchLag)) {
			continue
		}

		sums := counts[b.key]
		lasted := b.seen.Add(m.options.StatusWithin)
		sums[1]++

		isSure := b.isSure && !boundAt(b.state.pod).IsZero() && b.seen.After(m.bindings.since.Add(m.options.StatusWithin))
		if isSure && !lasted.After(page.asked) && (b.ended.IsZero() || !b.ended.Before(lasted)) {
			sums[0]++
		}
		counts[b.key] = sums
	}

	return counts
}

// bindingsOn returns the pods that a page counts.
func bindingsOn(page []sample) map[typeCard]float64 {
	counts := map[typeCard]float64{}
	for _, s := range page {
		if s.name == bindingsMetric {
			counts[typeCard{s.labels["service_type"], s.labels["card"]}] += s.value
		}
	}
	return counts
}
