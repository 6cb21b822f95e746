package workload

import (
	"fmt"
	"math"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

const (
	ignore  = batchv1.PodFailurePolicyActionIgnore
	count   = batchv1.PodFailurePolicyActionCount
	failJob = batchv1.PodFailurePolicyActionFailJob
)

// conditionRule and exitCodeRule are rules of podFailurePolicy.
func conditionRule(action batchv1.PodFailurePolicyAction, condition corev1.PodConditionType, status corev1.ConditionStatus) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{
		Action:          action,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: condition, Status: status}},
	}
}

func exitCodeRule(action batchv1.PodFailurePolicyAction, operator batchv1.PodFailurePolicyOnExitCodesOperator, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{
		Action:      action,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: operator, Values: codes},
	}
}

// batchPod is a pod of a Kubernetes Job that the Job controller has not counted.
func batchPod(uid string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Finalizers: []string{"other", batchv1.JobTrackingFinalizer}}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// TestEvictionsThatAJobSurvives: each evicted pod of a Kubernetes Job counts as a failure, and more failures than
// backoffLimit end the Job, here more than 4. EvictionsLeft is how many pods may still be evicted. Failures that the
// Job controller has counted are in the status. Those that it counts later are listed there as uncounted, or are pods
// that end and still have its finalizer. A podFailurePolicy may ignore evictions, count them, or fail the Job. Its
// first rule that fits an eviction decides: by condition DisruptionTarget, or by exit code 143 or 137, each of which
// is enough. All evictions are left where they are ignored. With a limit for each index, none are left once a running
// pod's index has reached it: that pod may be the next. The number of a row is how many are left.
// CompactFailurePolicy, which saves memory, keeps the one rule that decides, if any, and must leave the same number.
func TestEvictionsThatAJobSurvives(t *testing.T) {
	const (
		in    = batchv1.PodFailurePolicyOnExitCodesOpIn
		notIn = batchv1.PodFailurePolicyOnExitCodesOpNotIn
	)

	rules := func(all ...batchv1.PodFailurePolicyRule) func(*batchv1.Job) {
		return func(job *batchv1.Job) { job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: all} }
	}
	onDisruption := func(action batchv1.PodFailurePolicyAction) batchv1.PodFailurePolicyRule {
		return conditionRule(action, corev1.DisruptionTarget, corev1.ConditionTrue)
	}

	hasFailed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	hasSucceeded := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	isCounted := func(p *corev1.Pod) { p.Finalizers = nil }
	perIndex := func(job *batchv1.Job) {
		job.Spec.BackoffLimit = ptr.To[int32](math.MaxInt32)
		job.Spec.BackoffLimitPerIndex = ptr.To[int32](2)
	}

	const all = math.MaxInt
	for t, tc := range check.Cases(t, map[string]struct {
		change         func(*batchv1.Job)
		running, ended []*corev1.Pod // ended: terminating or finished
		want           int
	}{
		"no backoffLimit: the default of 6": {
			change: func(job *batchv1.Job) { job.Spec.BackoffLimit = nil },
			want:   6,
		},
		"no failure: 4": {
			want: 4,
		},
		"3 of 4 failures are counted: 1": {
			change: func(job *batchv1.Job) { job.Status.Failed = 3 },
			want:   1,
		},
		"4 failures are counted: 0": {
			change: func(job *batchv1.Job) { job.Status.Failed = 4 },
		},
		"9 failures are counted: 0": {
			change: func(job *batchv1.Job) { job.Status.Failed = 9 },
		},
		"2 failures are listed as uncounted: 2": {
			change: func(job *batchv1.Job) { uncounted(job, "a", "b") },
			want:   2,
		},
		"2 failures are listed as uncounted, and their pods still exist: each counts once": {
			change: func(job *batchv1.Job) { uncounted(job, "a", "b") },
			ended:  []*corev1.Pod{batchPod("a", hasFailed), batchPod("b", isCounted)},
			want:   2,
		},
		"one pod is terminating and one has failed, both not counted yet: 2": {
			ended: []*corev1.Pod{batchPod("a"), batchPod("b", hasFailed)},
			want:  2,
		},
		"pods that end, and were counted before: 4": {
			ended: []*corev1.Pod{batchPod("a", isCounted), batchPod("b", hasFailed, isCounted)},
			want:  4,
		},
		"a pod that succeeded: 4": {
			ended: []*corev1.Pod{batchPod("a", hasSucceeded)},
			want:  4,
		},
		"evictions are ignored: all": {
			change: rules(onDisruption(ignore)),
			ended:  []*corev1.Pod{batchPod("a")},
			want:   all,
		},
		"evictions are ignored, by a rule without a status, which is True: all": {
			change: rules(conditionRule(ignore, corev1.DisruptionTarget, "")),
			want:   all,
		},
		"an eviction fails the Job: 0": {
			change: rules(onDisruption(failJob)),
		},
		"an eviction fails its index: 0": {
			change: rules(onDisruption(batchv1.PodFailurePolicyActionFailIndex)),
		},
		"a rule counts evictions before one that ignores them: 4": {
			change: rules(onDisruption(count), onDisruption(ignore)),
			want:   4,
		},
		"a rule ignores pods that were not evicted: 4": {
			change: rules(conditionRule(ignore, corev1.DisruptionTarget, corev1.ConditionFalse)),
			want:   4,
		},
		"a rule for another condition comes before the one that ignores evictions: all": {
			change: rules(conditionRule(failJob, "ConfigIssue", corev1.ConditionTrue), onDisruption(ignore)),
			want:   all,
		},
		"a rule for exit code 42 comes first, which no eviction causes: all": {
			change: rules(exitCodeRule(failJob, in, 42), onDisruption(ignore)),
			want:   all,
		},
		"a rule fails the Job for 143, which SIGTERM causes: 0": {
			change: rules(exitCodeRule(failJob, in, 143), onDisruption(ignore)),
		},
		"a rule counts 137, which SIGKILL causes, before evictions are ignored: 4": {
			change: rules(exitCodeRule(count, in, 137), onDisruption(ignore)),
			want:   4,
		},
		"a rule fails the Job for any code but 42: 0": {
			change: rules(exitCodeRule(failJob, notIn, 42), onDisruption(ignore)),
		},
		"a rule fails the Job for any code but 137 and 143, and then evictions are ignored: all": {
			change: rules(exitCodeRule(failJob, notIn, 137, 143), onDisruption(ignore)),
			want:   all,
		},
		"143 is ignored, which SIGTERM causes: all": {
			change: rules(exitCodeRule(ignore, in, 143)),
			want:   all,
		},
		"a limit of 2 for each index, and the index failed once: the backoffLimit, which is 2^31-1": {
			change:  perIndex,
			running: []*corev1.Pod{batchPod("a", failures("1"))},
			want:    math.MaxInt32,
		},
		"a limit of 2 for each index, and one failed twice: 0": {
			change:  perIndex,
			running: []*corev1.Pod{batchPod("a", failures("0")), batchPod("b", failures("2"))},
		},
		"a limit of 2 for each index, and how often one failed is not known: 0": {
			change:  perIndex,
			running: []*corev1.Pod{batchPod("a")},
		},
	}) {
		job := &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: ptr.To[int32](4)}}
		if tc.change != nil {
			tc.change(job)
		}

		limit := FailureLimitFor(job)
		check.Equal(t, "evictions left", tc.want, limit.EvictionsLeft(tc.running, tc.ended))

		job.Spec.PodFailurePolicy = CompactFailurePolicy(job.Spec.PodFailurePolicy)
		compact := FailureLimitFor(job)
		check.Equal(t, "the same by the compact policy", tc.want, compact.EvictionsLeft(tc.running, tc.ended))
		check.That(t, job.Spec.PodFailurePolicy == nil || len(job.Spec.PodFailurePolicy.Rules) == 1, "the compact policy is %+v",
			job.Spec.PodFailurePolicy)
	}
}

