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
		running, ended []*corev1.Pod
		want           int
	}{
		"of the default limit": {
			change: func(job *batchv1.Job) { job.Spec.BackoffLimit = nil },
			want:   6,
		},
		"of its own limit": {
			want: 4,
		},
		"less those that failed": {
			change: func(job *batchv1.Job) { job.Status.Failed = 3 },
			want:   1,
		},
		"none when all failed": {
			change: func(job *batchv1.Job) { job.Status.Failed = 4 },
		},
		"no less than none": {
			change: func(job *batchv1.Job) { job.Status.Failed = 9 },
		},
		"less those that are being counted": {
			change: func(job *batchv1.Job) { uncounted(job, "a", "b") },
			want:   2,
		},
		"each counted once": {
			change: func(job *batchv1.Job) { uncounted(job, "a", "b") },
			ended:  []*corev1.Pod{batchPod("a", hasFailed), batchPod("b", isCounted)},
			want:   2,
		},
		"less those that are terminating": {
			ended: []*corev1.Pod{batchPod("a"), batchPod("b", hasFailed)},
			want:  2,
		},
		"those that were counted are not": {
			ended: []*corev1.Pod{batchPod("a", isCounted), batchPod("b", hasFailed, isCounted)},
			want:  4,
		},
		"those that succeeded are not": {
			ended: []*corev1.Pod{batchPod("a", hasSucceeded)},
			want:  4,
		},
		"any that are ignored": {
			change: rules(onDisruption(ignore)),
			ended:  []*corev1.Pod{batchPod("a")},
			want:   all,
		},
		"any that are ignored, by default true": {
			change: rules(conditionRule(ignore, corev1.DisruptionTarget, "")),
			want:   all,
		},
		"none that fail the Job": {
			change: rules(onDisruption(failJob)),
		},
		"none that fail their index": {
			change: rules(onDisruption(batchv1.PodFailurePolicyActionFailIndex)),
		},
		"those that a rule counts": {
			change: rules(onDisruption(count), onDisruption(ignore)),
			want:   4,
		},
		"a rule for what was not disrupted": {
			change: rules(conditionRule(ignore, corev1.DisruptionTarget, corev1.ConditionFalse)),
			want:   4,
		},
		"a rule for another condition": {
			change: rules(conditionRule(failJob, "ConfigIssue", corev1.ConditionTrue), onDisruption(ignore)),
			want:   all,
		},
		"a rule for another exit code first": {
			change: rules(exitCodeRule(failJob, in, 42), onDisruption(ignore)),
			want:   all,
		},
		"a rule for SIGTERM first": {
			change: rules(exitCodeRule(failJob, in, 143), onDisruption(ignore)),
		},
		"a rule for SIGKILL first": {
			change: rules(exitCodeRule(count, in, 137), onDisruption(ignore)),
			want:   4,
		},
		"a rule for all but one code first": {
			change: rules(exitCodeRule(failJob, notIn, 42), onDisruption(ignore)),
		},
		"a rule for all but both codes first": {
			change: rules(exitCodeRule(failJob, notIn, 137, 143), onDisruption(ignore)),
			want:   all,
		},
		"an exit code that is ignored": {
			change: rules(exitCodeRule(ignore, in, 143)),
			want:   all,
		},
		"while each index may fail once more": {
			change:  perIndex,
			running: []*corev1.Pod{batchPod("a", failures("1"))},
			want:    math.MaxInt32,
		},
		"none while an index may not": {
			change:  perIndex,
			running: []*corev1.Pod{batchPod("a", failures("0")), batchPod("b", failures("2"))},
		},
		"none while an index is not readable": {
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

// TestTheEvictionRuleIgnoresEvictions: the rule that admission adds, before any other rules.
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

// TestAnyOrderOfCountingIsTheSame follows the Job controller: it lists a failed pod in the
// status, then removes its finalizer, then counts it. At each of these moments as many
// evictions are left.
func TestAnyOrderOfCountingIsTheSame(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		job := &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: ptr.To(int32(rapid.IntRange(0, 9).Draw(t, "limit")))}}
		var ended []*corev1.Pod
		gone := rapid.IntRange(0, 9).Draw(t, "evicted")
		for i := range gone {
			pod := batchPod(fmt.Sprint(i))
			switch rapid.SampledFrom([]string{"seen", "listed", "released", "counted", "counted and there"}).Draw(t, "how far") {
			case "seen":
				ended = append(ended, pod)
			case "listed":
				appendUncounted(job, pod.UID)
				ended = append(ended, pod)
			case "released":
				appendUncounted(job, pod.UID)
			case "counted":
				job.Status.Failed++
			case "counted and there":
				job.Status.Failed++
				pod.Finalizers = nil
				ended = append(ended, pod)
			}
		}

		limit := FailureLimitFor(job)
		check.Equal(t, "evictions left", max(0, int(*job.Spec.BackoffLimit)-gone), limit.EvictionsLeft(nil, ended))
	})
}

func appendUncounted(job *batchv1.Job, uid types.UID) {
	if job.Status.UncountedTerminatedPods == nil {
		uncounted(job)
	}
	job.Status.UncountedTerminatedPods.Failed = append(job.Status.UncountedTerminatedPods.Failed, uid)
}

func TestBatchJobOwner(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		apiVersion, kind string
		controls, want   bool
	}{
		"a Kubernetes Job": {
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
		"a Job that does not manage it": {
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

// TestAJobSurvivesAsManyEvictionsAsAreLeft: it fails by one more, whichever pods ended before.
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

func TestAJobFailsWithTheLastPodOfAnIndex(t *testing.T) {
	limit := FailureLimitFor(&batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: ptr.To[int32](9), BackoffLimitPerIndex: ptr.To[int32](1)}})
	check.That(t, limit.Survives([]*corev1.Pod{batchPod("a", failures("0"))}), "it fails although the index may fail once")
	check.That(t, !limit.Survives([]*corev1.Pod{
		batchPod("a", failures("0")),
		batchPod("b", failures("1")),
	}), "it survives that an index fails too often")
	counted := batchPod("c", failures("1"), func(pod *corev1.Pod) { pod.Finalizers = nil })
	check.That(t, limit.Survives([]*corev1.Pod{batchPod("a", failures("0")), counted}), "an index that has failed before ends the others")
}
