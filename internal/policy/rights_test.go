package policy

import (
	"strings"
	"testing"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
)

// The commands that messages name for an operator in namespace cards.
const (
	bind   = "kubectl create clusterrolebinding cardquota-manager-enforce --clusterrole=cardquota-manager-enforce --serviceaccount=cards:cardquota-manager"
	unbind = "kubectl delete clusterrolebinding cardquota-manager-enforce"
)

var (
	allRights = Rights{Namespace: "cards"}
	noRights  = Rights{Namespace: "cards", Missing: EnforcePermissions()}
	observing = ObservingCondition("", true, nil)
)

// TestWithoutRightsNothingIsEnforcedByHalf: the policy wants Enforce, and the operator lacks rights. A policy that never had
// a mode in force observes, and one that observed stays so. What was enforced stays enforced: by this policy, by one of an
// earlier version, or by Queues that the operator wrote before there was a policy.
func TestWithoutRightsNothingIsEnforcedByHalf(t *testing.T) {
	earlier := newPolicyOfMode("", "")
	earlier.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training"}}

	for t, tc := range check.Cases(t, map[string]struct {
		policy     *v1alpha1.ServiceTypePolicy
		hasWritten bool
		want       v1alpha1.Mode
	}{
		"a new policy":                                       {newPolicyOfMode(v1alpha1.ModeEnforce, ""), false, v1alpha1.ModeObserve},
		"a new policy, and Queues were written":              {newPolicyOfMode(v1alpha1.ModeEnforce, ""), true, v1alpha1.ModeEnforce},
		"it observed":                                        {newPolicyOfMode(v1alpha1.ModeEnforce, v1alpha1.ModeObserve), false, v1alpha1.ModeObserve},
		"it observed, and not all Queues are restored":       {newPolicyOfMode(v1alpha1.ModeEnforce, v1alpha1.ModeObserve), true, v1alpha1.ModeObserve},
		"it enforced":                                        {newPolicyOfMode(v1alpha1.ModeEnforce, v1alpha1.ModeEnforce), true, v1alpha1.ModeEnforce},
		"it enforced, and no Queue was written":              {newPolicyOfMode(v1alpha1.ModeEnforce, v1alpha1.ModeEnforce), false, v1alpha1.ModeEnforce},
		"it enforced under a version that wrote no mode yet": {earlier, false, v1alpha1.ModeEnforce},
	}) {
		check.Equal(t, "mode in force", tc.want, ModeWithoutRights(tc.policy, tc.hasWritten))
	}
}

// TestConditionsNameMissingRightsAndTheCommand: Ready of a policy says what missing rights mean, names the first three
// permissions, and ends with the command that helps. While Enforce is wanted that comes before everything else. On the way
// back to Observe, Ready says that the rights are needed, and when everything is restored that they are not.
func TestConditionsNameMissingRightsAndTheCommand(t *testing.T) {
	const named = "the operator may not create queues.scheduling.volcano.sh, patch queues.scheduling.volcano.sh, delete queues.scheduling.volcano.sh and 15 more. " +
		"Bind ClusterRole cardquota-manager-enforce: " + bind
	left := Restoring{Quotas: []string{"lab"}}

	for t, tc := range check.Cases(t, map[string]struct {
		wanted, inForce v1alpha1.Mode
		rights          Rights
		restoring       Restoring
		want, ends      string
	}{
		"Enforce is wanted, and Observe in force": {"", v1alpha1.ModeObserve, noRights, left, "False/RightsMissing: mode Enforce is not in force, and the operator observes", named},
		"Enforce is in force":                     {v1alpha1.ModeEnforce, v1alpha1.ModeEnforce, noRights, Restoring{}, "False/RightsMissing: what was written stays enforced", named},
		"a Queue is left to restore":              {v1alpha1.ModeObserve, v1alpha1.ModeObserve, noRights, left, "False/Restoring", "CardQuota lab. It cannot go on: " + named},
		"a Queue is left, and rights are there":   {v1alpha1.ModeObserve, v1alpha1.ModeObserve, allRights, left, "False/Restoring", "CardQuota lab"},
		"everything is restored":                  {v1alpha1.ModeObserve, v1alpha1.ModeObserve, allRights, Restoring{}, "True/Observing", "not needed any more: " + unbind},
		"everything is restored, without rights":  {v1alpha1.ModeObserve, v1alpha1.ModeObserve, noRights, Restoring{}, "True/Observing", "configuration and admission"},
		"the operator did not ask":                {v1alpha1.ModeObserve, v1alpha1.ModeObserve, Rights{}, Restoring{}, "True/Observing", "configuration and admission"},
	}) {
		status := StatusFor(newStatusInput(func(input *StatusInput) {
			input.Policy.Spec.Mode = tc.wanted
			input.Mode = tc.inForce
			input.Rights = tc.rights
			input.Restoring = tc.restoring
			input.Sync = NotConfiguredByMode()
			input.Enforced = Enforcement{Condition: UnenforcedCondition(tc.wanted, tc.rights, observing)}
		}))
		ready := formatCondition(status, v1alpha1.ConditionReady)
		check.That(t, strings.HasPrefix(ready, tc.want) && strings.HasSuffix(ready, tc.ends), "condition Ready is %q, want %q … %q", ready, tc.want, tc.ends)
	}
}

// TestEnforcedSaysThatRightsAreMissing: in mode Observe, condition Enforced of a policy that wants Enforce says that rights are
// missing. That of a policy that wants to observe says so, whatever the rights.
func TestEnforcedSaysThatRightsAreMissing(t *testing.T) {
	missing := UnenforcedCondition(v1alpha1.ModeEnforce, noRights, observing)
	check.Equal(t, "Enforced, if Enforce is wanted", "False/RightsMissing", string(missing.Status)+"/"+missing.Reason)
	check.Equal(t, "reason, if Observe is wanted", v1alpha1.ReasonObserving, UnenforcedCondition(v1alpha1.ModeObserve, noRights, observing).Reason)
	check.Equal(t, "reason, with all rights", v1alpha1.ReasonObserving, UnenforcedCondition(v1alpha1.ModeEnforce, allRights, observing).Reason)
}

// TestARefusalConcernsItsResource: only a missing permission for the refused resource explains a refusal.
func TestARefusalConcernsItsResource(t *testing.T) {
	rights := Rights{Missing: []Permission{{Verb: "delete", Group: "scheduling.volcano.sh", Resource: "queues"}}}
	check.That(t, rights.LacksAny("scheduling.volcano.sh", "queues"), "queues")
	check.That(t, !rights.LacksAny("scheduling.volcano.sh", "podgroups"), "another resource")
	check.That(t, !rights.LacksAny("cardquota.dev", "queues"), "another group")
}
