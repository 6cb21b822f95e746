package cardreclaim

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// withDisruptionTarget gives a pod the condition that is written before its eviction.
func withDisruptionTarget(reason string, since time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: ago(since)})
	}
}

// TestPartialEvictionIsCompleted: a scheduler that ends after the conditions and before the
// last eviction leaves a part of the job running.
func TestPartialEvictionIsCompleted(t *testing.T) {
	ours := withDisruptionTarget(corev1.PodReasonPreemptionByScheduler, time.Second)
	kubelet := withDisruptionTarget(corev1.PodReasonTerminationByKubelet, time.Second)
	old := withDisruptionTarget(corev1.PodReasonPreemptionByScheduler, 7*day)
	for t, tc := range check.Cases(t, map[string]struct {
		job    string
		change func(*corev1.Pod)
		want   string
	}{
		"the rest of it is evicted":                 {"job t queue=tra min=4 running=n*3 pending=1 age=1h owner=vcjob", ours, "t*3"},
		"pods of a vcjob that ends are deleted":     {"job t queue=tra min=4 running=n*3 pending=1 age=1h owner=vcjob evictionPolicy=TerminateJob", ours, "t*3"},
		"a job that has its minimum goes on":        {"job t queue=tra min=3 running=n*3 pending=1 age=1h owner=vcjob", ours, ""},
		"pods without the condition stay":           {"job t queue=tra min=4 running=n*3 pending=1 age=1h owner=vcjob", func(*corev1.Pod) {}, ""},
		"pods that the kubelet is to evict stay":    {"job t queue=tra min=4 running=n*3 pending=1 age=1h owner=vcjob", kubelet, ""},
		"pods that no job controller keeps go, too": {"job t queue=tra min=4 running=n*3 pending=1 age=1h", ours, "t*3"},
		"what was said a week ago is forgotten":     {"job t queue=tra min=4 running=n*3 pending=1 age=192h owner=vcjob", old, ""},
		"pods of a queue that gives nothing stay":   {"job t queue=inf min=4 running=n*3 pending=1 age=1h owner=vcjob", ours, ""},
		"protected pods stay":                       {"job t queue=tra min=4 running=n*3 pending=1 age=1h owner=vcjob preemptable=false", ours, ""},
		"below the minimum of a task counts, too":   {"job t queue=tra min=3 running=n*3 pending=1 age=1h owner=vcjob task=m,pods:0,min:1 task=w,pods:4,min:2", ours, "t*3"},
	}) {
		w := newScene("node n model=A cards=4; "+tc.job, tc.change).addToAPI(t)
		w.alone = true
		goes, _ := w.runAction(t).Outcome()
		check.Equal(t, "goes", session.Spell(tc.want), goes)

		switch {
		case tc.want != "" && strings.Contains(tc.job, "owner=vcjob") && !strings.Contains(tc.job, "TerminateJob"):
			eventually(t, "all that were left are marked", func() bool { return len(w.markedPods(t)) == 3 })
		case tc.want != "":
			eventually(t, "all that were left are deleted", func() bool { return len(w.existingPods(t)) == 1 })
		}

		goes, _ = w.runAction(t).Outcome()
		check.Equal(t, "goes", session.Spell(tc.want), goes)
	}
}
