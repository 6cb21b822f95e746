package servicetypepolicy

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/policy"
)

// decideMode returns the mode in force from now on, "" if it cannot be decided yet.
func (r *Reconciler) decideMode(ctx context.Context, inForce *v1alpha1.ServiceTypePolicy) (v1alpha1.Mode, error) {
	if inForce.Spec.Mode != v1alpha1.ModeObserve || r.evidence == nil {
		return policy.NextMode(inForce, false), nil
	}
	mayRun, err := r.evidence.schedulerMayRun(ctx, r.now())
	return policy.NextMode(inForce, mayRun), err
}

// observe returns condition ConfigSynced while Enforce is not in force. In mode Observe it takes back what the operator
// wrote for the scheduler.
func (r *reconciliation) observe(ctx context.Context, live *corev1.ConfigMap) (metav1.Condition, error) {
	if r.mode == v1alpha1.ModeObserve {
		if err := r.deleteConfigMap(ctx, live); err != nil {
			return metav1.Condition{}, err
		}
	}
	if len(r.faults) > 0 {
		return policy.InvalidCondition(r.faults), nil
	}
	return policy.NotConfiguredByMode(), nil
}

// deleteConfigMap deletes the scheduler's ConfigMap if the operator wrote it. PriorityClasses stay: pods name them, and
// the API server refuses pods that name one that does not exist.
func (r *reconciliation) deleteConfigMap(ctx context.Context, live *corev1.ConfigMap) error {
	if live == nil || live.Labels[v1alpha1.LabelManagedBy] != v1alpha1.FieldManager {
		return nil
	}
	err := r.client.Delete(ctx, live, client.Preconditions{UID: ptr.To(live.UID)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ConfigMap %s/%s: %w", live.Namespace, live.Name, err)
	}
	logf.FromContext(ctx).Info("scheduler configuration deleted, because spec.mode is Observe")
	return nil
}

// findRestoring returns what is left to restore in mode Observe.
func (r *reconciliation) findRestoring(ctx context.Context) (policy.Restoring, error) {
	var list v1alpha1.CardQuotaList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return policy.Restoring{}, fmt.Errorf("list CardQuotas: %w", err)
	}

	var restoring policy.Restoring
	for i := range list.Items {
		if controllerutil.ContainsFinalizer(&list.Items[i], cardquota.Finalizer) { // removed when the Queue is restored
			restoring.Quotas = append(restoring.Quotas, list.Items[i].Name)
		}
	}
	slices.Sort(restoring.Quotas)

	if r.guard != nil {
		found := r.guard.Latest()
		restoring.Admission = found == nil || found.Reason != v1alpha1.ReasonObserving
	}
	return restoring, nil
}
