package capacitycard

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestRunningSince: a pod that works in an init container has its card as long as
// one that runs, and never has the phase Running.
func TestRunningSince(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(hours int) metav1.Time { return metav1.NewTime(noon.Add(-time.Duration(hours) * time.Hour)) }
	started := func(hours int) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) { at := ago(hours); s.StartTime = &at }
	}
	placed := func(hours int, status corev1.ConditionStatus) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) {
			s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: status, LastTransitionTime: ago(hours)})
		}
	}
	type pod struct {
		status api.TaskStatus
		change []func(*corev1.PodStatus)
	}
	never := time.Unix(math.MaxInt32, 0)
	for name, tc := range map[string]struct {
		pods []pod
		want time.Time
	}{
		"no pod":                       {nil, never},
		"a pod that runs":              {[]pod{{api.Running, []func(*corev1.PodStatus){started(2), placed(3, "True")}}}, ago(2).Time},
		"one in an init container":     {[]pod{{api.Bound, []func(*corev1.PodStatus){started(5), placed(6, "True")}}}, ago(5).Time},
		"one that only has its node":   {[]pod{{api.Bound, []func(*corev1.PodStatus){placed(4, "True")}}}, ago(4).Time},
		"one that had no node yet":     {[]pod{{api.Bound, []func(*corev1.PodStatus){placed(4, "False")}}}, never},
		"one of which nothing is told": {[]pod{{api.Bound, nil}}, never},
		"the condition without a time": {[]pod{{api.Bound, []func(*corev1.PodStatus){func(s *corev1.PodStatus) {
			s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
		}}}}, never},
		"the oldest of them":           {[]pod{{api.Running, []func(*corev1.PodStatus){started(1)}}, {api.Bound, []func(*corev1.PodStatus){started(3)}}, {api.Bound, nil}}, ago(3).Time},
		"none that waits or has ended": {[]pod{{api.Pending, []func(*corev1.PodStatus){placed(9, "True")}}, {api.Succeeded, []func(*corev1.PodStatus){started(9)}}}, never},
	} {
		t.Run(name, func(t *testing.T) {
			job := &api.JobInfo{TaskStatusIndex: map[api.TaskStatus]api.TasksMap{}}
			for i, p := range tc.pods {
				made := &corev1.Pod{}
				for _, change := range p.change {
					change(&made.Status)
				}
				if job.TaskStatusIndex[p.status] == nil {
					job.TaskStatusIndex[p.status] = api.TasksMap{}
				}
				uid := api.TaskID(rune('a' + i))
				job.TaskStatusIndex[p.status][uid] = &api.TaskInfo{UID: uid, Pod: made}
			}
			if got := RunningSince(job); !got.Equal(tc.want) {
				t.Errorf("runs since %s, want %s", got, tc.want)
			}
		})
	}
}
