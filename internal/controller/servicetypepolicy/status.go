package servicetypepolicy

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/policy"
)

// updateStatus writes the status if it changed and no delay is left. It emits the events of
// the change afterwards, so that no event reports what was not stored.
func (p *reconciliation) updateStatus(ctx context.Context, out configResult) (ctrl.Result, error) {
	input := policy.StatusInput{Policy: p.policy, Sync: out.Condition, Hash: out.hash, Now: p.now}
	if out.Status == metav1.ConditionTrue && p.policy.DeletionTimestamp == nil {
		input.Effective = &p.spec
	}
	var err error
	if input.Quotas, err = p.quotasByServiceType(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if input.Enforced, err = p.evaluateEnforcement(ctx, out); err != nil {
		return ctrl.Result{}, err
	}
	if p.guard != nil {
		input.Guard = p.guard.Latest()
	}
	synced := 0.0
	if out.Status == metav1.ConditionTrue {
		synced = 1
	}
	p.synced.WithLabelValues(p.policy.Name).Set(synced)
	var result ctrl.Result
	if until := input.Enforced.Until; !until.IsZero() {
		result.RequeueAfter = max(until.Sub(p.now), time.Millisecond)
	}
	before := p.policy.DeepCopy()
	status := policy.StatusFor(input)
	if equality.Semantic.DeepEqual(before.Status, status) {
		return result, nil
	}
	if p.statusDelay > 0 {
		return shared.RequeueWithin(result, p.statusDelay), nil
	}
	p.policy.Status = status
	// This is the only writer of the status, so it needs no optimistic lock.
	// observedGeneration names the generation of the spec that the status describes.
	if err := p.client.Status().Patch(ctx, p.policy, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write status: %w", err)
	}
	p.throttle.RecordWrite(p.policy.Name, p.policy.ResourceVersion)
	for _, event := range policy.Events(before.Status, p.policy.Status) {
		p.events.Event(p.policy, event.Type, event.Reason, event.Message)
	}
	return result, nil
}

// evaluateEnforcement evaluates enforcement of the configuration in force. A refused spec
// or base does not change the enforcement of the previous configuration while that is in
// place.
func (p *reconciliation) evaluateEnforcement(ctx context.Context, out configResult) (policy.Enforcement, error) {
	if p.evidence == nil {
		return policy.UnknownEnforcement(), nil
	}
	if out.hash != "" {
		return p.evidence.evaluateEnforcement(ctx, p.policy, out.hash, "", p.now)
	}
	return p.evidence.evaluateEnforcement(ctx, p.policy, p.policy.Status.ConfigHash, out.Message, p.now)
}

// quotasByServiceType counts the CardQuotas of each service type.
func (p *reconciliation) quotasByServiceType(ctx context.Context) (map[string]int32, error) {
	var list v1alpha1.CardQuotaList
	if err := p.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CardQuotas: %w", err)
	}
	counts := map[string]int32{}
	for i := range list.Items {
		counts[list.Items[i].Spec.ServiceType]++
	}
	return counts, nil
}
