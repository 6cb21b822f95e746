package harness

import (
	"maps"
	"slices"
	"time"
)

// Loss is what a tide costs those who give.
type Loss struct {
	// Gangs is how often a gang lost a pod while it had all, Least how often that
	// had to be: once for every eight cards that are wanted at a time.
	Gangs, Least int
	// Singles is how many training pods on their own were lost.
	Singles int
	// CardSeconds is the work that is lost; that of a broken gang is all of it.
	CardSeconds float64
	// Partial is how many gangs were left with some of their pods running.
	Partial int
	// Apart is the longest time between the first and the last pod that a gang
	// lost.
	Apart time.Duration
	// Retries is how many retries Volcano counted against the jobs.
	Retries int
}

// Usage is who holds the cards.
type Usage struct {
	// Gangs run with all their pods, Partial with some of them.
	Gangs, Partial int
	// Singles run on their own.
	Singles int
	// Inference pods are bound.
	Inference int
	// Cards are held by all of them.
	Cards int
}

// Usage tells who holds the cards now.
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

// IncompleteGangs names the gangs that do not run with all their pods.
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

// ResetLoss begins a new account.
func (b *PodTracker) ResetLoss() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loss, b.lastLoss = Loss{}, time.Now()
}

// LossSinceReset is what was lost since the account was opened, and for how long now nothing was.
func (b *PodTracker) LossSinceReset() (lost Loss, calm time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loss, time.Since(b.lastLoss)
}

// PodTimes are when the pods of workloads, of all unless named, were bound and were running,
// in order.
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

// NodeSpread is how many nodes have pods, and on how many a workload is on average.
func (b *PodTracker) NodeSpread() (nodes int, each float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, sum := map[string]bool{}, 0
	for _, w := range b.workloads {
		own := map[string]bool{}
		for _, e := range w.pods {
			own[e.node], all[e.node] = true, true
		}
		sum += len(own)
	}
	return len(all), float64(sum) / float64(len(b.workloads))
}

// CountPods is how many pods of a role there are.
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
