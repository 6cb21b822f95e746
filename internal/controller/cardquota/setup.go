package cardquota

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/controller/enforcerights"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
)

// queueIndex is the cache index of CardQuotas by queue.
const queueIndex = "queue"

// workers is how many CardQuotas are reconciled at the same time. They wait for the API server most of the
// time.
const workers = 24

// Options configure the controller.
type Options struct {
	// SkipNameValidation allows a second controller in one process, as in tests.
	SkipNameValidation bool
	// Metrics takes the controller's metrics.
	Metrics metrics.RegistererGatherer
	// Inventory provides the cards of all nodes.
	Inventory InventorySource
	// MissingKinds are the kinds of Volcano that the API server lacks.
	MissingKinds []string
	// Rights are the rights to enforce that the operator has, nil to count it as allowed to do everything.
	Rights *enforcerights.Rights
}

// Setup adds the controller and its UsageCollector to a manager whose cache has
// CacheOptions. It returns the UsageCollector.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) (*UsageCollector, error) {
	r := &Reconciler{
		client:       mgr.GetClient(),
		live:         mgr.GetAPIReader(),
		events:       mgr.GetEventRecorderFor(shared.Component),
		usage:        newUsageCollector(mgr.GetCache(), shared.StatusInterval, options.Inventory),
		inventory:    options.Inventory,
		rights:       options.Rights,
		throttle:     shared.NewStatusThrottle(shared.StatusInterval),
		queueWrites:  shared.NewLastWrites(),
		selectors:    shared.NewQuotaSelectors(),
		metrics:      newMetricsCollector(),
		memberCounts: newMemberCounts(),
		missingKinds: options.MissingKinds,
	}

	options.Inventory.OnChange(r.usage.markDirty)
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}

	for _, metric := range append(r.usage.metrics.collectors(), r.metrics) {
		if err := options.Metrics.Register(metric); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}

	if err := mgr.Add(r.usage); err != nil {
		return nil, fmt.Errorf("add usage collector: %w", err)
	}

	// A created or deleted CardQuota may change the owner of its queue.
	createdOrDeleted := predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}

	forPolicy := lowPriorityHandler(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return r.requestsForQueue(ctx, allQueues)
	})
	forNamespace := lowPriorityHandler(r.requestsForNamespace)
	forQueue := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, q *v1beta1.Queue) []reconcile.Request {
		return r.requestsForQueue(ctx, q.Name)
	})

	// A CardQuota that grants fewer cards is reconciled first, because its queue can still get too many. What
	// changes for many CardQuotas, such as the policy, is reconciled last.
	err := ctrl.NewControllerManagedBy(mgr).
		Named("cardquota").
		For(&v1alpha1.CardQuota{}, builder.WithPredicates(shared.SpecChanged)).
		Watches(&v1alpha1.CardQuota{}, loweredHandler, builder.WithPredicates(isLowered)).
		Watches(&v1alpha1.CardQuota{}, handler.EnqueueRequestsFromMapFunc(r.requestsForSameQueue), builder.WithPredicates(createdOrDeleted)).
		Watches(&v1alpha1.CardQuota{}, handler.EnqueueRequestsFromMapFunc(r.requestsForNeighbors), builder.WithPredicates(shared.SpecChanged)).
		Watches(&v1alpha1.ServiceTypePolicy{}, forPolicy, builder.WithPredicates(policyChanged)).
		Watches(&corev1.Namespace{}, forNamespace, builder.WithPredicates(shared.NamespaceChanged)).
		WatchesRawSource(source.Kind(mgr.GetCache(), &v1beta1.Queue{}, forQueue, queueChanged)).
		WatchesRawSource(source.Kind(mgr.GetCache(), &v1beta1.Queue{}, handler.TypedEnqueueRequestsFromMapFunc(r.requestsForQueueNeighbors), treeQueueChanged)).
		WatchesRawSource(source.TypedChannel(r.usage.wakeups, wakeupHandler(r.requestsForQueue))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			SkipNameValidation:      &options.SkipNameValidation,
			UsePriorityQueue:        ptr.To(true),
		}).
		Complete(r)
	if err != nil {
		return nil, fmt.Errorf("set up controller: %w", err)
	}

	return r.usage, nil
}

