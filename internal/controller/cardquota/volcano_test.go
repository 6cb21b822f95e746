package cardquota

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestVolcanoIsMissedWhereEnforceIsWanted: kind Queue is missing. A CardQuota says so without a policy, and with one that
// wants Enforce, whatever is in force. With one that observes, and with a deleted one that observed, it does not matter.
// No CardQuota gets a finalizer.
func TestVolcanoIsMissedWhereEnforceIsWanted(t *testing.T) {
	newPolicyOf := func(wanted, inForce v1alpha1.Mode) *v1alpha1.ServiceTypePolicy {
		p := builder.ServiceTypePolicy().Obj()
		p.Spec.Mode = wanted
		p.Status.Mode = inForce
		return p
	}

	for t, tc := range check.Cases(t, map[string]struct {
		policy, deleted *v1alpha1.ServiceTypePolicy
		want            string
	}{
		"no policy":            {want: "False/VolcanoMissing"},
		"a new policy":         {policy: newPolicyOf("", ""), want: "False/VolcanoMissing"},
		"Observe is in force":  {policy: newPolicyOf(v1alpha1.ModeEnforce, v1alpha1.ModeObserve), want: "False/VolcanoMissing"},
		"Enforce is in force":  {policy: newPolicyOf(v1alpha1.ModeEnforce, v1alpha1.ModeEnforce), want: "False/VolcanoMissing"},
		"a policy observes":    {policy: newPolicyOf(v1alpha1.ModeObserve, v1alpha1.ModeObserve), want: "Unknown/Observing"},
		"a policy was deleted": {deleted: newPolicyOf(v1alpha1.ModeEnforce, v1alpha1.ModeObserve), want: "Unknown/Observing"},
	}) {
		r := newFakeReconciler(t, builder.CardQuota("lab").Card("A", 1).Obj())
		r.missingKinds = []string{"Queue"}
		r.inventory = &tracked{last: tc.deleted}
		if tc.policy != nil {
			check.NoError(t, r.client.Create(t.Context(), tc.policy))
		}
		r.reconcileAll(t)

		lab := builder.CardQuota("lab").Obj()
		check.NoError(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(lab), lab))
		synced := conditions.Get(lab.Status.Conditions, v1alpha1.ConditionQueueSynced)
		check.Equal(t, "QueueSynced", tc.want, string(synced.Status)+"/"+synced.Reason)
		check.Equal(t, "finalizers", 0, len(lab.Finalizers))
	}
}
