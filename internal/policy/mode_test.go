package policy

import (
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// newPolicyOfMode returns a policy with the mode that its spec wants, and the mode in force so far. Both may be "".
func newPolicyOfMode(wanted, inForce v1alpha1.Mode) *v1alpha1.ServiceTypePolicy {
	policy := &v1alpha1.ServiceTypePolicy{}
	policy.Name = v1alpha1.PolicyName
	policy.Spec.Mode = wanted
	policy.Status.Mode = inForce
	return policy
}

// TestObserveWaitsForTheEndOfTheScheduler: Enforce comes into force at once. Observe waits while Cardquota's scheduler
// may run, since it gives no cards to a Queue that lost its quota. Until then the last mode stays in force. A policy
// that never had a mode in force has none meanwhile, so that nothing is written. Observe in force stays, also when the
// scheduler is started for tests.
func TestObserveWaitsForTheEndOfTheScheduler(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		wanted, inForce v1alpha1.Mode
		mayRun          bool
		want            v1alpha1.Mode
	}{
		"a new policy without a mode":                     {want: v1alpha1.ModeEnforce},
		"a new policy that observes":                      {wanted: v1alpha1.ModeObserve, want: v1alpha1.ModeObserve},
		"a new policy that observes, beside a scheduler":  {wanted: v1alpha1.ModeObserve, mayRun: true, want: ""},
		"from Observe to Enforce":                         {wanted: v1alpha1.ModeEnforce, inForce: v1alpha1.ModeObserve, want: v1alpha1.ModeEnforce},
		"from Enforce to Observe":                         {wanted: v1alpha1.ModeObserve, inForce: v1alpha1.ModeEnforce, want: v1alpha1.ModeObserve},
		"from Enforce to Observe, while a scheduler runs": {wanted: v1alpha1.ModeObserve, inForce: v1alpha1.ModeEnforce, mayRun: true, want: v1alpha1.ModeEnforce},
		"Observe, and a scheduler starts":                 {wanted: v1alpha1.ModeObserve, inForce: v1alpha1.ModeObserve, mayRun: true, want: v1alpha1.ModeObserve},
	}) {
		check.Equal(t, "next mode", tc.want, NextMode(newPolicyOfMode(tc.wanted, tc.inForce), tc.mayRun))
	}
}

// TestTheModeInForceOutlivesThePolicy: a deleted policy leaves its mode in force, also after a restart of the operator,
// which reads the kept text. A policy that is created again changes the mode only with its first status. Without any
// policy ever, and with one of an earlier version, whose status has no mode, the mode is Enforce.
func TestTheModeInForceOutlivesThePolicy(t *testing.T) {
	observing := newPolicyOfMode(v1alpha1.ModeObserve, v1alpha1.ModeObserve)
	observing.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training"}}
	kept := check.Value(DecodeKept(check.Value(EncodeKept(observing))(t)))(t)
	invalid := check.Value(DecodeKept(check.Value(EncodeKept(newPolicyOfMode(v1alpha1.ModeObserve, v1alpha1.ModeObserve)))(t)))(t)
	earlier := newPolicyOfMode(v1alpha1.ModeObserve, "")
	earlier.Status.ServiceTypes = observing.Status.ServiceTypes

	for t, tc := range check.Cases(t, map[string]struct {
		read, last *v1alpha1.ServiceTypePolicy
		want       v1alpha1.Mode
	}{
		"no policy, and never one":                                           {want: v1alpha1.ModeEnforce},
		"a policy of an earlier version":                                     {read: newPolicyOfMode("", ""), want: v1alpha1.ModeEnforce},
		"a new policy with Observe, undecided":                               {read: newPolicyOfMode(v1alpha1.ModeObserve, ""), want: ""},
		"deleted while it observes":                                          {last: observing, want: v1alpha1.ModeObserve},
		"deleted while it observes, and restart":                             {last: kept, want: v1alpha1.ModeObserve},
		"deleted while it observes with an invalid spec, and restart":        {last: invalid, want: v1alpha1.ModeObserve},
		"put into force by an earlier version, and changed to Observe since": {read: earlier, want: v1alpha1.ModeEnforce},
		"created again with Enforce, undecided":                              {read: newPolicyOfMode(v1alpha1.ModeEnforce, ""), last: kept, want: v1alpha1.ModeObserve},
		"created again with Enforce, decided":                                {read: newPolicyOfMode(v1alpha1.ModeEnforce, v1alpha1.ModeEnforce), last: kept, want: v1alpha1.ModeEnforce},
	}) {
		check.Equal(t, "mode in force", tc.want, Mode(InForce(tc.read, tc.last)))
	}
}

// TestReadyInModeObserveSaysWhatIsLeftToRestore: a policy that observes is Ready when nothing is left of enforcement.
// Before, Ready names the CardQuotas whose Queues are not restored, then the admission policies. While Observe is not
// in force because the scheduler may run, Ready says that.
func TestReadyInModeObserveSaysWhatIsLeftToRestore(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		mode      v1alpha1.Mode
		restoring Restoring
		want      string
		says      string
	}{
		"nothing is left": {v1alpha1.ModeObserve, Restoring{}, "True/Observing", "nothing is left to restore"},
		"Queues of CardQuotas are left, and admission policies": {v1alpha1.ModeObserve, Restoring{Quotas: []string{"chat", "lab"}, Admission: true},
			"False/Restoring", "what is missing of CardQuota chat, lab"},
		"admission policies are left": {v1alpha1.ModeObserve, Restoring{Admission: true}, "False/Restoring", "ValidatingAdmissionPolicies"},
		"the scheduler may run":       {v1alpha1.ModeEnforce, Restoring{}, "False/SchedulerRuns", "scale it to zero"},
	}) {
		input := newStatusInput(func(input *StatusInput) {
			input.Policy.Spec.Mode = v1alpha1.ModeObserve
			input.Mode = tc.mode
			input.Restoring = tc.restoring
			input.Sync = NotConfiguredByMode()
			input.Enforced = Enforcement{Condition: ObservingCondition("", true, nil)}
		})

		got := StatusFor(input)
		check.Contains(t, "condition Ready", formatCondition(got, v1alpha1.ConditionReady), tc.want, tc.says)
		check.Equal(t, "mode in the status", tc.mode, got.Mode)
	}
}

// TestTheStatusOfThePolicyHasACopyOfTheForecast: the answer of the API server overwrites the status that was written, and
// other goroutines read the forecast of the last count.
func TestTheStatusOfThePolicyHasACopyOfTheForecast(t *testing.T) {
	foretold := &v1alpha1.PolicyForecast{AmbiguousNamespacesTotal: 1}
	status := StatusFor(newStatusInput(func(input *StatusInput) { input.Forecast = foretold }))
	check.Equal(t, "forecast", foretold, status.Forecast)
	status.Forecast.AmbiguousNamespacesTotal = 7
	check.Equal(t, "what the count found", int32(1), foretold.AmbiguousNamespacesTotal)
}
