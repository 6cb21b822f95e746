package e2e

import (
	"time"

	. "github.com/onsi/gomega"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	api "cardquota.dev/operator/api/v1alpha1"
)

// startOneAfterTheOther starts two gangs of 4 pods, which use all 8 cards. At least 3 s pass after each start: times
// of pods have whole seconds, so only then the gangs differ in the work that an eviction loses.
func (t *reclaimTest) startOneAfterTheOther(older, younger *batchv1alpha1.Job) {
	t.createQueuesWithInferenceQuota(8)
	for _, job := range []*batchv1alpha1.Job{older, younger} {
		t.startJob(job)
		start := t.lastPodStart(job.Name)
		t.Eventually(func() time.Duration { return time.Since(start) }).Should(BeNumerically(">", 3*time.Second))
	}
}

// lastPodStart returns when a workload's last pod started.
func (t *reclaimTest) lastPodStart(name string) time.Time {
	last := time.Time{}
	for _, pod := range t.podsOf(name) {
		if start := pod.Status.StartTime; start != nil && start.After(last) {
			last = start.Time
		}
	}
	return last
}

// wantEvicted lets a pod of inference reclaim a card. One of two gangs must be evicted, as a whole, because it cannot
// run with fewer pods. The other one must keep its pods.
func (t *reclaimTest) wantEvicted(gone, stays string) {
	left := t.runningPods(stays)
	t.createInference("service", 1)
	t.wantPods(map[string]string{"service": runningAndWaiting(1, 0), gone: runningAndWaiting(0, 4)})
	t.checkSamePods(left)
}

// theYoungerGangIsEvicted: of two equal gangs the one that has run for less time is evicted, because it loses less
// work.
func theYoungerGangIsEvicted(t *reclaimTest) {
	t.startOneAfterTheOther(t.trainingJob("older", 4), t.trainingJob("younger", 4))
	t.wantEvicted("younger", "older")
}

// theGangThatSavedIsEvicted: a pod of the older gang states, by an annotation, that it has just saved its work. So
// that gang loses less than the younger one, and is evicted. The younger one has an annotation too, but "just now" is
// no time, so it does not count as a checkpoint.
func theGangThatSavedIsEvicted(t *reclaimTest) {
	younger := t.trainingJob("younger", 4)
	younger.Annotations[api.AnnotationCheckpointTime] = "just now"
	t.startOneAfterTheOther(t.trainingJob("older", 4), younger)
	saved := t.podsOf("older")[2]
	t.setAnnotation(&saved, api.AnnotationCheckpointTime, time.Now().UTC().Format(time.RFC3339))
	t.wantEvicted("older", "younger")
}

// theGangWithAFutureCheckpointIsEvicted: the older gang states a checkpoint that is an hour in the future. It counts
// as one of now: the gang loses nothing, so it is evicted. The event says 0 card-seconds, and no negative number.
func theGangWithAFutureCheckpointIsEvicted(t *reclaimTest) {
	older := t.trainingJob("older", 4)
	older.Annotations[api.AnnotationCheckpointTime] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	t.startOneAfterTheOther(older, t.trainingJob("younger", 4))
	t.wantEvicted("older", "younger")
	t.Eventually(func() []string { return t.eventMessages(t.namespace, "Job", "older", "CardsReclaimed") }).Should(ConsistOf(HaveSuffix("0 card-seconds of work are lost")))
}

// theGangOfLowerPriorityIsEvicted: the older gang would lose more work, but it has the class pc-low and the younger
// one pc-high. Priority comes before loss, so the older one is evicted.
func theGangOfLowerPriorityIsEvicted(t *reclaimTest) {
	older := t.trainingJob("older", 4)
	younger := t.trainingJob("younger", 4)
	firstTaskTemplate(older).Spec.PriorityClassName = "pc-low"
	firstTaskTemplate(younger).Spec.PriorityClassName = "pc-high"
	t.startOneAfterTheOther(older, younger)
	t.wantEvicted("older", "younger")
}

// theGangWithoutADisruptionBudgetIsEvicted: the younger gang loses less, but a PodDisruptionBudget allows no
// eviction of it. So the older one is evicted.
func theGangWithoutADisruptionBudgetIsEvicted(t *reclaimTest) {
	younger := t.trainingJob("younger", 4)
	firstTaskTemplate(younger).Labels = map[string]string{"app": "younger"}
	t.createObjects(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "younger"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &intstr.IntOrString{}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "younger"}},
		},
	})
	t.startOneAfterTheOther(t.trainingJob("older", 4), younger)
	t.wantEvicted("older", "younger")
}
