package cardreclaim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestPartialEvictionIsCompleted: before an eviction the scheduler writes condition DisruptionTarget to all pods
// of the job. If it ends before the last eviction, a part of the job runs on. The next scheduler evicts the pods
// that have the condition, if their job is below its minimum and may be evicted. The condition must be younger
// than 2.5 minutes. 3 pods of job t run, and a fourth is pending. Evicted pods get an annotation with which Volcano
// recreates them, or are deleted. A second session still treats the same pods as evicted. "t*3" are t-0 to t-2.
func TestPartialEvictionIsCompleted(t *testing.T) {
	byScheduler := withDisruptionTarget(corev1.PodReasonPreemptionByScheduler, 2*time.Minute)
	for t, tc := range check.Cases(t, map[string]struct {
		job                        string
		condition                  podChange
		wantDeleted, wantRecreated string
	}{
		"3 pods of minimum 4, of a Volcano job: recreated": {job: "queue=training min=4 owner=vcjob", condition: byScheduler, wantRecreated: "t*3"},
		"the policy of the Volcano job ends it: deleted": {
			job: "queue=training min=4 owner=vcjob evictionPolicy=TerminateJob", condition: byScheduler, wantDeleted: "t*3"},
		"no controller recreates the pods: deleted": {job: "queue=training min=4", condition: byScheduler, wantDeleted: "t*3"},
		"3 pods of minimum 3, all of task w, but task m lacks its minimum of one pod: recreated": {
			job: "queue=training min=3 owner=vcjob task=m,pods:0,min:1 task=w,pods:4,min:2", condition: byScheduler, wantRecreated: "t*3"},
		"3 pods of minimum 3: none":      {job: "queue=training min=3 owner=vcjob", condition: byScheduler},
		"no pod has the condition: none": {job: "queue=training min=4 owner=vcjob"},
		"the kubelet wrote the condition: none": {
			job: "queue=training min=4 owner=vcjob", condition: withDisruptionTarget(corev1.PodReasonTerminationByKubelet, time.Second)},
		"the condition is 3 minutes old, not 2: none": {
			job: "queue=training min=4 owner=vcjob", condition: withDisruptionTarget(corev1.PodReasonPreemptionByScheduler, 3*time.Minute)},
		"queue inference is not reclaimable: none": {job: "queue=inference min=4 owner=vcjob", condition: byScheduler},
		"the pods are protected: none":             {job: "queue=training min=4 owner=vcjob preemptable=false", condition: byScheduler},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=4
			job t running=n*3 pending=1 age=192h `+tc.job, onJob("t", tc.condition)).addToAPI(t)
		s.withoutAllocate = true // else the pending pod t-3 would get the free card
		s.runSession(t).expectEvicted(t, tc.wantDeleted+" "+tc.wantRecreated)
		s.expectDeletedAndRecreated(t, tc.wantDeleted, tc.wantRecreated)

		s.runSession(t).expectEvicted(t, tc.wantDeleted+" "+tc.wantRecreated)
	}
}
