package servicetypepolicy

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/forecast"
	"cardquota.dev/operator/internal/policy"
)

// updateStatus writes the status if it changed, or requeues if the last write was less than
// shared.StatusInterval ago. out is the result of writing the configuration. It requeues for the next look at
// enforcement, too.
func (r *reconciliation) updateStatus(ctx context.Context, out configResult) (ctrl.Result, error) {
	input, err := r.statusInput(ctx, out)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.synced.WithLabelValues(r.policy.Name).Set(shared.BoolGauge(out.Status == metav1.ConditionTrue))

	// A scheduler that ends writes nothing, so no watch reports a heartbeat that is too old.
	var result ctrl.Result
	if until := input.Enforced.Until; !until.IsZero() {
		result.RequeueAfter = max(until.Sub(r.now), time.Millisecond) // 0 would be never
	}

	writer := shared.StatusWriter[v1alpha1.ServiceTypePolicyStatus]{
		Client: r.client, Throttle: r.throttle, Object: r.policy, Status: &r.policy.Status, Delay: r.statusDelay, Events: policy.Events, Recorder: r.events,
	}

	_, wait, err := writer.Write(ctx, policy.StatusFor(input))
	if err != nil {
		return ctrl.Result{}, err
	}

	return shared.RequeueWithin(result, wait), nil
}

// statusInput returns everything from which the status is computed. out is the result of writing the configuration.
func (r *reconciliation) statusInput(ctx context.Context, out configResult) (policy.StatusInput, error) {
	input := policy.StatusInput{Policy: r.policy, Mode: r.mode, MissingKinds: r.missingKinds, Rights: r.granted, Sync: out.Condition, Hash: out.hash, Now: r.now}

	// The status says what is in force. A policy that could not be written is not.
	if out.Status == metav1.ConditionTrue && r.policy.DeletionTimestamp == nil && r.mode != "" {
		input.Effective = &r.spec
	}

	// Without a configuration quotas would be enforced by half, so Observe stays until there is one.
	if r.lastMode == v1alpha1.ModeObserve && r.mode == v1alpha1.ModeEnforce && out.Status != metav1.ConditionTrue {
		input.Mode = v1alpha1.ModeObserve
	}

	var err error
	input.Quotas, err = r.quotasByServiceType(ctx)
	if err != nil {
		return input, err
	}

	input.Enforced, err = r.evaluateEnforcement(ctx, out)
	if err != nil {
		return input, err
	}

	if r.mode == v1alpha1.ModeObserve {
		r.restoring, err = r.findRestoring(ctx)
		input.Restoring = r.restoring
		if r.evidence != nil {
			input.Forecast, _ = r.readForecast()
		}
	}
	if r.guard != nil {
		input.Guard = r.guard.Latest()
	}

	return input, err
}

// evaluateEnforcement evaluates enforcement of the configuration in force. A refused spec
// or base does not change the enforcement of the previous configuration while that is in
// place. Without a hash it is not, and condition ConfigSynced says why.
func (r *reconciliation) evaluateEnforcement(ctx context.Context, out configResult) (policy.Enforcement, error) {
	if r.evidence == nil {
		return policy.UnknownEnforcement(), nil
	}
	if r.lacksVolcano(r.policy) {
		missing := policy.VolcanoMissingCondition(r.missingKinds)
		r.evidence.updateMetric(missing)
		return policy.Enforcement{Condition: missing}, nil
	}

	if r.mode != v1alpha1.ModeEnforce {
		return r.observedEnforcement(), nil
	}
	if out.hash != "" {
		return r.evidence.evaluateEnforcement(ctx, r.policy, out.hash, "", r.now)
	}
	return r.evidence.evaluateEnforcement(ctx, r.policy, r.policy.Status.ConfigHash, out.Message, r.now)
}

// readForecast returns what no CardQuota decides about. Before a count knows it, that is what the status says: another run
// of the operator wrote it.
func (r *reconciliation) readForecast() (found *v1alpha1.PolicyForecast, isKnown bool) {
	found, isKnown = r.evidence.bypasses.PolicyForecast()
	if !isKnown {
		found = r.policy.Status.Forecast
	}
	return found, isKnown
}

// observedEnforcement returns condition Enforced while Enforce is not in force. If another mode is wanted, no watch says
// when it can come into force.
func (r *reconciliation) observedEnforcement() policy.Enforcement {
	out := policy.UnknownEnforcement()
	if r.mode == v1alpha1.ModeObserve {
		found, isKnown := r.readForecast()
		observing := policy.ObservingCondition(forecast.PolicySummary(found), isKnown, r.policy.Status.Conditions)
		out.Condition = policy.UnenforcedCondition(r.spec.Mode, r.granted, observing)
	}
	if r.mode != r.spec.Mode {
		out.Until = r.now.Add(leaderPollInterval)
	}
	r.evidence.updateMetric(out.Condition)
	return out
}

// quotasByServiceType counts the CardQuotas of each service type.
func (r *reconciliation) quotasByServiceType(ctx context.Context) (map[string]int32, error) {
	var list v1alpha1.CardQuotaList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CardQuotas: %w", err)
	}
	counts := map[string]int32{}
	for i := range list.Items {
		counts[list.Items[i].Spec.ServiceType]++
	}
	return counts, nil
}
