package enforced

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
)

// Policy judges for the status of the ServiceTypePolicy, in the moment in which
// that status is made: its hash may be newer than the one that was heard of, so
// that no status ever claims a configuration to be enforced that was just
// written. While nothing can be said the status stays as it was. Changes of the
// verdict are told by WakePolicy.
func (w *Watch) Policy(_ context.Context, p *v1alpha1.ServiceTypePolicy, hash, notConfigured string, now time.Time) (policy.Enforcement, error) {
	w.mu.RLock()
	facts, ready := w.heard.facts(now)
	w.mu.RUnlock()
	if !ready || !facts.Policy {
		return asBefore(p), nil
	}
	if facts.NotConfigured = notConfigured; facts.WantedHash != hash {
		facts.WantedHash, facts.WantedSince = hash, now
	}
	return policy.Enforcement{Verdict: asVerdict(enforcement.Judge(facts)), Scheduler: schedulerOf(facts.Heartbeat)}, nil
}

func asVerdict(v enforcement.Verdict) policy.Verdict {
	return policy.Verdict{Status: v.Status, Reason: v.Reason, Message: v.Message}
}

// asBefore repeats what the status says.
func asBefore(p *v1alpha1.ServiceTypePolicy) policy.Enforcement {
	before := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionEnforced)
	if before == nil {
		return policy.Unproven()
	}
	return policy.Enforcement{
		Verdict:   policy.Verdict{Status: before.Status, Reason: before.Reason, Message: before.Message},
		Scheduler: p.Status.Scheduler,
	}
}