// failures sets how often the index of a pod failed.
func failures(text string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{batchv1.JobIndexFailureCountAnnotation: text} }
}

func uncounted(job *batchv1.Job, uids ...types.UID) {
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: uids}
}

// TestTheEvictionRuleIgnoresEvictions: admission adds the rule that ignores evictions before any other rules of a
// Job. So all evictions are left, whatever the other rules say, and though the Job has 9 failures and its
// backoffLimit is 0. The other rules are random.
func TestTheEvictionRuleIgnoresEvictions(t *testing.T) {
	actions := rapid.SampledFrom([]batchv1.PodFailurePolicyAction{ignore, count, failJob})

	seed.Check(t, func(t *rapid.T) {
		policy := &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{EvictionRule()}}
		for range rapid.IntRange(0, 4).Draw(t, "others") {
			policy.Rules = append(policy.Rules, exitCodeRule(actions.Draw(t, "action"), batchv1.PodFailurePolicyOnExitCodesOpNotIn, 1))
		}
		limit := FailureLimitFor(&batchv1.Job{
			Spec:   batchv1.JobSpec{PodFailurePolicy: policy, BackoffLimit: ptr.To[int32](0)},
			Status: batchv1.JobStatus{Failed: 9},
		})

		check.Equal(t, "evictions left", math.MaxInt, limit.EvictionsLeft(nil, []*corev1.Pod{batchPod("a")}))
	})
}

