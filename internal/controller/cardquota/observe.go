package cardquota

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
)

// observe writes the status in mode Observe. If mode Enforce has written the Queue, it first restores it: the finalizer
// says so, and is removed last. owner is the CardQuota that owns the queue.
func (r *reconciliation) observe(ctx context.Context, owner *v1alpha1.CardQuota) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(r.quota, cardquota.Finalizer) {
		if r.quota.DeletionTimestamp != nil { // another client's finalizer keeps it
			return ctrl.Result{}, nil
		}
		return r.updateStatus(ctx, cardquota.ObservedQueueCondition(r.quota, owner))
	}

	// A Queue that was just created may not be in the cache.
	var err error
	r.queue, err = getQueue(ctx, r.live, r.quota.QueueName())
	if err != nil {
		return ctrl.Result{}, err
	}

	restored := drainStatus{done: true}
	if r.queue != nil && owner != nil && owner.Name == r.quota.Name {
		restored, err = r.restoreQueue(ctx)
	}

	switch {
	case err != nil:
		return r.reportWriteError(ctx, err)
	case !restored.done:
		return r.updateStatusAndRetry(ctx, cardquota.RestoringCondition(r.quota.QueueName(), restored.members), restored.requeueAfter)
	}

	return r.removeFinalizer(ctx)
}

// restoreQueue gives the Queue back what it had before the operator first wrote it. One that the operator created loses
// its quota, and is deleted when it is empty; with deletionPolicy Retain it stays.
func (r *reconciliation) restoreQueue(ctx context.Context) (drainStatus, error) {
	if !cardquota.HasOwnedFields(r.queue) {
		return drainStatus{done: true}, nil
	}

	released := func(live *v1beta1.Queue) cardquota.DesiredQueue { return cardquota.NewReleasedQueue(r.quota, live) }
	isCreated := cardquota.CreatedByOperator(r.queue)
	if isCreated && r.quota.Spec.DeletionPolicy != v1alpha1.DeletionPolicyRetain {
		return r.emptyQueue(ctx, v1alpha1.ReasonRestoring, released)
	}

	desired := released
	if !isCreated {
		desired = func(live *v1beta1.Queue) cardquota.DesiredQueue { return cardquota.NewRestoredQueue(r.quota, live) }
	}
	if !desired(r.queue).InSync(r.queue) {
		if _, err := r.writeQueue(ctx, desired, false); err != nil {
			return drainStatus{}, err
		}
	}

	if err := r.removeManagedFields(ctx); err != nil {
		return drainStatus{}, err
	}
	logf.FromContext(ctx).Info("queue restored", "queue", r.quota.QueueName())
	return drainStatus{done: true}, nil
}
