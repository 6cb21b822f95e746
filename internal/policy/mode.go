package policy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
)

// maxNamedQuotas is how many CardQuotas a message names whose Queues are not restored yet.
const maxNamedQuotas = 10

// Mode returns the mode in force, by what is in force of the policy (see InForce). It is Enforce if no policy was ever
// in force. It is "" for a new policy with Observe of which the operator has not decided yet whether that is in force.
// Meanwhile the operator must not write to Queues, the scheduler's configuration or admission.
func Mode(inForce *v1alpha1.ServiceTypePolicy) v1alpha1.Mode {
	switch {
	case inForce == nil:
		return v1alpha1.ModeEnforce
	case inForce.Status.Mode != "":
		return inForce.Status.Mode
	case inForce.Spec.Mode == v1alpha1.ModeObserve && !HasTakenEffect(inForce):
		return ""
	default: // also a policy that an earlier version has put into force
		return v1alpha1.ModeEnforce
	}
}

// SameMode reports whether two versions of a policy have the same mode in force, and say so alike. A status without a mode
// is not yet decided, even if it means Enforce: a mode that was in force before the policy still counts then.
func SameMode(a, b *v1alpha1.ServiceTypePolicy) bool {
	return Mode(a) == Mode(b) && a.Status.Mode == b.Status.Mode
}

// NextMode returns the mode in force from now on, "" if it cannot be decided yet. inForce has the wanted mode in its
// spec, and the mode so far in its status. schedulerMayRun says that Cardquota's scheduler may still enforce quotas.
// Observe waits for its end: to that scheduler, a Queue without its quota has no cards, so all new pods would wait.
func NextMode(inForce *v1alpha1.ServiceTypePolicy, schedulerMayRun bool) v1alpha1.Mode {
	last := Mode(inForce)
	switch {
	case inForce.Spec.Mode != v1alpha1.ModeObserve:
		return v1alpha1.ModeEnforce
	case schedulerMayRun && last != v1alpha1.ModeObserve:
		return last
	default:
		return v1alpha1.ModeObserve
	}
}

// ModeWithoutRights returns the mode in force from now on while Enforce is wanted and the operator lacks rights to enforce.
// Nothing is enforced by half: Observe stays, and a policy that never had a mode in force observes. What was enforced
// before stays enforced. hasWritten says that the operator has written Queues.
func ModeWithoutRights(inForce *v1alpha1.ServiceTypePolicy, hasWritten bool) v1alpha1.Mode {
	isNew := inForce.Status.Mode == "" && !HasTakenEffect(inForce)
	if Mode(inForce) == v1alpha1.ModeObserve || (isNew && !hasWritten) {
		return v1alpha1.ModeObserve
	}
	return v1alpha1.ModeEnforce
}

// ObservingCondition returns condition Enforced in mode Observe, of a policy or a CardQuota. It says what Enforce would
// change, "" for nothing, and what comes next. Before a count knows what Enforce would change, isKnown is false: then the
// condition of that kind among those of the status, written, stays.
func ObservingCondition(wouldChange string, isKnown bool, written []metav1.Condition) metav1.Condition {
	const message = "no quota is enforced, because mode Observe of the ServiceTypePolicy is in force"

	if !isKnown {
		if before := conditions.Get(written, v1alpha1.ConditionEnforced); before.Reason == v1alpha1.ReasonObserving {
			return conditions.New(before.Status, before.Reason, "%s", before.Message)
		}
		return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonObserving, message+". What Enforce would change is not counted yet: wait for the first count of all pods")
	}

	if wouldChange == "" {
		return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonObserving, message+". Enforce would refuse nothing now: set mode: Enforce, as docs/adopt.md says")
	}
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonObserving,
		message+". Enforce would change: %s. status.forecast names them: change them or the quotas, then set mode: Enforce, as docs/adopt.md says", wouldChange)
}

// UnenforcedCondition returns condition Enforced of a policy in mode Observe. If the policy wants Enforce, the rights say
// why that is not in force. Otherwise it is observing, from ObservingCondition.
func UnenforcedCondition(wanted v1alpha1.Mode, rights Rights, observing metav1.Condition) metav1.Condition {
	if wanted != v1alpha1.ModeObserve && rights.AreMissing() {
		return rights.modeCondition(v1alpha1.ModeObserve)
	}
	return observing
}

// NotConfiguredByMode returns condition ConfigSynced in mode Observe.
func NotConfiguredByMode() metav1.Condition {
	return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonObserving, "in mode Observe the operator writes no configuration for the scheduler")
}

// Restoring is what mode Observe still has to take back of what the operator wrote in mode Enforce.
type Restoring struct {
	// Quotas are the CardQuotas whose Queues are not restored yet, sorted by name.
	Quotas []string
	// Admission reports that admission policies may still exist.
	Admission bool
}

// IsDone reports whether nothing is left to restore.
func (r Restoring) IsDone() bool { return len(r.Quotas) == 0 && !r.Admission }

// readyCondition returns condition Ready in mode Observe: True when everything is restored.
func (r Restoring) readyCondition() metav1.Condition {
	switch {
	case len(r.Quotas) > 0:
		return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonRestoring,
			"Queues get back what they had before Cardquota, and Queues that the operator made are deleted when they are empty. Condition QueueSynced says what is missing of CardQuota %s",
			conditions.JoinFirst(r.Quotas, maxNamedQuotas))
	case r.Admission:
		return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonRestoring, "the operator deletes its ValidatingAdmissionPolicies: condition BypassGuarded says what is missing")
	default:
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonObserving,
			"the operator observes, and nothing is left to restore of what it wrote to Queues, the scheduler's configuration and admission")
	}
}

// SchedulerRunsCondition returns condition Ready while Observe waits for the end of Cardquota's scheduler.
func SchedulerRunsCondition() metav1.Condition {
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonSchedulerRuns,
		"mode Observe is not in force yet, because Cardquota's scheduler may still run: scale it to zero, and start the stock scheduler, as section Back of docs/adopt.md says. "+
			"Observe comes into force 20 seconds after its last report")
}
