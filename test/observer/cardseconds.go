package observer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/observer/rule"
)

const secondsMetric = "cardquota_card_seconds_total"

// lostWithin is what a restart of the operator may lose of the cards of a pod that ends, or whose binding
// is not dated, before the next operator counts. Of other pods it loses at most roundedBy: the
// next operator credits the time in which no operator counted.
const (
	lostWithin = time.Minute
	roundedBy  = 2 * time.Second
)

// queueCard is a card of a queue.
type queueCard struct{ queue, card string }

// cardUse is what one pod used for some time. The observer saw it from the one time to the other;
// to is zero while the pod uses it. A watch may be late: earliest is when the use may have begun.
type cardUse struct {
	count              int64
	earliest, from, to time.Time
	// isTerminating reports whether the pod may still run after to, until gone; gone is zero while it is there.
	isTerminating bool
	gone          time.Time
	state         *podState
}

// cardSeconds integrates what pods use.
type cardSeconds struct {
	uses map[queueCard][]*cardUse
	// open are the uses of the pods now, by pod and card.
	open map[*podState]map[string]*cardUse
	// terminating are the uses of the pods that are terminating now.
	terminating map[*podState][]*cardUse
	// labels are the tenant, project and service type that each queue had at some time.
	labels map[string]map[string]bool
	// served are the highest values of the pages.
	served map[string]float64
	// excused are the times in which nothing need be counted.
	excused []window
}

func newCardSeconds() cardSeconds {
	return cardSeconds{
		uses: map[queueCard][]*cardUse{}, open: map[*podState]map[string]*cardUse{}, terminating: map[*podState][]*cardUse{}, labels: map[string]map[string]bool{}, served: map[string]float64{},
	}
}

// setExcused begins or ends a time in which nothing need be counted.
func (s *cardSeconds) setExcused(excused bool, now time.Time) {
	if excused {
		s.excused = append(s.excused, window{now, now.Add(24 * time.Hour)})
	} else if n := len(s.excused); n > 0 {
		s.excused[n-1].to = now
	}
}

// recordUse records that a pod uses other cards from now on, nil for none that count as used. Pods without a
// queue are not recorded.
func (m *clusterState) recordUse(state *podState, before, now *rule.Charge, at time.Time) {
	if m.options.Metrics == nil || (before != nil && now != nil && before.String() == now.String()) {
		return
	}

	m.endUses(state, at)
	if now == nil || now.Queue == "" || !m.options.Concerns("queue/"+now.Queue) {
		return
	}

	s := &m.seconds
	s.open[state] = map[string]*cardUse{}
	for card, count := range now.Cards {
		use := &cardUse{count: count, earliest: earliestUse(state.pod, at), from: at, state: state}
		key := queueCard{now.Queue, card}
		s.open[state][card] = use
		s.uses[key] = append(s.uses[key], use)
	}
}

// endUses records that a pod no longer uses what it used, and whether it may still run.
func (m *clusterState) endUses(state *podState, at time.Time) {
	s := &m.seconds
	runs := m.pods[state.pod.UID] == state && rule.IsTerminating(state.pod)
	for _, use := range s.open[state] {
		use.to = at
		use.isTerminating = runs
		if runs {
			s.terminating[state] = append(s.terminating[state], use)
		}
	}

	delete(s.open, state)
	if !runs {
		for _, use := range s.terminating[state] {
			use.gone = at
		}
		delete(s.terminating, state)
	}
}

// earliestUse returns when a pod may have begun to use what the observer sees it use: at most
// maxWatchLag earlier, and not before its binding. The API server dates that in whole seconds.
func earliestUse(pod *corev1.Pod, seen time.Time) time.Time {
	const usualLag = 2 * time.Second
	if bound := boundAt(pod); !bound.IsZero() && bound.Before(seen) {
		return seen.Add(-min(seen.Sub(bound), maxWatchLag))
	}
	return seen.Add(-usualLag)
}

// boundAt returns when the API server dates the binding of a pod, zero if it does not.
func boundAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// lastSeen returns until when the pod may have been billed, zero if it still is. A terminating pod runs until it
// is gone.
func (u *cardUse) lastSeen() time.Time {
	if u.isTerminating {
		return u.gone
	}
	return u.to
}

// lostBy returns how much of a use a restart of the operator may lose, of a time that is certain.
func (u *cardUse) lostBy(restart, certain window, within time.Duration) time.Duration {
	uncertain := window{restart.from.Add(-lostWithin), restart.to.Add(within)}
	if hasEnded := !u.to.IsZero() && u.to.Before(uncertain.to); hasEnded || boundAt(u.state.pod).IsZero() {
		return certain.overlap(uncertain)
	}
	return min(certain.overlap(uncertain), roundedBy)
}

// creditedSince returns since when an operator that begins may credit a use: by the binding of the pod,
// also if it used another card, or was in another queue, at that time.
func (u *cardUse) creditedSince(restarts []window, within time.Duration) time.Time {
	since := u.earliest
	bound := boundAt(u.state.pod)
	for _, restart := range restarts {
		from := restart.from.Add(-lostWithin)
		if bound.IsZero() || u.from.Before(from) || u.from.After(restart.to.Add(within)) {
			continue
		}

		if bound.After(from) {
			from = bound
		}
		if from.Before(since) {
			since = from
		}
	}

	return since
}

