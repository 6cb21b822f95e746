package action

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// explained gives a pod the condition that is written before it is told to go.
func explained(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason})
	}
}

// TestAPartOfAJobIsFinished: a scheduler that ended between telling a job why it
// goes and telling all of its pods to go leaves a part of it running.
func TestAPartOfAJobIsFinished(t *testing.T) {
	ours := explained(corev1.PodReasonPreemptionByScheduler)
	part := job{name: "t", queue: "tra", least: 4, on: repeat("n", 3), waits: 1, ran: hour, vcjob: true, pod: ours}
	tests := map[string]struct {
		change func(*job)
		want   string
	}{
		"the rest of it goes":                       {func(*job) {}, "t*3"},
		"a job that has its minimum goes on":        {func(j *job) { j.least = 3 }, ""},
		"pods that nobody told stay":                {func(j *job) { j.pod = nil }, ""},
		"pods that the kubelet is to evict stay":    {func(j *job) { j.pod = explained(corev1.PodReasonTerminationByKubelet) }, ""},
		"pods that no job controller keeps go, too": {func(j *job) { j.vcjob = false }, "t*3"},
		"below the minimum of a task counts, too": {func(j *job) {
			j.least, j.roles, j.role = 3, map[string]int32{"m": 1, "w": 2}, func(int) string { return "w" }
		}, "t*3"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := part
			tc.change(&j)
			w := tides(node("n", "A", 4)).add(j).known(t)
			w.alone = true
			w.run(t).expect(t, tc.want, "")
			switch {
			case tc.want != "" && j.vcjob:
				eventually(t, "all that were left are marked", func() bool { return len(w.marked(t)) == 3 })
			case tc.want != "":
				eventually(t, "all that were left are deleted", func() bool { return len(w.there(t)) == 1 })
			}
			w.run(t).expect(t, tc.want, "")
		})
	}
}
