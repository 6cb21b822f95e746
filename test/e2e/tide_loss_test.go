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

// startOneAfterTheOther starts two gangs, far enough apart for times in whole
// seconds, and lets the younger one work for a while too.
func (t *tide) startOneAfterTheOther(older, younger *batchv1alpha1.Job) {
	t.Helper()
	t.quotas(8)
	for _, job := range []*batchv1alpha1.Job{older, younger} {
		t.start(job)
		start := t.started(job.Name)
		t.Eventually(func() time.Duration { return time.Since(start) }).Should(BeNumerically(">", 3*time.Second))
	}
}

// started is when a workload's last pod started.
func (t *tide) started(name string) time.Time {
	t.Helper()
	last := time.Time{}
	for _, pod := range t.podsOf(name) {
		if start := pod.Status.StartTime; start != nil && start.After(last) {
			last = start.Time
		}
	}
	return last
}

// wantTaken has inference take a card, and checks which of two gangs goes for it.
func (t *tide) wantTaken(gone, stays string) {
	t.Helper()
	left := t.alive(stays)
	t.serves("service", 1)
	t.wantPods(map[string]string{"service": pods(1, 0), gone: pods(0, 4)})
	t.stay(left)
}

func theYoungerGangGoes(t *tide) {
	t.startOneAfterTheOther(t.trainer("older", 4), t.trainer("younger", 4))
	t.wantTaken("younger", "older")
}

// One of its pods tells that the older gang has just saved its work. What is no
// time is no checkpoint.
func theGangWhosePodSavedGoes(t *tide) {
	younger := t.trainer("younger", 4)
	younger.Annotations[api.AnnotationCheckpointTime] = "just now"
	t.startOneAfterTheOther(t.trainer("older", 4), younger)
	saved := t.podsOf("older")[2]
	t.annotate(&saved, api.AnnotationCheckpointTime, time.Now().UTC().Format(time.RFC3339))
	t.wantTaken("older", "younger")
}

// A checkpoint in the future is one of now: the job loses nothing, and no more
// than nothing.
func theGangThatSavesInTheFutureGoes(t *tide) {
	older := t.trainer("older", 4)
	older.Annotations[api.AnnotationCheckpointTime] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	t.startOneAfterTheOther(older, t.trainer("younger", 4))
	t.wantTaken("older", "younger")
	t.Eventually(func() []string { return t.told(t.namespace, "Job", "older", "CardsReclaimed") }).Should(ConsistOf(HaveSuffix("0 card-seconds of work are lost")))
}

// The older gang loses more, and is of the lower priority.
func theGangOfTheLowerPriorityGoes(t *tide) {
	older, younger := t.trainer("older", 4), t.trainer("younger", 4)
	pod(older).Spec.PriorityClassName, pod(younger).Spec.PriorityClassName = "pc-low", "pc-high"
	t.startOneAfterTheOther(older, younger)
	t.wantTaken("older", "younger")
}

// The younger gang loses less, and a PodDisruptionBudget allows to evict none of it.
func theGangWithoutADisruptionBudgetGoes(t *tide) {
	younger := t.trainer("younger", 4)
	pod(younger).Labels = map[string]string{"app": "younger"}
	t.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "younger"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &intstr.IntOrString{}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "younger"}},
		},
	})
	t.startOneAfterTheOther(t.trainer("older", 4), younger)
	t.wantTaken("older", "younger")
}
