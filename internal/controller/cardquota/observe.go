package cardquota

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/forecast"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

// forecastEventInterval is the shortest time between two events that say what Enforce would refuse.
const forecastEventInterval = time.Hour

// readForecast returns what Enforce would refuse. Before a count knows it, that is what the status says: another run of the
// operator wrote it.
func (r *Reconciler) readForecast(quota *v1alpha1.CardQuota) (found *v1alpha1.CardQuotaForecast, isKnown bool) {
	found, isKnown = r.usage.Forecast(quota.QueueName())
	if !isKnown {
		found = quota.Status.Forecast
	}
	return found, isKnown
}

// reportForecast emits an event about what Enforce would refuse, at most once an hour for each CardQuota.
func (r *Reconciler) reportForecast(quota *v1alpha1.CardQuota, now time.Time, found *v1alpha1.CardQuotaForecast) {
	summary := forecast.Summary(found)
	last, _ := r.forecastEvents.Load(quota.Name)
	at, _ := last.(time.Time)
	if summary == "" || now.Sub(at) < forecastEventInterval {
		return
	}
	r.forecastEvents.Store(quota.Name, now)
	r.events.Eventf(quota, corev1.EventTypeNormal, v1alpha1.EventForecast, "mode Enforce would change: %s. status.forecast names them", summary)
}

// observeQueue writes the status in mode Observe. If mode Enforce has written the Queue, it first restores it: the finalizer
// says so, and is removed last. owner is the CardQuota that owns the queue.
func (r *reconciliation) observeQueue(ctx context.Context, owner *v1alpha1.CardQuota) (ctrl.Result, error) {
	// A CardQuota that inherited a Queue, or whose finalizer a user removed, has none and a written Queue.
	owns := owner != nil && owner.Name == r.quota.Name
	isWritten := owns && r.queue != nil && cardquota.HasOwnedFields(r.queue)
	if controllerutil.ContainsFinalizer(r.quota, cardquota.Finalizer) || isWritten {
		return r.restoreAndRelease(ctx, owns)
	}
	if r.quota.DeletionTimestamp != nil { // another client's finalizer keeps it
		return ctrl.Result{}, nil
	}

	if r.lacksVolcano() && (owns || owner == nil) {
		return r.updateStatus(ctx, policy.VolcanoMissingCondition(r.missingKinds))
	}
	return r.updateStatus(ctx, cardquota.ObservedQueueCondition(r.quota, owner))
}

// lacksVolcano reports whether Enforce is wanted, and cannot be, because the API server lacks kinds of Volcano. A policy
// that never enforced then observes. While it is deleted its mode stays in force, and Enforce is wanted only without any.
func (r *reconciliation) lacksVolcano() bool {
	wantsEnforce := r.mode == v1alpha1.ModeEnforce || (r.policy != nil && r.policy.Spec.Mode != v1alpha1.ModeObserve)
	return wantsEnforce && len(r.missingKinds) > 0
}

// restoreAndRelease restores the Queue of a CardQuota that owns it, and then removes the finalizer.
func (r *reconciliation) restoreAndRelease(ctx context.Context, owns bool) (ctrl.Result, error) {
	// A Queue that was just created may not be in the cache.
	var err error
	r.queue, err = getQueue(ctx, r.live, r.quota.QueueName())
	if err != nil {
		return ctrl.Result{}, err
	}

	restored := drainStatus{done: true}
	if r.queue != nil && owns {
		restored, err = r.restoreQueue(ctx)
	}

	switch {
	case err != nil:
		return r.reportWriteError(ctx, err)
	case !restored.done:
		return r.updateStatusAndRetry(ctx, cardquota.RestoringCondition(r.quota.QueueName(), restored.members, restored.children), restored.requeueAfter)
	}

	result, err := r.removeFinalizer(ctx)
	isReleased := err == nil && !controllerutil.ContainsFinalizer(r.quota, cardquota.Finalizer)
	if isReleased && r.quota.DeletionTimestamp == nil {
		result = shared.RequeueWithin(result, conflictRetry) // the status follows
	}
	return result, err
}

// restoreQueue gives the Queue back what it had before the operator first wrote it. One that the operator created loses
// its quota, and is deleted when it is empty. It stays with deletionPolicy Retain, and as queue default, which Volcano
// needs.
func (r *reconciliation) restoreQueue(ctx context.Context) (drainStatus, error) {
	if !cardquota.HasOwnedFields(r.queue) {
		return drainStatus{done: true}, nil
	}

	stays := r.quota.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain || r.quota.QueueName() == workload.DefaultQueue
	if cardquota.CreatedByOperator(r.queue) && !stays {
		return r.releaseCreatedQueue(ctx)
	}

	desired := func(live *v1beta1.Queue) cardquota.DesiredQueue {
		if cardquota.CreatedByOperator(live) {
			return cardquota.NewReleasedQueue(r.quota, live, workload.RootQueue)
		}
		return cardquota.NewRestoredQueue(r.quota, live)
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

// releaseCreatedQueue takes the limits from a Queue that the operator created, and deletes it when it is empty. Queues
// below it come first: Volcano refuses to delete their parent, or to give it less than they have.
func (r *reconciliation) releaseCreatedQueue(ctx context.Context) (drainStatus, error) {
	children, err := r.childQueues(ctx, r.quota.QueueName())
	if err != nil {
		return drainStatus{}, err
	}
	if len(children) > 0 {
		waiting := drainStatus{requeueAfter: r.retryDelay()}
		for _, child := range children {
			waiting.children = append(waiting.children, child.Name)
		}
		return waiting, nil
	}

	return r.emptyQueue(ctx, v1alpha1.ReasonRestoring, func(live *v1beta1.Queue) cardquota.DesiredQueue {
		return cardquota.NewReleasedQueue(r.quota, live, cardquota.CurrentParent(live))
	})
}