// TestAnyOrderOfCountingIsTheSame: the Job controller lists a failed pod in the status, then removes its finalizer,
// then counts it. Random evicted pods are at stages of this; one that is released or counted may be gone. At each
// stage a pod counts exactly once, so backoffLimit minus the evicted pods are left, but never less than 0.
func TestAnyOrderOfCountingIsTheSame(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		job := &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: ptr.To(int32(rapid.IntRange(0, 9).Draw(t, "limit")))}}
		var ended []*corev1.Pod
		evicted := rapid.IntRange(0, 9).Draw(t, "evicted")
		for i := range evicted {
			pod := batchPod(fmt.Sprint(i))
			switch rapid.SampledFrom([]string{"seen", "listed", "released", "released and there", "counted", "counted and there"}).Draw(t, "stage") {
			case "seen":
				ended = append(ended, pod)
			case "listed":
				appendUncounted(job, pod.UID)
				ended = append(ended, pod)
			case "released":
				appendUncounted(job, pod.UID)
			case "released and there":
				appendUncounted(job, pod.UID)
				pod.Finalizers = nil
				ended = append(ended, pod)
			case "counted":
				job.Status.Failed++
			case "counted and there":
				job.Status.Failed++
				pod.Finalizers = nil
				ended = append(ended, pod)
			}
		}

		limit := FailureLimitFor(job)
		check.Equal(t, "evictions left", max(0, int(*job.Spec.BackoffLimit)-evicted), limit.EvictionsLeft(nil, ended))
	})
}

func appendUncounted(job *batchv1.Job, uid types.UID) {
	if job.Status.UncountedTerminatedPods == nil {
		uncounted(job)
	}
	job.Status.UncountedTerminatedPods.Failed = append(job.Status.UncountedTerminatedPods.Failed, uid)
}

