package observer

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/test/observer/rule"
)

// waitState is how long something has been waiting; zero when it is not.
type waitState struct {
	since    time.Time
	reported bool
}

func (w *waitState) setWaiting(waits bool, now time.Time) {
	if !waits {
		*w = waitState{}
	} else if w.since.IsZero() {
		w.since = now
	}
}

func (w *waitState) restartIfWaiting(now time.Time) {
	if !w.since.IsZero() {
		w.since = now
	}
}

// reportOverdue reports what has been wrong with an object for too long, once, and returns it as open while
// it has time.
func (m *clusterState) reportOverdue(w *waitState, invariant Invariant, object, wrong string, within time.Duration, now time.Time) (open []string) {
	switch {
	case w.reported:
		return nil
	case now.Sub(w.since) < within:
		return []string{object + ": " + wrong}
	}
	w.reported = true
	m.addViolation(invariant, now, object, "since %s: %s", w.since.Format("15:04:05.000"), wrong)
	return nil
}

// difference is the record of what differs from a recount. The time starts again when the difference
// changes.
type difference struct {
	wrong string
	waitState
}

// differences are what differs from a recount now, by key.
type differences map[string]*difference

// recordOf returns the record of a difference.
func (d differences) recordOf(key, wrong string, now time.Time) *waitState {
	if d[key] == nil || d[key].wrong != wrong {
		d[key] = &difference{wrong, waitState{since: now}}
	}
	return &d[key].waitState
}

// checkReasons checks that everything that waits for cards states why.
func (m *clusterState) checkReasons(now time.Time) []string {
	if m.excused[Reason] > 0 {
		return nil
	}

	var open []string
	for _, state := range m.pods {
		if state.waiting.since.IsZero() || state.pod.Spec.SchedulerName != m.options.SchedulerName {
			continue
		}
		request := rule.RequestOf(state.pod, m.inventory)
		if request.Count > 0 || request.Denial != "" {
			said := podStatesReason(state.pod) || groupStatesReason(m.groupOf(state.pod))
			open = append(open, m.checkReason(&state.waiting, "pod/"+state.pod.Namespace+"/"+state.pod.Name, said, now)...)
		}
	}

	peopled := m.groupsWithPods()
	for key, state := range m.groups {
		state.waiting.setWaiting(isGroupWaiting(state.group) && !peopled[key], now)
		if !state.waiting.since.IsZero() && len(m.announcedRequests(state.group)) > 0 {
			open = append(open, m.checkReason(&state.waiting, "podgroup/"+key.String(), groupStatesReason(state.group), now)...)
		}
	}

	return open
}

// checkReason reports an object whose time to state a reason is over, and returns it as open
// while it has time.
func (m *clusterState) checkReason(w *waitState, object string, said bool, now time.Time) (open []string) {
	if said || !m.options.Concerns(object) {
		return nil
	}
	return m.reportOverdue(w, Reason, object, "waits for cards and does not say why", m.options.ReasonWithin, now)
}

func podStatesReason(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != ""
	})
}

func groupStatesReason(group *v1beta1.PodGroup) bool {
	return group != nil && slices.ContainsFunc(group.Status.Conditions, func(c v1beta1.PodGroupCondition) bool {
		return c.Type == v1beta1.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue && c.Message != ""
	})
}

// isGroupWaiting reports whether a PodGroup waits to be enqueued or placed.
func isGroupWaiting(group *v1beta1.PodGroup) bool {
	switch group.Status.Phase {
	case v1beta1.PodGroupPending, v1beta1.PodGroupInqueue, "":
		return group.DeletionTimestamp == nil
	}
	return false
}

// groupsWithPods returns the PodGroups with a pod that has not finished.
func (m *clusterState) groupsWithPods() map[types.NamespacedName]bool {
	out := map[types.NamespacedName]bool{}
	for _, state := range m.pods {
		phase := state.pod.Status.Phase
		if name := rule.PodGroupName(state.pod); name != "" && phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			out[types.NamespacedName{Namespace: state.pod.Namespace, Name: name}] = true
		}
	}
	return out
}

// announcedRequest is what a job without pods announces that it will request.
type announcedRequest struct {
	names []string
	count int64
}