// recordQueueLabels records whose queue a queue is now.
func (m *clusterState) recordQueueLabels(queue string) {
	tenant := ""
	project := ""
	serviceType := ""
	if owner := m.ownerOf(queue); owner != nil {
		tenant = owner.Spec.Tenant
		project = owner.Spec.Project
		serviceType = owner.Spec.ServiceType
	} else if object := m.queues[queue]; object != nil {
		serviceType = object.Annotations[v1alpha1.AnnotationServiceType]
	}

	if m.seconds.labels[queue] == nil {
		m.seconds.labels[queue] = map[string]bool{}
	}
	m.seconds.labels[queue][billLabels(tenant, project, cmp.Or(serviceType, "none"))] = true
}

func billLabels(tenant, project, serviceType string) string {
	return fmt.Sprintf("tenant %q, project %q, service type %q", tenant, project, serviceType)
}

// recordServedSeconds checks that no sum falls, whichever operator serves it.
func (m *clusterState) recordServedSeconds(page *samplePages) {
	for i := range page.operator {
		s := &page.operator[i]
		if s.name != secondsMetric || !m.options.Concerns("queue/"+s.labels["queue"]) {
			continue
		}
		key := s.key()
		if highest := m.seconds.served[key]; s.value < highest-1e-6 {
			m.addViolation(Metrics, page.asked, "metrics", "%s falls from %g to %g", key, highest, s.value)
		}
		m.seconds.served[key] = max(m.seconds.served[key], s.value)
	}
}

// checkCardSeconds compares the sums with what pods used. An operator counts a change and stores a
// sum later, and may lose a minute of the pods that end before the next one counts.
func (c *metricsComparison) checkCardSeconds(page *samplePages) {
	m := c.state
	sums := map[queueCard]float64{}
	for i := range page.operator {
		s := &page.operator[i]
		if s.name != secondsMetric || !c.concerns(s) || s.labels["queue"] == "" { // a namespace pays
			continue
		}

		key := queueCard{s.labels["queue"], s.labels["card"]}
		sums[key] += s.value

		labels := billLabels(s.labels["tenant"], s.labels["project"], s.labels["service_type"])
		difference := ""
		if !m.seconds.labels[key.queue][labels] {
			difference = "its queue never had " + labels
		}
		c.compare("labels of "+s.key(), difference)
	}

	for key := range m.seconds.uses {
		sums[key] += 0
	}

	for key, sum := range sums {
		least, most := m.secondsUntil(key, page.asked, page.answered)
		difference := ""
		if sum < least-1e-6 || sum > most+1e-6 {
			difference = fmt.Sprintf("it is %.1f, a recount gives %.1f to %.1f", sum, least, most)
		}
		c.compare(fmt.Sprintf("card-seconds of queue %s, %s", key.queue, key.card), difference)
	}
}

// secondsUntil returns the least and the most card-seconds that a page may have that was asked for
// and answered at these times.
func (m *clusterState) secondsUntil(key queueCard, asked, answered time.Time) (least, most float64) {
	for _, use := range m.seconds.uses[key] {
		end := answered
		if last := use.lastSeen(); !last.IsZero() && last.Add(m.options.StatusWithin).Before(end) {
			end = last.Add(m.options.StatusWithin)
		}

		most += float64(use.count) * max(0, end.Sub(use.creditedSince(m.restarts, m.options.StatusWithin))).Seconds()
		certain := window{use.from.Add(m.options.StatusWithin), asked.Add(-m.options.StoredWithin)}
		if !use.to.IsZero() && use.to.Before(certain.to) {
			certain.to = use.to
		}

		counted := certain.length()
		for _, restart := range mergeWindows(m.restarts, 0) {
			counted -= use.lostBy(restart, certain, m.options.StatusWithin)
		}

		for _, excused := range mergeWindows(m.seconds.excused, lostWithin+m.options.StatusWithin) {
			counted -= certain.overlap(window{excused.from.Add(-lostWithin), excused.to.Add(m.options.StatusWithin)})
		}
		least += float64(use.count) * max(0, counted).Seconds()
	}

	if m.queues[key.queue] == nil {
		least = 0 // nothing is billed to a queue that does not exist
	}
	return least, most
}

// mergeWindows joins windows between which at most a gap lies, so that no time is subtracted twice.
func mergeWindows(windows []window, gap time.Duration) (merged []window) {
	sorted := slices.SortedFunc(slices.Values(windows), func(a, b window) int { return a.from.Compare(b.from) })
	for _, w := range sorted {
		if last := len(merged) - 1; last >= 0 && !w.from.After(merged[last].to.Add(gap)) {
			if w.to.After(merged[last].to) {
				merged[last].to = w.to
			}
			continue
		}
		merged = append(merged, w)
	}
	return merged
}

func (w window) length() time.Duration { return max(0, w.to.Sub(w.from)) }

func (w window) overlap(o window) time.Duration {
	if o.from.After(w.from) {
		w.from = o.from
	}
	if o.to.Before(w.to) {
		w.to = o.to
	}
	return w.length()
}
