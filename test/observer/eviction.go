package observer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/test/observer/rule"
)

// evictionAction is the scheduler action that evicts a pod. It is "" for an eviction by
// anything else.
type evictionAction string

const (
	preempt evictionAction = "preempt" // for a pod of the same queue
	reclaim evictionAction = "reclaim" // for a pod of another queue, pod by pod
	// cardReclaim is for a pod of another queue.
	cardReclaim evictionAction = "cardreclaim"
)

// evictsWholeGangs reports whether an action evicts a gang as a whole and so leaves no job
// below its minimum.
func (c evictionAction) evictsWholeGangs() bool { return c == preempt || c == cardReclaim }

// eviction is an eviction that the rules allow, provided that a reclaimer is placed.
type eviction struct {
	victim string // as an object
	by     evictionAction
	// node is where the victim ran.
	node string
	// freed is what the victim releases.
	freed amount
	group types.NamespacedName
	// isGang reports whether the pod belonged to a gang when it was evicted. Its PodGroup may
	// be deleted before the reclaimer is placed.
	isGang bool
	// created is when the victim was created, seen when the observer saw the eviction.
	created, seen time.Time
	// due is when the reclaimer could be placed: the victim's grace period is over, or the
	// victim is gone.
	due time.Time
	// reclaimers are the pods for which it may have been evicted. There may be none for a pod
	// that is evicted with its gang and frees nothing useful.
	reclaimers map[types.UID]bool
	reported   bool
}

// checkEviction reports pods that are evicted against the rules. It remembers the other
// evictions until their reclaimer is placed. It ignores pods that were marked when the observer
// started.
//
// The API shows an eviction by the condition DisruptionTarget. The eviction API, Kubernetes'
// components and Volcano set it. Volcano also sets Ready to False with the reason Evict and a
// message that ends with the action (pkg/scheduler/cache/cache.go). Kubelets set the pod's
// reason. A plain deletion has no such mark and is the owner's right. Pods of vcjobs that
// cardreclaim lets Volcano's job controller recreate carry the same marks some time before they
// are deleted.
func (m *clusterState) checkEviction(state *podState, c change, happened bool) {
	by, why := evictionOf(state.pod)
	if why == "" || state.evicted != nil {
		return
	}

	pod := state.pod
	grace := time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0)) * time.Second
	e := &eviction{
		victim: "pod/" + pod.Namespace + "/" + pod.Name, by: by, node: pod.Spec.NodeName, created: pod.CreationTimestamp.Time, seen: c.seen, due: c.seen.Add(grace),
		group:      types.NamespacedName{Namespace: pod.Namespace, Name: rule.PodGroupName(pod)},
		reclaimers: map[types.UID]bool{},
	}
	e.isGang = m.isGang(e.group)
	state.evicted = e

	if !happened {
		return
	}

	if wrong := m.evictionForbidden(e, state); wrong != "" {
		e.reported = true
		m.addViolation(Eviction, c.seen, e.victim, "was evicted from node %s (%s): %s", pod.Spec.NodeName, why, wrong)
		return
	}

	e.freed = amountOf(rule.RequestOf(pod, m.inventory))
	m.evictions = append(m.evictions, e)
	m.checkWantedTwice(e)
}

// evictionForbidden returns why a pod may not be evicted, or "" when it may. It records the
// possible reclaimers.
func (m *clusterState) evictionForbidden(e *eviction, victim *podState) string {
	if e.by == "" {
		return "only the scheduler may evict, by preempt, reclaim, cardreclaim or drain"
	}
	if e.by == drain {
		return m.drainForbidden(victim, e.seen)
	}
	if wrong := m.victimProtected(e.by, victim); wrong != "" {
		return wrong
	}

	refused, along := m.recordWaitingReclaimers(e, victim)
	if m.recordServedReclaimers(e, victim) {
		along = true
	}
	if len(e.reclaimers) > 0 || (along && e.mayBeForGang()) {
		return ""
	}

	slices.Sort(refused)
	const most = 3
	return fmt.Sprintf("of the %d pods that wait none may take its place: %s", len(refused), strings.Join(refused[:min(most, len(refused))], "; "))
}

// recordWaitingReclaimers records the pods that wait and may have a pod evicted. It returns why the
// others may not, and whether the pod may be evicted along: for the sake of others of its gang.
func (m *clusterState) recordWaitingReclaimers(e *eviction, victim *podState) (refused []string, along bool) {
	for uid, state := range m.pods {
		if !m.isWaiting(state) {
			continue
		}
		if wrong := m.reclaimForbidden(e.by, state, victim); wrong == "" {
			e.reclaimers[uid] = true
		} else {
			refused = append(refused, fmt.Sprintf("pod/%s/%s %s", state.pod.Namespace, state.pod.Name, wrong))
			along = along || wrong == otherCard
		}
	}

	return refused, along
}

// recordServedReclaimers records the pods that waited a moment ago and may have had a pod evicted. It
// returns whether the pod may be evicted along.
func (m *clusterState) recordServedReclaimers(e *eviction, victim *podState) (along bool) {
	for _, r := range m.served {
		if r.seen.Before(e.seen.Add(-evictionLag)) {
			continue
		}
		switch m.reclaimForbidden(e.by, r.state, victim) {
		case "":
			e.reclaimers[r.state.pod.UID] = true
		case otherCard:
			along = true
		}
	}

	return along
}

// isWaiting reports whether a pod waits for the scheduler.
func (m *clusterState) isWaiting(state *podState) bool {
	return !state.waiting.since.IsZero() && state.pod.Spec.SchedulerName == m.options.SchedulerName
}

// evictionOf returns which action evicted a pod and the stated reason, or "" for a pod without
// a mark.
func evictionOf(pod *corev1.Pod) (by evictionAction, why string) {
	if pod.Status.Reason == "Evicted" || pod.Status.Reason == "Preempting" {
		return "", pod.Status.Reason + ": " + pod.Status.Message
	}

	for _, condition := range pod.Status.Conditions {
		said := condition.Reason + ": " + condition.Message
		switch {
		case condition.Type == corev1.PodReady && condition.Status == corev1.ConditionFalse && condition.Reason == "Evict":
			return actionIn(condition.Message), said
		case condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue:
			why = said
		}
	}
	return "", why
}

// actionIn returns the action at the end of Volcano's message.
func actionIn(message string) evictionAction {
	_, reason, _ := strings.Cut(message, "because of ")
	if by := evictionAction(reason); by == preempt || by == reclaim || by == cardReclaim || by == drain {
		return by
	}
	return ""
}
