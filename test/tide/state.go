package tide

import (
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

// State is who holds the cards.
type State struct {
	// Gangs run with all their pods, Partial with some of them.
	Gangs, Partial int
	// Singles run on their own.
	Singles int
	// Inference pods are bound.
	Inference int
	// Cards are held by all of them.
	Cards int
}

// State tells who holds the cards now.
func (b *Book) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := State{Cards: b.cards}
	for _, w := range b.workloads {
		held := 0
		for _, e := range w.pods {
			if !e.bound.IsZero() && !e.leaving {
				held++
			}
		}
		switch n := w.running(); {
		case w.role == single:
			s.Singles += n
		case w.role == inference:
			s.Inference += held
		case w.role != trainer:
		case n == GangSize:
			s.Gangs++
		case n > 0:
			s.Partial++
		}
	}
	return s
}

// notWhole names the gangs that do not run with all their pods.
func (b *Book) notWhole() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, w := range b.workloads {
		if w.role == trainer && w.running() < GangSize {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// open begins a new account.
func (b *Book) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loss, b.lost = Loss{}, time.Now()
}

// account is what was lost since the account was opened.
func (b *Book) account() Loss {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loss
}

// sinceLost is how long no pod has been lost.
func (b *Book) sinceLost() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.lost)
}

// times are when the pods of workloads were bound and were running, in order.
func (b *Book) times(groups ...string) (bound, running []time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, group := range groups {
		w := b.workloads[group]
		if w == nil {
			continue
		}
		for _, e := range w.pods {
			if !e.bound.IsZero() && !e.leaving {
				bound = append(bound, e.bound)
			}
			if !e.running.IsZero() && !e.leaving {
				running = append(running, e.running)
			}
		}
	}
	slices.SortFunc(bound, time.Time.Compare)
	slices.SortFunc(running, time.Time.Compare)
	return bound, running
}

// pods is how many pods of a role there are.
func (b *Book) pods(role string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.workloads {
		if w.role == role {
			n += len(w.pods)
		}
	}
	return n
}
