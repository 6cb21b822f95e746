package observer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/test/observer/rule"
)

// waiting is since when something waits; zero when it does not.
type waiting struct {
	since    time.Time
	reported bool
}

func (w *waiting) set(waits bool, now time.Time) {
	if !waits {
		*w = waiting{}
	} else if w.since.IsZero() {
		w.since = now
	}
}

func (w *waiting) restart(now time.Time) {
	if !w.since.IsZero() {
		w.since = now
	}
}

// judgeReasons checks that everything that waits for cards says why.
func (m *machine) judgeReasons(now time.Time) []string {
	if m.excused[Reason] > 0 {
		return nil
	}
	var open []string
	for _, state := range m.pods {
		if state.waits.since.IsZero() || state.pod.Spec.SchedulerName != m.options.SchedulerName {
			continue
		}
		ask := rule.AskOf(state.pod, m.inventory)
		if ask.Count > 0 || ask.Refusal != "" {
			said := podSays(state.pod) || groupSays(m.groupOf(state.pod))
			open = append(open, m.judgeReason(&state.waits, "pod/"+state.pod.Namespace+"/"+state.pod.Name, said, now)...)
		}
	}
	peopled := m.peopled()
	for key, state := range m.groups {
		state.waits.set(groupWaits(state.group) && !peopled[key], now)
		if !state.waits.since.IsZero() && len(m.announced(state.group)) > 0 {
			open = append(open, m.judgeReason(&state.waits, "podgroup/"+key.String(), groupSays(state.group), now)...)
		}
	}
	return open
}

// judgeReason reports one thing that waits if its time is over, and returns it
// as open if it still has time.
func (m *machine) judgeReason(w *waiting, object string, said bool, now time.Time) (open []string) {
	switch {
	case said || w.reported || !m.options.Concerns(object):
		return nil
	case now.Sub(w.since) < m.options.ReasonWithin:
		return []string{object + " waits and does not say why yet"}
	}
	w.reported = true
	m.report(Reason, now, object, "waits for cards since %s and does not say why", w.since.Format("15:04:05.000"))
	return nil
}

func podSays(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return true
		}
	}
	return false
}

func groupSays(group *v1beta1.PodGroup) bool {
	if group == nil {
		return false
	}
	for _, c := range group.Status.Conditions {
		if c.Type == v1beta1.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue && c.Message != "" {
			return true
		}
	}
	return false
}

// groupWaits tells whether a PodGroup waits to be admitted.
func groupWaits(group *v1beta1.PodGroup) bool {
	switch group.Status.Phase {
	case v1beta1.PodGroupPending, v1beta1.PodGroupInqueue, "":
		return group.DeletionTimestamp == nil
	}
	return false
}

// peopled are the PodGroups that have a pod which has not finished.
func (m *machine) peopled() map[types.NamespacedName]bool {
	out := map[types.NamespacedName]bool{}
	for _, state := range m.pods {
		phase := state.pod.Status.Phase
		if name := rule.PodGroupName(state.pod); name != "" && phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			out[types.NamespacedName{Namespace: state.pod.Namespace, Name: name}] = true
		}
	}
	return out
}

// announcement is what a job without pods says it will ask for.
type announcement struct {
	names []string
	count int64
}
