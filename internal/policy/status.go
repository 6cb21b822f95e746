package policy

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// StatusInput is everything that a status is computed from.
type StatusInput struct {
	// Policy is the ServiceTypePolicy with its previous status.
	Policy *v1alpha1.ServiceTypePolicy
	// Effective is the effective spec, nil when the spec is invalid: then the previous service
	// types stay.
	Effective *v1alpha1.ServiceTypePolicySpec
	// Sync is condition ConfigSynced. Hash is that of the text that the operator wrote into the
	// scheduler's ConfigMap, "" when there is none.
	Sync metav1.Condition
	Hash string
	// Enforced is whether the scheduler enforces that text.
	Enforced Enforcement
	// Guard is condition BypassGuarded. If it is nil or that of another object, the condition
	// stays.
	Guard *Guard
	// Quotas is the number of CardQuotas by service type.
	Quotas map[string]int32
	// Now is the transition time of conditions that change.
	Now time.Time
}

// StatusFor returns the status for its input.
func StatusFor(f StatusInput) v1alpha1.ServiceTypePolicyStatus {
	status := *f.Policy.Status.DeepCopy()
	status.ObservedGeneration = f.Policy.Generation
	if f.Effective != nil {
		status.ServiceTypes = serviceTypeStatuses(f.Effective.ServiceTypes)
		status.Reclaim = f.Effective.Reclaim
	}
	for i := range status.ServiceTypes {
		row := &status.ServiceTypes[i]
		row.ReclaimPolicy = cmp.Or(row.ReclaimPolicy, v1alpha1.ReclaimNever) // an earlier version wrote none
		row.CardQuotas = f.Quotas[row.Name]
	}
	if f.Hash != "" {
		status.ConfigHash = f.Hash
	}
	if status.Scheduler = f.Enforced.Scheduler.DeepCopy(); status.Scheduler != nil {
		s := status.Scheduler
		s.Identity, s.Version, s.ConfigHash = conditions.Truncate(s.Identity, 253), conditions.Truncate(s.Version, 253), conditions.Truncate(s.ConfigHash, 64)
	}
	set := func(kind string, v metav1.Condition, generation int64) {
		conditions.Set(&status.Conditions, kind, v, generation, f.Now)
	}
	set(v1alpha1.ConditionConfigSynced, f.Sync, f.Policy.Generation)
	set(v1alpha1.ConditionEnforced, f.Enforced.Condition, f.Policy.Generation)
	set(v1alpha1.ConditionReady, readyCondition(f), f.Policy.Generation)
	if f.Guard != nil && f.Guard.UID == f.Policy.UID {
		set(v1alpha1.ConditionBypassGuarded, f.Guard.Condition, f.Guard.Generation)
	}
	conditions.SetFieldsKnown(&status.Conditions, f.Policy, f.Policy.Spec, f.Now)
	return status
}

func serviceTypeStatuses(types []v1alpha1.ServiceType) []v1alpha1.ServiceTypeStatus {
	out := make([]v1alpha1.ServiceTypeStatus, len(types))
	for i, t := range types {
		out[i] = v1alpha1.ServiceTypeStatus{
			Name: t.Name, Priority: t.Priority, ReclaimPolicy: t.ReclaimPolicy, ReclaimFrom: t.ReclaimFrom, MinimumRuntimeSeconds: t.MinimumRuntimeSeconds,
		}
	}
	return out
}

// readyCondition is True when the configuration is written and the scheduler enforces it.
func readyCondition(f StatusInput) metav1.Condition {
	switch {
	case f.Sync.Status != metav1.ConditionTrue:
		return f.Sync
	case f.Enforced.Status != metav1.ConditionTrue:
		return f.Enforced.Condition
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
	{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonReady, Kind: corev1.EventTypeNormal, Event: v1alpha1.ReasonReady},
})
