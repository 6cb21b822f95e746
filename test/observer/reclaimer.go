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

// evictionLag is how long the mark of an eviction may arrive after its reclaimer was placed or
// deleted.
const evictionLag = 3 * time.Second

// amount is what a pod requests or frees.
type amount struct {
	cards            int64
	milliCPU, memory int64
}

func amountOf(request rule.Request) amount {
	return amount{cards: request.Count, milliCPU: request.MilliCPU, memory: request.Memory}
}

func (p amount) add(o amount) amount {
	return amount{p.cards + o.cards, p.milliCPU + o.milliCPU, p.memory + o.memory}
}

func (p amount) subtract(o amount) amount {
	return amount{p.cards - o.cards, p.milliCPU - o.milliCPU, p.memory - o.memory}
}

// isAtLeast reports whether an amount is at least another one in every resource.
func (p amount) isAtLeast(o amount) bool {
	return p.cards >= o.cards && p.milliCPU >= o.milliCPU && p.memory >= o.memory
}

// servedPod is a pod that no longer waits: it was placed, or it is gone.
type servedPod struct {
	state  *podState
	needed amount // what it may have lacked
	seen   time.Time
}

// recordServed records that a pod no longer waits.
func (m *clusterState) recordServed(state *podState, c change) {
	m.served = append(m.served, &servedPod{state: state, needed: amountOf(rule.RequestOf(state.pod, m.inventory)), seen: c.seen})
}

// checkReclaimers checks that every eviction served a pod. Each victim needs a pod that was
// allowed to evict it and that no longer waits. One pod justifies victims only until they free
// what it needs: cards, CPU or memory.
func (m *clusterState) checkReclaimers(now time.Time) []string {
	if m.excused[Eviction] > 0 {
		return nil
	}
	m.forgetEvictions(now)
	served := matchReclaimers(m.evictions, m.served)

	var open []string
	for _, e := range m.evictions {
		switch {
		case e.by == drain || e.reported:
		case served[e] != nil || m.isEvictedWithGang(e, served):
		case !m.options.Concerns(e.victim):
		case now.Sub(e.due) < m.options.PlacedWithin:
			open = append(open, fmt.Sprintf("%s was evicted (%s) and no reclaimer is placed yet", e.victim, e.by))
		default:
			e.reported = true
			m.addViolation(Eviction, now, e.victim, "was evicted (%s) at %s, and of the %d pods that could take its place none more was placed until %s after it",
				e.by, e.seen.Format("15:04:05.000"), len(e.reclaimers), m.options.PlacedWithin)
		}
	}

	return open
}

// isEvictedWithGang reports whether a pod was evicted with its gang because of another pod of
// that gang. On a busy machine the marks of one gang may be seconds apart, but both pods
// existed when the first was set.
func (m *clusterState) isEvictedWithGang(e *eviction, served map[*eviction]*servedPod) bool {
	return e.mayBeForGang() && slices.ContainsFunc(m.evictions, func(other *eviction) bool {
		return other.by == e.by && other.group == e.group && served[other] != nil &&
			other.seen.Sub(e.seen).Abs() < m.options.PlacedWithin && !e.created.After(other.seen) && !other.created.After(e.seen)
	})
}

// mayBeForGang reports whether an eviction may be part of the eviction of its gang.
func (e *eviction) mayBeForGang() bool { return e.by == cardReclaim || (e.by == preempt && e.isGang) }

// isGang reports whether the pods of a PodGroup run all or not at all: its minimum is more than
// one pod, or it belongs to a Volcano job, whose policies may end all of its pods.
func (m *clusterState) isGang(group types.NamespacedName) bool {
	state, known := m.groups[group]
	if !known {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(state.group)
	return state.group.Spec.MinMember > 1 || (owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch.volcano.sh/"))
}

// forgetEvictions drops evictions and pods that are too old to matter. A pod stays while an
// eviction stays that it may justify: the victim may end long after its reclaimer was placed.
func (m *clusterState) forgetEvictions(now time.Time) {
	old := now.Add(-historyPeriod)
	m.evictions = slices.DeleteFunc(m.evictions, func(e *eviction) bool { return e.due.Before(old) })
	for _, e := range m.evictions {
		if first := e.seen.Add(-evictionLag); first.Before(old) {
			old = first
		}
	}
	m.served = slices.DeleteFunc(m.served, func(r *servedPod) bool { return r.seen.Before(old) })
}

// matchReclaimers finds a reclaimer for as many evictions as possible.
func matchReclaimers(evictions []*eviction, reliefs []*servedPod) map[*eviction]*servedPod {
	m := matching{evictions: evictions, reliefs: reliefs, served: map[*eviction]*servedPod{}, freed: map[*servedPod]amount{}}
	for _, e := range evictions {
		m.augment(e, map[*servedPod]bool{})
	}
	return m.served
}

// matching is a bipartite matching that grows by augmenting paths: an eviction may move another
// one to a different reclaimer.
type matching struct {
	evictions []*eviction
	reliefs   []*servedPod
	served    map[*eviction]*servedPod
	freed     map[*servedPod]amount
}

func (m *matching) augment(e *eviction, tried map[*servedPod]bool) bool {
	for _, r := range m.reliefs {
		if tried[r] || !e.reclaimers[r.state.pod.UID] || r.seen.Before(e.seen.Add(-evictionLag)) {
			continue
		}

		tried[r] = true
		if !m.freed[r].isAtLeast(r.needed) || m.makeRoom(r, tried) {
			m.served[e] = r
			m.freed[r] = m.freed[r].add(e.freed)
			return true
		}
	}
	return false
}

// makeRoom moves an eviction away from a reclaimer that needs no more.
func (m *matching) makeRoom(r *servedPod, tried map[*servedPod]bool) bool {
	for _, other := range m.evictions {
		if m.served[other] == r && !m.freed[r].subtract(other.freed).isAtLeast(r.needed) && m.augment(other, tried) {
			m.freed[r] = m.freed[r].subtract(other.freed)
			return true
		}
	}
	return false
}
