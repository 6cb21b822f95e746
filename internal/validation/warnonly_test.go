package validation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestNothingIsRefusedBeforeThePolicySaysSo: workloads that ran before the installation of Cardquota must still be
// created until an administrator writes a policy. So without a policy the webhook only warns of invalid pods. With a
// policy it refuses them. schedulerBypassPolicy says what happens to pods of other schedulers: Deny, Warn or Allow. Warn
// has a second meaning: then the webhook only warns of everything. Allow tolerates no invalid pod. There are two such
// pods: one is in queue broken, whose selector cannot be read, the other requests cards and slices.
func TestNothingIsRefusedBeforeThePolicySaysSo(t *testing.T) {
	mode := func(mode v1alpha1.SchedulerBypassPolicy) *v1alpha1.ServiceTypePolicy {
		return &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Admission: v1alpha1.Admission{SchedulerBypassPolicy: mode}}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		policy  *v1alpha1.ServiceTypePolicy
		refused bool
	}{
		"no ServiceTypePolicy":                 {nil, false},
		"schedulerBypassPolicy Warn":           {mode(v1alpha1.SchedulerBypassWarn), false},
		"schedulerBypassPolicy Deny: refused":  {mode(v1alpha1.SchedulerBypassDeny), true},
		"schedulerBypassPolicy Allow: refused": {mode(v1alpha1.SchedulerBypassAllow), true},
	}) {
		input := newInput(func(w *WorkloadInput) { w.Policy = tc.policy })
		for _, invalid := range []*corev1.Pod{
			newPod(annotationMap{queueName: "broken"}, amounts{gpu: "1"}),
			newPod(nil, amounts{gpu: "1", slice: "1"}),
		} {
			answer := validateNow(t, workloadFor(t, invalid), nil, input)
			check.Equal(t, "refused", tc.refused, len(answer.Errors) > 0)
			check.That(t, tc.refused || len(answer.Warnings) > 0, "neither errors nor warnings")
		}
	}
}
