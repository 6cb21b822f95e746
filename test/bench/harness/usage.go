package harness

import (
	"maps"
	"slices"
	"time"
)

// Loss is the loss of training during a scene.
type Loss struct {
	// Gangs is how often a complete gang lost a pod, Least the smallest possible number: one
	// for every eight cards that are requested at a time.
	Gangs, Least int
	// Singles is the number of lost single training pods.
	Singles int
	// CardSeconds is the lost work; a broken gang loses all of its work.
	CardSeconds float64
	// Partial is the number of gangs left with some of their pods running.
	Partial int
	// Apart is the longest time between the first and the last lost pod of a gang.
	Apart time.Duration
	// Retries is the number of retries that Volcano counted against the jobs.
	Retries int
}

// Usage is which pods use the cards.
type Usage struct {
	// Gangs run completely, Partial in part.
	Gangs, Partial int
	// Singles are running single pods.
	Singles int
	// Inference is the number of bound inference pods.
	Inference int
	// Cards are the cards that all of them use.
	Cards int
}

// Usage returns which pods use the cards now.
func (b *PodTracker) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()

	s := Usage{Cards: b.cards}
	for _, w := range b.workloads {
		switch n := w.runningPods(); {
		case w.role == Single:
			s.Singles += n
		case w.role == Inference:
			s.Inference += len(w.podTimes(func(e *podRecord) time.Time { return e.bound }))
		case w.role == Trainer && n == GangSize:
			s.Gangs++
		case w.role == Trainer && n > 0:
			s.Partial++
		}
	}

	return s
}

// IncompleteGangs returns the gangs that do not run with all their pods.
func (b *PodTracker) IncompleteGangs() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, w := range b.workloads {
		if w.role == Trainer && w.runningPods() < GangSize {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ResetLoss resets the recorded loss.
func (b *PodTracker) ResetLoss() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loss = Loss{}
	b.lastLoss = time.Now()
}

// LossSinceReset returns the loss since ResetLoss, and for how long no pod has been lost.
func (b *PodTracker) LossSinceReset() (lost Loss, calm time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loss, time.Since(b.lastLoss)
}

// PodTimes returns when the pods of workloads were bound and running, in order. Without names
// it covers all workloads.
func (b *PodTracker) PodTimes(groups ...string) (bound, running []time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if groups == nil {
		groups = slices.Collect(maps.Keys(b.workloads))
	}

	for _, group := range groups {
		if w := b.workloads[group]; w != nil {
			bound = append(bound, w.podTimes(func(e *podRecord) time.Time { return e.bound })...)
			running = append(running, w.podTimes(func(e *podRecord) time.Time { return e.running })...)
		}
	}

	slices.SortFunc(bound, time.Time.Compare)
	slices.SortFunc(running, time.Time.Compare)
	return bound, running
}

// NodeSpread returns how many nodes have pods, and on how many nodes a workload is on average.
func (b *PodTracker) NodeSpread() (nodes int, each float64) {
	b.mu.Lock()
	defer b.mu.Unlock()

	all := map[string]bool{}
	sum := 0
	for _, w := range b.workloads {
		own := map[string]bool{}
		for _, e := range w.pods {
			own[e.node] = true
			all[e.node] = true
		}
		sum += len(own)
	}

	return len(all), float64(sum) / float64(len(b.workloads))
}

// CountPods returns the number of pods of a role.
func (b *PodTracker) CountPods(role string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.workloads {
		if w.role == role {
			n += len(w.pods)
		}
	}
	return n
}