// addIndexes adds the indexes of the cache by which the controller lists namespaces, CardQuotas and Queues: without
// one, a list looks at all of them.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object   client.Object
		name     string
		valuesOf client.IndexerFunc
	}{
		{&corev1.Namespace{}, shared.NamespaceLabelIndex, shared.NamespaceLabels},
		{&v1alpha1.CardQuota{}, queueIndex, func(object client.Object) []string {
			if quota, ok := object.(*v1alpha1.CardQuota); ok {
				return []string{quota.QueueName()}
			}
			return nil
		}},
		{&v1alpha1.CardQuota{}, parentIndex, func(object client.Object) []string {
			if quota, ok := object.(*v1alpha1.CardQuota); ok && quota.Spec.Parent != "" {
				return []string{quota.Spec.Parent}
			}
			return nil
		}},
		{&v1beta1.Queue{}, queueParentIndex, func(object client.Object) []string {
			if queue, ok := object.(*v1beta1.Queue); ok && isBelowRoot(queue) {
				return []string{queue.Spec.Parent}
			}
			return nil
		}},
	} {
		if err := indexer.IndexField(ctx, index.object, index.name, index.valuesOf); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.object, index.name, err)
		}
	}

	return nil
}

// requestsForNamespace returns the requests for the CardQuotas whose selectors may match a namespace.
func (r *Reconciler) requestsForNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	requests, err := r.selectors.RequestsForNamespace(ctx, r.client, namespace)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "CardQuotas with a namespace selector cannot be listed")
	}

	return requests
}

// requestsForSameQueue returns the requests for all CardQuotas that name the queue of a CardQuota.
func (r *Reconciler) requestsForSameQueue(ctx context.Context, object client.Object) []reconcile.Request {
	if quota, ok := object.(*v1alpha1.CardQuota); ok {
		return r.requestsForQueue(ctx, quota.QueueName())
	}
	return nil
}

// requestsForQueue returns the requests for all CardQuotas of a queue, or of allQueues.
func (r *Reconciler) requestsForQueue(ctx context.Context, name string) []reconcile.Request {
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	if name != allQueues {
		options = append(options, client.MatchingFields{queueIndex: name})
	}

	var list v1alpha1.CardQuotaList
	if err := r.client.List(ctx, &list, options...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "CardQuotas of a queue cannot be listed", "queue", name)
		return nil
	}

	requests := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i] = shared.RequestFor(list.Items[i].Name)
	}

	return requests
}

// queueChanged selects changes of a Queue, except the numbers in its status, which the
// scheduler writes all the time.
var queueChanged = predicate.TypedFuncs[*v1beta1.Queue]{UpdateFunc: func(e event.TypedUpdateEvent[*v1beta1.Queue]) bool {
	before := e.ObjectOld
	after := e.ObjectNew
	return shared.SpecChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) || before.Status.State != after.Status.State ||
		!maps.Equal(before.Annotations, after.Annotations) || !maps.Equal(before.Labels, after.Labels)
}}

// policyChanged selects changes of service types, of the hierarchy and of enforcement in a ServiceTypePolicy,
// and when it takes effect. Bypasses concern single queues, which the UsageCollector reconciles.
var policyChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, _ := e.ObjectOld.(*v1alpha1.ServiceTypePolicy)
	after, _ := e.ObjectNew.(*v1alpha1.ServiceTypePolicy)
	return !policy.SameServiceTypes(before, after) || changesPolicyInForce(before, after) || !conditions.Same(enforcedWithoutBypass(before), enforcedWithoutBypass(after))
}}

// enforcedWithoutBypass returns condition Enforced of a queue without bypasses: allQueues is the name of none. It is
// empty while the policy has no such condition.
func enforcedWithoutBypass(p *v1alpha1.ServiceTypePolicy) metav1.Condition {
	if policyCondition := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionEnforced); policyCondition != nil {
		return enforcement.EvaluateQueue(allQueues, policyCondition, nil)
	}
	return metav1.Condition{}
}
