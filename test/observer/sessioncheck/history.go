package sessioncheck

import (
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/test/observer/rule"
)

// moment is the state between one change and the next.
type moment struct {
	at time.Time
	// limits, use and waiting are by queue; waiting is the most that all waiting units may use.
	limits  map[string]rule.Limits
	use     map[string]usage
	waiting map[string]usage
	// allocatable is what each node has.
	allocatable map[string]amounts
}

// history lists past states, oldest first.
type history struct {
	moments []moment
	// placed is when a pod was first seen on its node.
	placed map[types.UID]time.Time
	// stated are the messages of objects that were already checked.
	stated map[types.UID]map[string]bool
}

func newHistory() history {
	return history{placed: map[types.UID]time.Time{}, stated: map[types.UID]map[string]bool{}}
}

// record appends the current state, unless nothing changed.
func (h *history) record(w *clusterState, at time.Time) {
	m := momentOf(w, at)
	for uid, state := range w.pods {
		if _, known := h.placed[uid]; !known && state.pod.Spec.NodeName != "" {
			h.placed[uid] = at
		}
	}

	if n := len(h.moments); n > 0 {
		if last := h.moments[n-1]; reflect.DeepEqual(moment{last.at, m.limits, m.use, m.waiting, m.allocatable}, last) {
			return
		}
	}

	h.moments = append(h.moments, m)
	for len(h.moments) > 1 && h.moments[1].at.Before(at.Add(-historyPeriod)) {
		h.moments = slices.Delete(h.moments, 0, 1)
	}
}

// momentOf returns the current state.
func momentOf(w *clusterState, at time.Time) moment {
	m := moment{at: at, limits: map[string]rule.Limits{}, use: map[string]usage{}, waiting: map[string]usage{}, allocatable: map[string]amounts{}}
	for name, queue := range w.queues {
		m.limits[name] = queue.limits
		m.use[name] = w.subtreeUsage(name)
	}

	for _, u := range w.waitingUnits() {
		for _, name := range w.pathOf(u.queue) {
			sum := m.waiting[name]
			if sum.cards == nil {
				sum.cards = rule.Quota{}
			}
			for _, d := range u.requests {
				sum.addRequest(d)
			}
			m.waiting[name] = sum
		}
	}

	for name, node := range w.nodes {
		m.allocatable[name] = node.allocatable
	}

	return m
}

// since returns the states from a moment until now.
func (h *history) since(begin time.Time) []moment {
	for i := len(h.moments) - 1; i > 0; i-- {
		if !h.moments[i].at.After(begin) {
			return h.moments[i:]
		}
	}
	return h.moments
}

func (h *history) forget(uid types.UID) {
	delete(h.placed, uid)
	delete(h.stated, uid)
}
