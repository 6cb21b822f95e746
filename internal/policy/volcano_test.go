package policy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// TestModeWithoutVolcano: a policy wants Enforce, and Volcano is missing. One that never enforced observes. What was
// enforced before, also by an earlier version, whose status has no mode, stays Enforce: the kinds may come back.
func TestModeWithoutVolcano(t *testing.T) {
	earlier := newPolicyOfMode(v1alpha1.ModeEnforce, "")
	earlier.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training"}}

	for t, tc := range check.Cases(t, map[string]struct {
		inForce *v1alpha1.ServiceTypePolicy
		want    v1alpha1.Mode
	}{
		"a new policy":                {newPolicyOfMode("", ""), v1alpha1.ModeObserve},
		"Observe was in force":        {newPolicyOfMode(v1alpha1.ModeEnforce, v1alpha1.ModeObserve), v1alpha1.ModeObserve},
		"Enforce was in force":        {newPolicyOfMode(v1alpha1.ModeEnforce, v1alpha1.ModeEnforce), v1alpha1.ModeEnforce},
		"an earlier version enforced": {earlier, v1alpha1.ModeEnforce},
	}) {
		check.Equal(t, "mode in force", tc.want, ModeWithoutVolcano(tc.inForce))
	}
}

// TestReadyNamesTheMissingKinds: a policy wants Enforce, and the API server does not have kind Queue. Ready says that and
// what helps, before anything that Volcano would also bring, such as its ConfigMap. A policy that observes is Ready
// without Volcano.
func TestReadyNamesTheMissingKinds(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		wanted, mode v1alpha1.Mode
		sync         metav1.Condition
		want         string
	}{
		"Enforce is wanted":                      {v1alpha1.ModeEnforce, v1alpha1.ModeObserve, NotConfiguredByMode(), "False/VolcanoMissing"},
		"Enforce is wanted by default":           {"", v1alpha1.ModeObserve, NotConfiguredByMode(), "False/VolcanoMissing"},
		"Enforce was in force, without the base": {v1alpha1.ModeEnforce, v1alpha1.ModeEnforce, metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonBaseMissing}, "False/VolcanoMissing"},
		"Observe":                                {v1alpha1.ModeObserve, v1alpha1.ModeObserve, NotConfiguredByMode(), "True/Observing"},
		"Observe waits for the scheduler":        {v1alpha1.ModeObserve, v1alpha1.ModeEnforce, synced, "False/SchedulerRuns"},
	}) {
		ready := formatCondition(StatusFor(newStatusInput(func(input *StatusInput) {
			input.Policy.Spec.Mode = tc.wanted
			input.Mode = tc.mode
			input.Sync = tc.sync
			input.MissingKinds = []string{"Queue"}
		})), v1alpha1.ConditionReady)
		check.Contains(t, "condition Ready", ready, tc.want)
	}

	condition := VolcanoMissingCondition([]string{"PodGroup", "Queue"})
	check.Contains(t, "message", condition.Message, "PodGroup, Queue", "install Volcano", "mode: Observe")
}
