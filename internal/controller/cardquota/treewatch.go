package cardquota

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/workload"
)

// isBelowRoot reports whether a Queue has another parent than root.
func isBelowRoot(queue *v1beta1.Queue) bool {
	return queue.Spec.Parent != "" && queue.Spec.Parent != workload.RootQueue
}

// requestsForNeighbors returns the requests for the parent and the children of a CardQuota. The
// UsageCollector wakes up all others whose numbers change.
func (r *Reconciler) requestsForNeighbors(ctx context.Context, object client.Object) []reconcile.Request {
	quota, ok := object.(*v1alpha1.CardQuota)
	if !ok {
		return nil
	}

	var requests []reconcile.Request
	if quota.Spec.Parent != "" {
		requests = append(requests, shared.RequestFor(quota.Spec.Parent))
	}

	children, err := r.childQuotas(ctx, quota.Name)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "children of a CardQuota cannot be listed", "cardquota", quota.Name)
	}

	for _, child := range children {
		requests = append(requests, shared.RequestFor(child.Name))
	}

	return requests
}

// requestsForQueueNeighbors returns the requests for the CardQuotas whose Queues may have
// waited for a change of this one: those of its parent and its children, and CardQuotas that
// have yet to place their Queue below it.
func (r *Reconciler) requestsForQueueNeighbors(ctx context.Context, queue *v1beta1.Queue) []reconcile.Request {
	var requests []reconcile.Request
	if isBelowRoot(queue) {
		requests = r.requestsForQueue(ctx, queue.Spec.Parent)
	}

	children, err := r.childQueues(ctx, queue.Name)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "children of a Queue cannot be listed", "queue", queue.Name)
	}

	for _, child := range children {
		requests = append(requests, r.requestsForQueue(ctx, child.Name)...)
	}

	for _, owner := range r.requestsForQueue(ctx, queue.Name) {
		quotas, err := r.childQuotas(ctx, owner.Name)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "children of a CardQuota cannot be listed", "cardquota", owner.Name)
		}
		for _, child := range quotas {
			requests = append(requests, shared.RequestFor(child.Name))
		}
	}

	return requests
}

// treeQueueChanged selects changes of a Queue for which its neighbors in a tree may wait: of
// its parent, its CPU and memory, and its cards.
var treeQueueChanged = predicate.TypedFuncs[*v1beta1.Queue]{UpdateFunc: func(e event.TypedUpdateEvent[*v1beta1.Queue]) bool {
	for _, key := range []string{v1alpha1.AnnotationCardQuota, v1alpha1.AnnotationCardDeserved, v1alpha1.AnnotationCardGuarantee, v1alpha1.AnnotationStopPolicy, v1alpha1.AnnotationUnlimitedResources} {
		if e.ObjectOld.Annotations[key] != e.ObjectNew.Annotations[key] {
			return true
		}
	}
	return e.ObjectOld.Generation != e.ObjectNew.Generation
}}
