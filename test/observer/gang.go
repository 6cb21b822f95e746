package observer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/test/observer/rule"
)

// gangCheckPeriod is how long a gang is checked after one of its pods was evicted.
const gangCheckPeriod = time.Minute

// checkGangs checks that no job runs below minAvailable, its own or that of a task, after
// cardreclaim or preempt evicted one of its pods. Volcano's own reclaim evicts single pods and
// leaves the rest to the policies of the job.
func (m *clusterState) checkGangs(now time.Time) []string {
	if m.excused[Eviction] > 0 {
		return nil
	}

	taken := m.evictedGangs(now)
	var open []string
	for key, state := range m.groups {
		short := ""
		if taken[key] != "" {
			short = m.missingPods(state.group, now)
			if taken[key] == drain {
				short = m.podsLeftByDrain(state.group, now)
			}
		}

		state.belowMinimum.setWaiting(short != "", now)
		if short != "" {
			wrong := fmt.Sprintf("was left running with %s by an eviction (%s)", short, taken[key])
			open = append(open, m.reportOverdue(&state.belowMinimum, Eviction, "podgroup/"+key.String(), wrong, m.options.ReasonWithin, now)...)
		}
	}

	return open
}

// evictedGangs returns the PodGroups of which pods were evicted so recently that they are checked, and
// by which action.
func (m *clusterState) evictedGangs(now time.Time) map[types.NamespacedName]evictionAction {
	taken := map[types.NamespacedName]evictionAction{}
	for _, e := range m.evictions {
		if (e.by.evictsWholeGangs() || e.by == drain) && now.Sub(e.due) < gangCheckPeriod && m.options.Concerns(e.victim) {
			taken[e.group] = e.by
		}
	}
	return taken
}

// missingPods describes how many pods a PodGroup lacks, in total or for a task. It is "" when
// the PodGroup has enough or none at all. Minimums of tasks count when their sum does not
// exceed the total, as in Volcano (pkg/scheduler/api/job_info.go, CheckTaskReady).
func (m *clusterState) missingPods(group *v1beta1.PodGroup, now time.Time) string {
	stay, ofTask := m.countStayingPods(group, now)
	least := group.Spec.MinMember
	needed := int32(0)
	for _, n := range group.Spec.MinTaskMember {
		needed += n
	}

	if stay == 0 || (stay >= int(least) && least < needed) {
		return ""
	}
	if stay < int(least) {
		return fmt.Sprintf("%d of %d pods", stay, least)
	}

	for _, task := range slices.Sorted(maps.Keys(group.Spec.MinTaskMember)) {
		has := ofTask[task]
		needs := group.Spec.MinTaskMember[task]
		if has < needs {
			return fmt.Sprintf("%d of %d pods of its task %s", has, needs, task)
		}
	}

	return ""
}

// countStayingPods counts the pods of a PodGroup that do not end, in total and by task.
func (m *clusterState) countStayingPods(group *v1beta1.PodGroup, now time.Time) (stay int, ofTask map[string]int32) {
	ofTask = map[string]int32{}
	for _, state := range m.pods {
		if state.pod.Namespace == group.Namespace && rule.PodGroupName(state.pod) == group.Name && rule.IsCharged(state.pod) && !m.isLeaving(state, now) {
			stay++
			ofTask[state.pod.Annotations[batchv1alpha1.TaskSpecKey]]++
		}
	}
	return stay, ofTask
}

// isLeaving reports whether an evicted pod still has time to end: the pods of a gang do not all
// end at the same moment.
func (m *clusterState) isLeaving(state *podState, now time.Time) bool {
	return state.evicted != nil && now.Sub(state.evicted.due) < m.options.PlacedWithin
}
