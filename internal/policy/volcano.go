package policy

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// ModeWithoutVolcano returns the mode in force from now on while Enforce is wanted and the API server lacks kinds of
// Volcano. There is nothing to enforce, so a policy that never enforced observes. What was enforced before comes back with
// the kinds.
func ModeWithoutVolcano(inForce *v1alpha1.ServiceTypePolicy) v1alpha1.Mode {
	isNew := inForce.Status.Mode == "" && !HasTakenEffect(inForce)
	if isNew || inForce.Status.Mode == v1alpha1.ModeObserve {
		return v1alpha1.ModeObserve
	}
	return v1alpha1.ModeEnforce
}

// VolcanoMissingCondition returns the condition of a policy or a CardQuota that is to be enforced while the API server lacks
// kinds of Volcano. It is Ready and Enforced of a policy, and QueueSynced and Enforced of a CardQuota.
func VolcanoMissingCondition(missingKinds []string) metav1.Condition {
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonVolcanoMissing,
		"the API server does not have these kinds of Volcano: %s (scheduling.volcano.sh/v1beta1), so no quota is enforced: "+
			"install Volcano, or set mode: Observe in the ServiceTypePolicy. The operator goes on by itself within 10 seconds",
		strings.Join(missingKinds, ", "))
}
