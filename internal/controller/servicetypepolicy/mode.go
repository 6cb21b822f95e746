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

// decideMode decides the mode in force from now on, "" if it cannot be decided yet. It also reads the rights on which that
// depends.
func (r *reconciliation) decideMode(ctx context.Context, inForce *v1alpha1.ServiceTypePolicy) (err error) {
	r.granted, err = r.readRights(ctx)
	if err != nil {
		return err
	}

	switch {
	case r.lacksVolcano(inForce):
		r.mode = policy.ModeWithoutVolcano(inForce)
	case inForce.Spec.Mode == v1alpha1.ModeObserve:
		r.mode, err = r.nextObservingMode(ctx, inForce)
	case r.granted.AreMissing():
		var written []string
		written, err = r.writtenQuotas(ctx)
		r.mode = policy.ModeWithoutRights(inForce, len(written) > 0)
	default:
		r.mode = policy.NextMode(inForce, false)
	}

	return err
}

// readRights returns the rights to enforce that the operator has. After a change of the spec it asks for them at once: an
// administrator may just have bound them.
func (r *reconciliation) readRights(ctx context.Context) (policy.Rights, error) {
	if r.policy.Generation != r.policy.Status.ObservedGeneration {
		return r.rights.CurrentNow(ctx)
	}
	return r.rights.Current(ctx)
}

// waitsForRights reports whether something goes on as soon as the operator has the rights to enforce: mode Enforce, or the
// way back from it.
func (r *reconciliation) waitsForRights() bool {
	wantsEnforce := r.spec.Mode != v1alpha1.ModeObserve
	return r.granted.AreMissing() && (wantsEnforce || !r.restoring.IsDone())
}

// nextObservingMode returns the mode in force from now on while Observe is wanted, "" if it cannot be decided yet.
func (r *Reconciler) nextObservingMode(ctx context.Context, inForce *v1alpha1.ServiceTypePolicy) (v1alpha1.Mode, error) {
	if r.evidence == nil {
		return policy.NextMode(inForce, false), nil
	}
	mayRun, err := r.evidence.schedulerMayRun(ctx, r.now())
	if err != nil {
		return "", err
	}
	next := policy.NextMode(inForce, mayRun)
	if next != "" {
		return next, nil
	}

	// The operator has written Queues before there was a policy, and our scheduler enforces them.
	written, err := r.writtenQuotas(ctx)
	if len(written) > 0 {
		next = v1alpha1.ModeEnforce
	}
	return next, err
}

// lacksVolcano reports whether a policy is to be enforced, and cannot be, because the API server lacks kinds of Volcano.
func (r *Reconciler) lacksVolcano(p *v1alpha1.ServiceTypePolicy) bool {
	return len(r.missingKinds) > 0 && p.Spec.Mode != v1alpha1.ModeObserve
}

// withdrawConfiguration returns condition ConfigSynced while Enforce is not in force. In mode Observe it takes back what the operator
// wrote for the scheduler.
func (r *reconciliation) withdrawConfiguration(ctx context.Context, live *corev1.ConfigMap) (metav1.Condition, error) {
	if r.mode == v1alpha1.ModeObserve {
		if err := r.deleteConfigMap(ctx, live); err != nil {
			return metav1.Condition{}, err
		}
	}

	switch {
	case len(r.faults) > 0:
		return policy.InvalidCondition(r.faults), nil
	case r.mode == "":
		return policy.SchedulerRunsCondition(), nil
	default:
		return policy.NotConfiguredByMode(), nil
	}
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
	r.history.existed = false
	logf.FromContext(ctx).Info("scheduler configuration deleted, because spec.mode is Observe")
	return nil
}

// writtenQuotas returns the CardQuotas whose Queues the operator has written, sorted by name: they have the finalizer,
// which goes when the Queue is restored.
func (r *Reconciler) writtenQuotas(ctx context.Context) ([]string, error) {
	var list v1alpha1.CardQuotaList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CardQuotas: %w", err)
	}

	var written []string
	for i := range list.Items {
		if controllerutil.ContainsFinalizer(&list.Items[i], cardquota.Finalizer) {
			written = append(written, list.Items[i].Name)
		}
	}
	slices.Sort(written)
	return written, nil
}

// findRestoring returns what is left to restore in mode Observe.
func (r *reconciliation) findRestoring(ctx context.Context) (policy.Restoring, error) {
	written, err := r.writtenQuotas(ctx)
	if err != nil {
		return policy.Restoring{}, err
	}

	restoring := policy.Restoring{Quotas: written}
	if r.guard != nil {
		found := r.guard.Latest()
		restoring.Admission = found == nil || found.Reason != v1alpha1.ReasonObserving
	}
	return restoring, nil
}