// TestBatchJobOwnerIsTheKubernetesJobThatControls: evictions of a pod count against the Kubernetes Job that controls
// it. BatchJobOwner finds that Job by the API group, kind and flag controller of the owner reference.
func TestBatchJobOwnerIsTheKubernetesJobThatControls(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		apiVersion, kind string
		controls, want   bool
	}{
		"a Kubernetes Job that controls the pod": {
			apiVersion: "batch/v1",
			kind:       "Job",
			controls:   true,
			want:       true,
		},
		"a Volcano job": {
			apiVersion: "batch.volcano.sh/v1alpha1",
			kind:       "Job",
			controls:   true,
		},
		"a CronJob": {
			apiVersion: "batch/v1",
			kind:       "CronJob",
			controls:   true,
		},
		"a Kubernetes Job that does not control the pod": {
			apiVersion: "batch/v1",
			kind:       "Job",
		},
	}) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{APIVersion: tc.apiVersion, Kind: tc.kind, Name: "j", Controller: &tc.controls},
		}}}

		check.Equal(t, "owned", tc.want, BatchJobOwner(pod) != nil)
	}
}

// TestAJobSurvivesAsManyEvictionsAsAreLeft: EvictionsLeft and Survives agree: for random limits and pods, a Job
// survives any number of evictions up to those that are left, and no more.
func TestAJobSurvivesAsManyEvictionsAsAreLeft(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		job := &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: ptr.To(int32(rapid.IntRange(0, 4).Draw(t, "limit")))}}
		if rapid.IntRange(0, 3).Draw(t, "ignores evictions") == 0 {
			job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{EvictionRule()}}
		}

		var running, ended []*corev1.Pod
		for i := range rapid.IntRange(0, 4).Draw(t, "running") {
			running = append(running, batchPod(fmt.Sprintf("r%d", i)))
		}

		for i := range rapid.IntRange(0, int(*job.Spec.BackoffLimit)).Draw(t, "ended") {
			ended = append(ended, batchPod(fmt.Sprintf("e%d", i)))
		}

		limit := FailureLimitFor(job)
		left := limit.EvictionsLeft(running, ended)
		for n := range len(running) + 1 {
			check.Equal(t, fmt.Sprintf("survives %d of %d evictions", n, left), n <= left,
				limit.Survives(append(slices.Clone(ended), running[:n]...)))
		}
	})
}

// TestUncountedFailuresEndNoJobThatFailsByEvictions: a podFailurePolicy fails the Job with the first evicted pod, and the
// status lists a pod that failed by itself as uncounted. No eviction is left, but the Job continues until a pod is evicted.
func TestUncountedFailuresEndNoJobThatFailsByEvictions(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{PodFailurePolicy: &batchv1.PodFailurePolicy{
		Rules: []batchv1.PodFailurePolicyRule{conditionRule(failJob, corev1.DisruptionTarget, corev1.ConditionTrue)},
	}}}
	uncounted(job, "a")

	limit := FailureLimitFor(job)
	check.Equal(t, "evictions left", 0, limit.EvictionsLeft([]*corev1.Pod{batchPod("running")}, nil))
	check.That(t, limit.Survives(nil), "the Job ends without an eviction")
	check.That(t, !limit.Survives([]*corev1.Pod{batchPod("evicted")}), "the Job survives an eviction")
}

// TestAJobFailsWithTheLastPodOfAnIndex: a Job with a backoffLimitPerIndex of 1 lets each index fail once. It survives
// the eviction of a pod whose index has not failed, not of one whose index failed once. An index that failed for good
// before, and that Kubernetes has counted, does not end the Job. failures("1") is a pod whose index failed once
// before.
func TestAJobFailsWithTheLastPodOfAnIndex(t *testing.T) {
	limit := FailureLimitFor(&batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: ptr.To[int32](9), BackoffLimitPerIndex: ptr.To[int32](1)}})
	check.That(t, limit.Survives([]*corev1.Pod{batchPod("a", failures("0"))}), "the Job fails though the index may fail once")
	check.That(t, !limit.Survives([]*corev1.Pod{
		batchPod("a", failures("0")),
		batchPod("b", failures("1")),
	}), "the Job survives that an index fails twice")

	counted := batchPod("c", failures("1"), func(pod *corev1.Pod) { pod.Finalizers = nil })
	check.That(t, limit.Survives([]*corev1.Pod{batchPod("a", failures("0")), counted}), "an index that has failed before ends the others")
}
