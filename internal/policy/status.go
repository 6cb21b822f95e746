package policy

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// StatusInput is everything that a status is computed from.
type StatusInput struct {
	// Policy is the ServiceTypePolicy with its previous status.
	Policy *v1alpha1.ServiceTypePolicy
	// Effective is the effective spec, nil when the spec is invalid: then the previous service
	// types stay.
	Effective *v1alpha1.ServiceTypePolicySpec
	// Mode is the mode in force, "" while it is undecided. Restoring is what is left to restore in mode Observe.
	Mode      v1alpha1.Mode
	Restoring Restoring
	// MissingKinds are the kinds of Volcano that the API server lacks.
	MissingKinds []string
	// Rights are the rights to enforce that the operator has.
	Rights Rights
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
	// Forecast is what no CardQuota decides about in mode Observe, nil for nothing.
	Forecast *v1alpha1.PolicyForecast
	// Now is the transition time of conditions that change.
	Now time.Time
}

// StatusFor returns the next status of the policy: what is in force of it, the last report of the scheduler, and the
// conditions. What the input does not have (a nil Effective or Guard, no Hash) stays as it was.
func StatusFor(input StatusInput) v1alpha1.ServiceTypePolicyStatus {
	status := *input.Policy.Status.DeepCopy()
	status.ObservedGeneration = input.Policy.Generation
	status.Mode = input.Mode
	status.Forecast = input.Forecast.DeepCopy() // the answer of the API server overwrites the status, and others read the input

	// An invalid policy changes nothing, so the status goes on showing what is in force.
	if input.Effective != nil {
		status.ServiceTypes = serviceTypeStatuses(input.Effective.ServiceTypes)
		status.Reclaim = input.Effective.Reclaim
		status.ReclaimResources = input.Effective.ReclaimResources
		status.QueueHierarchy = input.Effective.QueueHierarchy
		status.Cards = input.Effective.Cards
	}

	for i := range status.ServiceTypes {
		row := &status.ServiceTypes[i]
		row.ReclaimPolicy = cmp.Or(row.ReclaimPolicy, v1alpha1.ReclaimNever) // an earlier version wrote none
		row.CardQuotas = input.Quotas[row.Name]
	}

	if input.Hash != "" {
		status.ConfigHash = input.Hash
	}

	// A Lease can have longer texts than the status, whose schema has these bounds. The API server would
	// refuse the whole status for one that is too long.
	status.Scheduler = input.Enforced.Scheduler.DeepCopy()
	if status.Scheduler != nil {
		s := status.Scheduler
		s.Identity = conditions.Truncate(s.Identity, 253)
		s.Version = conditions.Truncate(s.Version, 253)
		s.ConfigHash = conditions.Truncate(s.ConfigHash, 64)
	}

	set := func(kind string, v metav1.Condition, generation int64) {
		conditions.Set(&status.Conditions, kind, v, generation, input.Now)
	}

	set(v1alpha1.ConditionConfigSynced, input.Sync, input.Policy.Generation)
	set(v1alpha1.ConditionEnforced, input.Enforced.Condition, input.Policy.Generation)
	set(v1alpha1.ConditionReady, readyCondition(input), input.Policy.Generation)

	// The guard runs in another controller. What it said about an earlier policy is not about
	// this one.
	if input.Guard != nil && input.Guard.UID == input.Policy.UID {
		set(v1alpha1.ConditionBypassGuarded, input.Guard.Condition, input.Guard.Generation)
	}

	conditions.SetFieldsKnown(&status.Conditions, input.Policy, input.Policy.Spec, input.Now)
	return status
}

// serviceTypeStatuses returns the service types as the status shows them, without numbers of CardQuotas.
func serviceTypeStatuses(types []v1alpha1.ServiceType) []v1alpha1.ServiceTypeStatus {
	out := make([]v1alpha1.ServiceTypeStatus, len(types))
	for i, t := range types {
		out[i] = v1alpha1.ServiceTypeStatus{
			Name: t.Name, Priority: t.Priority, ReclaimPolicy: t.ReclaimPolicy, ReclaimFrom: t.ReclaimFrom, MinimumRuntimeSeconds: t.MinimumRuntimeSeconds,
		}
	}
	return out
}
