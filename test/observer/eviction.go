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

// evictionAction is the reason that an action of the scheduler evicts with, "" for an
// eviction by anybody else.
type evictionAction string

const (
	preempt evictionAction = "preempt" // for a pod of the same queue
	reclaim evictionAction = "reclaim" // for a pod of another queue, pod by pod
	// cardReclaim is for a pod of another queue.
	cardReclaim evictionAction = "cardreclaim"
)

// evictsWholeGangs reports whether an action leaves no job below its minimum: a gang goes as
// a whole.
func (c evictionAction) evictsWholeGangs() bool { return c == preempt || c == cardReclaim }

// eviction is one that the rules allow, provided that a reclaimer is placed.
type eviction struct {
	victim string // as an object
	by     evictionAction
	// place is what the victim left.
	freed amount
	group types.NamespacedName
	// isGang is set for a pod of a gang when it was evicted: its PodGroup may go before
	// the reclaimer is placed.
	isGang bool
	// created is when the victim was, seen when it was found to be evicted.
	created, seen time.Time
	// due is since when the reclaimer could be placed: its grace period is over,
	// or the victim is gone.
	due time.Time
	// reclaimers are the pods for which it may have been evicted. There may be none
	// for a pod that goes along with its gang and holds nothing of use.
	reclaimers map[types.UID]bool
	reported   bool
}

// checkEviction reports pods that are evicted against the rules, and remembers
// the others until their reclaimer is placed. A pod that was marked when the
// observer started is not looked at.
//
// What the API shows of an eviction is the condition DisruptionTarget, which
// the eviction API, Kubernetes' own components and Volcano all set; Volcano
// also sets Ready to False with the reason Evict and a message that ends with
// its own reason (pkg/scheduler/cache/cache.go), kubelets the pod's reason. A
// plain deletion shows nothing of the kind and is the owner's right. Pods of
// vcjobs that cardreclaim has Volcano's job controller replace carry the same
// marks, and some time passes until they are deleted.
func (m *clusterState) checkEviction(state *podState, c change, happened bool) {
	by, why := evictionOf(state.pod)
	if why == "" || state.evicted != nil {
		return
	}
	pod := state.pod
	grace := time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0)) * time.Second
	e := &eviction{
		victim: "pod/" + pod.Namespace + "/" + pod.Name, by: by, created: pod.CreationTimestamp.Time, seen: c.seen, due: c.seen.Add(grace),
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
}

// evictionForbidden says why a pod may not be evicted, "" when it may, and notes for whom.
func (m *clusterState) evictionForbidden(e *eviction, victim *podState) string {
	if e.by == "" {
		return "only the scheduler may evict, by preempt, reclaim or cardreclaim"
	}
	if wrong := m.victimProtected(e.by, victim); wrong != "" {
		return wrong
	}
	var refused []string
	along := false // for the sake of others of its gang
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
	if len(e.reclaimers) > 0 || along && e.mayBeForGang() {
		return ""
	}
	slices.Sort(refused)
	const most = 3
	return fmt.Sprintf("of the %d pods that wait none may take its place: %s", len(refused), strings.Join(refused[:min(most, len(refused))], "; "))
}

// isWaiting tells whether a pod waits for the scheduler.
func (m *clusterState) isWaiting(state *podState) bool {
	return !state.waiting.since.IsZero() && state.pod.Spec.SchedulerName == m.options.SchedulerName
}

// evictionOf says who marked a pod as evicted and how, "" when nobody did.
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

// actionIn reads the action's reason at the end of Volcano's message.
func actionIn(message string) evictionAction {
	_, reason, _ := strings.Cut(message, "because of ")
	if by := evictionAction(reason); by == preempt || by == reclaim || by == cardReclaim {
		return by
	}
	return ""
}
