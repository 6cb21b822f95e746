package validation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestWarnOnlyRefusesNothing: what ran before Cardquota came must go on being
// created until an administrator decides otherwise.
func TestWarnOnlyRefusesNothing(t *testing.T) {
	mode := func(mode v1alpha1.SchedulerBypassPolicy) *v1alpha1.ServiceTypePolicy {
		return &v1alpha1.ServiceTypePolicy{Spec: v1alpha1.ServiceTypePolicySpec{Admission: v1alpha1.Admission{SchedulerBypassPolicy: mode}}}
	}

	for t, tc := range check.Cases(t, map[string]struct {
		policy  *v1alpha1.ServiceTypePolicy
		refused bool
	}{
		"no policy yet":              {nil, false},
		"a policy that says to warn": {mode(v1alpha1.SchedulerBypassWarn), false},
		"a policy":                   {mode(v1alpha1.SchedulerBypassDeny), true},
		"one that guards no pods":    {mode(v1alpha1.SchedulerBypassAllow), true},
	}) {
		scene := snapshotOf(func(w *WorkloadInput) { w.Policy = tc.policy })
		for _, wrong := range []*Workload{
			load(t, requested(notes{inQueue: "broken"}, amounts{"nvidia.com/gpu": "1"}, nil)),
			load(t, requested(nil, amounts{"nvidia.com/gpu": "1", "nvidia.com/mig-1g.18gb": "1"}, nil)),
		} {
			answer := judged(t, *wrong, nil, scene)
			check.That(t, tc.refused == (len(answer.Errors) > 0),
				"refusals %q, want some: %v", answer.Errors, tc.refused)
			check.That(t, tc.refused || strings.Contains(strings.Join(answer.Warnings, "\n"), "p"), "nothing is warned of either")
		}
	}
}

func load(t *testing.T, object *corev1.Pod) *Workload {
	w, ok := WorkloadOf(object)
	check.Must(t, ok, "%T is no workload", object)
	return &w
}
