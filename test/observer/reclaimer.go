package observer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/test/observer/rule"
)

// evictionLag is how long the mark of an eviction may be on its way: in that
// time its reclaimer may have been placed elsewhere, or deleted.
const evictionLag = 3 * time.Second

// place is what a pod takes up.
type place struct {
	cards            int64
	milliCPU, memory int64
}

func placeOf(ask rule.Ask) place {
	return place{cards: ask.Count, milliCPU: ask.MilliCPU, memory: ask.Memory}
}

func (p place) plus(o place) place {
	return place{p.cards + o.cards, p.milliCPU + o.milliCPU, p.memory + o.memory}
}

func (p place) minus(o place) place {
	return place{p.cards - o.cards, p.milliCPU - o.milliCPU, p.memory - o.memory}
}

// covers tells whether nothing is missing to another place.
func (p place) covers(o place) bool {
	return p.cards >= o.cards && p.milliCPU >= o.milliCPU && p.memory >= o.memory
}

// relief is a pod that waits no longer: it was placed, or it is gone.
type relief struct {
	state *podState
	place place // what it may have lacked
	seen  time.Time
}

// relieve notes that a pod waits no longer.
func (m *machine) relieve(state *podState, c change) {
	m.reliefs = append(m.reliefs, &relief{state: state, place: placeOf(rule.AskOf(state.pod, m.inventory)), seen: c.seen})
}

// judgeReclaimers checks that what was evicted was evicted for somebody: each
// victim needs a pod that was allowed to take its place and that waits no
// longer, and one pod answers for victims only until their places make up its
// own: it may have lacked cards, CPU or memory.
func (m *machine) judgeReclaimers(now time.Time) []string {
	if m.excused[Eviction] > 0 {
		return nil
	}
	m.forgetEvictions(now)
	served := match(m.evictions, m.reliefs)
	var open []string
	for _, e := range m.evictions {
		switch {
		case e.reported || served[e] != nil || m.takenAlong(e, served) || !m.options.Concerns(e.victim):
		case now.Sub(e.due) < m.options.PlacedWithin:
			open = append(open, fmt.Sprintf("%s was evicted (%s) and nobody has its place yet", e.victim, e.by))
		default:
			e.reported = true
			m.report(Eviction, now, e.victim, "was evicted (%s) at %s, and of the %d pods that could take its place none more was placed until %s after it",
				e.by, e.seen.Format("15:04:05.000"), len(e.reclaimers), m.options.PlacedWithin)
		}
	}
	return open
}

// takenAlong tells whether an eviction belongs to a gang that was taken as a
// whole for the sake of another of its pods. On a busy machine the marks of one
// gang come seconds apart, but both pods were there when the first came.
func (m *machine) takenAlong(e *eviction, served map[*eviction]*relief) bool {
	return e.mayGoAlong() && slices.ContainsFunc(m.evictions, func(other *eviction) bool {
		return other.by == e.by && other.group == e.group && served[other] != nil &&
			other.seen.Sub(e.seen).Abs() < m.options.PlacedWithin && !e.created.After(other.seen) && !other.created.After(e.seen)
	})
}

// mayGoAlong reports whether an eviction may be for the sake of another one of its gang.
func (e *eviction) mayGoAlong() bool { return e.by == cardReclaim || e.by == preempt && e.isGang }

// isGang reports whether the pods of a PodGroup stand or fall together: it has a minimum
// of more than one pod, or is that of a Volcano job, whose own policies may end all of its
// pods.
func (m *machine) isGang(group types.NamespacedName) bool {
	state, known := m.groups[group]
	if !known {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(state.group)
	return state.group.Spec.MinMember > 1 || owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch.volcano.sh/")
}

// forgetEvictions drops what is too old to matter.
func (m *machine) forgetEvictions(now time.Time) {
	old := now.Add(-keptFor)
	m.evictions = slices.DeleteFunc(m.evictions, func(e *eviction) bool { return e.due.Before(old) })
	m.reliefs = slices.DeleteFunc(m.reliefs, func(r *relief) bool { return r.seen.Before(old) })
}

// match finds a reclaimer for as many evictions as possible.
func match(evictions []*eviction, reliefs []*relief) map[*eviction]*relief {
	m := matching{evictions: evictions, reliefs: reliefs, served: map[*eviction]*relief{}, held: map[*relief]place{}}
	for _, e := range evictions {
		m.serve(e, map[*relief]bool{})
	}
	return m.served
}

// matching grows by augmenting paths: an eviction may push another one to a
// different reclaimer.
type matching struct {
	evictions []*eviction
	reliefs   []*relief
	served    map[*eviction]*relief
	held      map[*relief]place
}

func (m *matching) serve(e *eviction, tried map[*relief]bool) bool {
	for _, r := range m.reliefs {
		if tried[r] || !e.reclaimers[r.state.pod.UID] || r.seen.Before(e.seen.Add(-evictionLag)) {
			continue
		}
		tried[r] = true
		if !m.held[r].covers(r.place) || m.makeRoom(r, tried) {
			m.served[e] = r
			m.held[r] = m.held[r].plus(e.place)
			return true
		}
	}
	return false
}

// makeRoom moves an eviction away from a reclaimer that has its share.
func (m *matching) makeRoom(r *relief, tried map[*relief]bool) bool {
	for _, other := range m.evictions {
		if m.served[other] == r && !m.held[r].minus(other.place).covers(r.place) && m.serve(other, tried) {
			m.held[r] = m.held[r].minus(other.place)
			return true
		}
	}
	return false
}
