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
func (r *reconciliation) updateStatus(ctx context.Context, out configResult) (ctrl.Result, error) {
	input := policy.StatusInput{Policy: r.policy, Sync: out.Condition, Hash: out.hash, Now: r.now}
	if out.Status == metav1.ConditionTrue && r.policy.DeletionTimestamp == nil {
		input.Effective = &r.spec
	}

	var err error
	input.Quotas, err = r.quotasByServiceType(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}

	input.Enforced, err = r.evaluateEnforcement(ctx, out)
	if err != nil {
		return ctrl.Result{}, err
	}

	if r.guard != nil {
		input.Guard = r.guard.Latest()
	}

	synced := 0.0
	if out.Status == metav1.ConditionTrue {
		synced = 1
	}

	r.synced.WithLabelValues(r.policy.Name).Set(synced)
	var result ctrl.Result
	if until := input.Enforced.Until; !until.IsZero() {
		result.RequeueAfter = max(until.Sub(r.now), time.Millisecond)
	}

	before := r.policy.DeepCopy()
	status := policy.StatusFor(input)
	if equality.Semantic.DeepEqual(before.Status, status) {
		return result, nil
	}
	if r.statusDelay > 0 {
		return shared.RequeueWithin(result, r.statusDelay), nil
	}

	r.policy.Status = status
	// This is the only writer of the status, so it needs no optimistic lock.
	// observedGeneration names the generation of the spec that the status describes.
	if err := r.client.Status().Patch(ctx, r.policy, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write status: %w", err)
	}

	r.throttle.RecordWrite(r.policy.Name, r.policy.ResourceVersion)
	for _, event := range policy.Events(before.Status, r.policy.Status) {
		r.events.Event(r.policy, event.Type, event.Reason, event.Message)
	}

	return result, nil
}

// evaluateEnforcement evaluates enforcement of the configuration in force. A refused spec
// or base does not change the enforcement of the previous configuration while that is in
// place.
func (r *reconciliation) evaluateEnforcement(ctx context.Context, out configResult) (policy.Enforcement, error) {
	if r.evidence == nil {
		return policy.UnknownEnforcement(), nil
	}
	if out.hash != "" {
		return r.evidence.evaluateEnforcement(ctx, r.policy, out.hash, "", r.now)
	}
	return r.evidence.evaluateEnforcement(ctx, r.policy, r.policy.Status.ConfigHash, out.Message, r.now)
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
