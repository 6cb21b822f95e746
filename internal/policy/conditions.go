package policy

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// Enforcement is whether quotas are proven to be enforced.
type Enforcement struct {
	metav1.Condition
	// Scheduler is the last report of the scheduler, nil when there is none.
	Scheduler *v1alpha1.SchedulerStatus
	// Until is when the operator must evaluate it again without a change, zero for never.
	Until time.Time
}

// Guard is condition BypassGuarded for one generation of one ServiceTypePolicy.
type Guard struct {
	metav1.Condition
	UID        types.UID
	Generation int64
}

// UnknownEnforcement is the condition before enforcement was evaluated.
func UnknownEnforcement() Enforcement {
	return Enforcement{Condition: metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNotConfigured, Message: "enforcement has not been evaluated yet"}}
}

// InvalidCondition returns the condition for an invalid spec.
func InvalidCondition(faults field.ErrorList) metav1.Condition {
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonInvalidPolicy,
		"this spec is not applied, and the previous configuration stays in force: %s", faults.ToAggregate())
}

// RefusedCondition returns the condition for a ConfigMap that the operator could not read or
// write. final reports whether a retry would fail again. Otherwise whether it was written is unknown.
func RefusedCondition(err error, final bool) metav1.Condition {
	status := metav1.ConditionUnknown
	if final {
		status = metav1.ConditionFalse
	}
	return conditions.New(status, v1alpha1.ReasonConfigRefused,
		"%s: as shipped, cardquota-manager may read volcano-scheduler-configmap, and write %s in its own namespace: grant another base or namespace as well; an immutable ConfigMap must be deleted",
		onOneLine(err), ConfigMapName)
}

// readyCondition is True when the configuration is written and the scheduler enforces it, and in mode Observe when
// nothing is left to restore.
func readyCondition(input StatusInput) metav1.Condition {
	wantsObserve := input.Policy.Spec.Mode == v1alpha1.ModeObserve

	switch {
	case wantsObserve && input.Mode != v1alpha1.ModeObserve:
		return SchedulerRunsCondition()
	case !wantsObserve && len(input.MissingKinds) > 0:
		return VolcanoMissingCondition(input.MissingKinds)
	case !wantsObserve && input.Rights.AreMissing():
		return input.Rights.modeCondition(input.Mode)
	case input.Sync.Status != metav1.ConditionTrue:
		return input.Sync
	case input.Mode == v1alpha1.ModeObserve:
		return input.Rights.addTo(input.Restoring.readyCondition())
	case input.Enforced.Status != metav1.ConditionTrue:
		return input.Enforced.Condition
	default:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "the policy is in the scheduler's configuration and in force"}
	}
}

// Events returns the events for the change from one status to the next.
func Events(before, after v1alpha1.ServiceTypePolicyStatus) []conditions.Event {
	return conditions.Events(before.Conditions, after.Conditions, eventRules)
}

var eventRules = slices.Concat([]conditions.Rule{
	{Type: v1alpha1.ConditionConfigSynced, Status: metav1.ConditionFalse, Kind: corev1.EventTypeWarning},
	{Type: v1alpha1.ConditionConfigSynced, Reason: v1alpha1.ReasonSynced, Kind: corev1.EventTypeNormal, Event: v1alpha1.EventConfigSynced},
}, conditions.CommonRules, []conditions.Rule{
	{Type: v1alpha1.ConditionBypassGuarded, Reason: v1alpha1.ReasonGuardRefused, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonGuardRefused},
	{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonRightsMissing, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonRightsMissing},
	{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonReady, Kind: corev1.EventTypeNormal, Event: v1alpha1.ReasonReady},
	{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonObserving, Kind: corev1.EventTypeNormal, Event: v1alpha1.ReasonObserving},
})
