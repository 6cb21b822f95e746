package workload

import (
	"math"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// DefaultBackoffLimit is the backoffLimit that the API server sets.
const DefaultBackoffLimit = 6

// evictionExitCodes are how containers usually end when they are told to stop: by SIGTERM, or
// by SIGKILL after the grace period.
var evictionExitCodes = []int32{128 + 15, 128 + 9}

// EvictionRule is the rule of a podFailurePolicy that keeps evicted pods from being counted.
func EvictionRule() batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{
		Action: batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		},
	}
}

// FailureLimit is how many pods of a Kubernetes Job may still fail before the Job fails.
//
// The rules are those of Kubernetes' Job controller (pkg/controller/job). It counts a deleted
// pod as failed, unless the pod has succeeded or a rule of spec.podFailurePolicy ignores it.
// With more than spec.backoffLimit failed pods the Job fails for good, and its other pods are
// deleted.
type FailureLimit struct {
	// IgnoresEvictions reports whether evicted pods do not count as failed.
	IgnoresEvictions bool
	// left is how many more pods may fail beside those that the Job's status counts.
	left int64
	// perIndex is how many pods of one index may fail, nil if that is not limited.
	perIndex *int32
	// counted are failed pods that the status counts, although they may still be there.
	counted []types.UID
}

// FailureLimitFor returns the failure limit of a Job.
func FailureLimitFor(job *batchv1.Job) FailureLimit {
	limit := FailureLimit{perIndex: job.Spec.BackoffLimitPerIndex}
	if uncounted := job.Status.UncountedTerminatedPods; uncounted != nil {
		limit.counted = uncounted.Failed
	}

	switch evictionAction(job.Spec.PodFailurePolicy) {
	case batchv1.PodFailurePolicyActionIgnore:
		limit.IgnoresEvictions = true
	case batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionFailIndex:
		// None is left: one evicted pod fails the Job, at once or in the end.
	default:
		// The Job controller adds the uncounted pods to status.failed a moment later, so they use up the limit already.
		limit.left = int64(ptr.Deref(job.Spec.BackoffLimit, DefaultBackoffLimit)) - int64(job.Status.Failed) - int64(len(limit.counted))
	}

	return limit
}

// EvictionsLeft returns how many of a Job's running pods may be evicted while the Job goes on, none if an
// index would fail with one of them. ended are its pods that are evicted, terminating or failed.
func (l *FailureLimit) EvictionsLeft(running, ended []*corev1.Pod) int {
	if l.IgnoresEvictions {
		return math.MaxInt
	}
	if slices.ContainsFunc(running, l.isLastOfIndex) {
		return 0
	}

	return int(max(l.leftAfter(ended), 0))
}

// Survives reports whether the Job goes on after some of its pods ended: they are evicted, terminating or
// failed. An index that has failed before ends no other pod.
func (l *FailureLimit) Survives(ended []*corev1.Pod) bool {
	failsAnIndex := func(pod *corev1.Pod) bool { return l.willBeCounted(pod) && l.isLastOfIndex(pod) }
	return l.IgnoresEvictions || (l.leftAfter(ended) >= 0 && !slices.ContainsFunc(ended, failsAnIndex))
}

// leftAfter returns how many more pods may fail after some ended, less than 0 if the Job fails by them.
func (l *FailureLimit) leftAfter(ended []*corev1.Pod) int64 {
	left := l.left
	for _, pod := range ended {
		if l.willBeCounted(pod) {
			left--
		}
	}
	return left
}

// willBeCounted reports whether the Job controller still has to count a pod that ended. It
// removes its finalizer from the pods that it has counted.
func (l *FailureLimit) willBeCounted(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) && !slices.Contains(l.counted, pod.UID)
}

// isLastOfIndex reports whether an index of the Job fails with this pod. Then the Job fails in
// the end. A pod that does not say how often its index has failed counts as the last one, to be safe.
func (l *FailureLimit) isLastOfIndex(pod *corev1.Pod) bool {
	if l.perIndex == nil {
		return false
	}
	failed, err := strconv.ParseInt(pod.Annotations[batchv1.JobIndexFailureCountAnnotation], 10, 32)
	return err != nil || failed >= int64(*l.perIndex)
}

// evictionAction returns the action of the first rule that applies to an evicted pod, Count if
// there is none.
func evictionAction(policy *batchv1.PodFailurePolicy) batchv1.PodFailurePolicyAction {
	if policy == nil {
		return batchv1.PodFailurePolicyActionCount
	}
	for i := range policy.Rules {
		if appliesToEviction(&policy.Rules[i]) {
			return policy.Rules[i].Action
		}
	}
	return batchv1.PodFailurePolicyActionCount
}

// CompactFailurePolicy returns a small podFailurePolicy that does the same with evicted pods. A
// tenant may write thousands of exit codes into each of its Jobs.
func CompactFailurePolicy(policy *batchv1.PodFailurePolicy) *batchv1.PodFailurePolicy {
	action := evictionAction(policy)
	if action == batchv1.PodFailurePolicyActionCount {
		return nil // it does the same
	}
	rule := EvictionRule()
	rule.Action = action
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{rule}}
}

// appliesToEviction reports whether a rule applies to an evicted pod that ends as usual.
func appliesToEviction(rule *batchv1.PodFailurePolicyRule) bool {
	if codes := rule.OnExitCodes; codes != nil {
		return slices.ContainsFunc(evictionExitCodes, func(code int32) bool {
			isListed := slices.Contains(codes.Values, code) // NotIn applies to those that are not
			return isListed == (codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn)
		})
	}
	return slices.ContainsFunc(rule.OnPodConditions, func(pattern batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
		return pattern.Type == corev1.DisruptionTarget && (pattern.Status == corev1.ConditionTrue || pattern.Status == "")
	})
}

// HasEvictionRule reports whether a podFailurePolicy has a rule of its own about evicted pods.
func HasEvictionRule(policy *batchv1.PodFailurePolicy) bool {
	if policy == nil {
		return false
	}
	return slices.ContainsFunc(policy.Rules, func(rule batchv1.PodFailurePolicyRule) bool {
		return slices.ContainsFunc(rule.OnPodConditions, func(pattern batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return pattern.Type == corev1.DisruptionTarget
		})
	})
}

// BatchJobOwner returns the Kubernetes Job that controls a pod, nil when none does.
func BatchJobOwner(object metav1.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != batchv1.SchemeGroupVersion.String() {
		return nil
	}
	return owner
}
