// Package cardquota is the CardQuota controller: it writes CardQuotas to Volcano Queues and
// their usage to the status.
//
// It only reads and writes objects. internal/cardquota decides what a Queue carries, what
// is used and what the status says.
package cardquota

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/controller/enforcerights"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/forecast"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/workload"
)

// waitingRetry is how soon the operator retries what the neighbors of a Queue in a tree
// delay. Watches report most of their changes earlier.
var waitingRetry = build.Wait(time.Second)

// conflictRetry is how soon a write that conflicts with a newer CardQuota is tried again.
const conflictRetry = 50 * time.Millisecond

// Reconciler reconciles the Queue and the status of a CardQuota.
type Reconciler struct {
	// client reads from the cache and writes to the API server, live reads from
	// the API server.
	client client.Client
	live   client.Reader
	events record.EventRecorder
	usage  *UsageCollector
	// inventory provides the policy in force.
	inventory InventorySource
	// rights are the rights to enforce that the operator has, nil if it does not ask.
	rights    *enforcerights.Rights
	throttle  *shared.StatusThrottle
	selectors *shared.QuotaSelectors
	// queueWrites are the last writes of Queues, by the name of the queue. writtenQueues has the queue that
	// each CardQuota wrote, by the name of the CardQuota, to forget them together.
	queueWrites   *shared.LastWrites
	writtenQueues sync.Map
	metrics       *metricsCollector
	// memberCounts counts the members of queues that are to be deleted.
	memberCounts *memberCounts
	// forecastEvents has when an event last said what Enforce would refuse, by CardQuota.
	forecastEvents sync.Map
	// missingKinds are the kinds of Volcano that the API server lacks.
	missingKinds []string
	// moves is locked while a Queue is moved below another one.
	moves sync.Mutex
}

// reconciliation is one run of Reconcile for one CardQuota.
type reconciliation struct {
	*Reconciler
	quota *v1alpha1.CardQuota
	// queue is the Queue as last read, nil when there is none.
	queue *v1beta1.Queue
	// policy is the ServiceTypePolicy, nil when there is none. inForce is what is in force of it, or of
	// the last one that took effect, and types are the service types in force.
	policy, inForce *v1alpha1.ServiceTypePolicy
	types           cardquota.PolicyInput
	// mode is the mode in force.
	mode v1alpha1.Mode
	// tree is the tree around the CardQuota, cardquota.Flat until it is known and while queues are flat.
	tree *cardquota.Tree
	// usage is what the queue uses alone, subtree what it uses with the queues below it.
	// Both are nil before the first count.
	usage, subtree *queueusage.Usage
	// statusDelay is how long the next status write must wait.
	statusDelay time.Duration
	now         time.Time
}

// +kubebuilder:rbac:groups=cardquota.dev,resources=cardquotas,verbs=list;watch
// +kubebuilder:rbac:groups=cardquota.dev,resources=cardquotas/status,verbs=patch
// +kubebuilder:rbac:groups=scheduling.volcano.sh,resources=queues,verbs=get;list;watch
// +kubebuilder:rbac:groups=scheduling.volcano.sh,resources=podgroups,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces;nodes;pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=volcano-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=volcano-system,resources=leases,resourceNames=cardquota-manager,verbs=get;update

// Reconcile writes the Queue first, so that a changed quota takes effect as soon as
// possible. It writes the status afterwards, at most once a second.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	quota := &v1alpha1.CardQuota{}
	if err := r.client.Get(ctx, req.NamespacedName, quota); err != nil {
		if apierrors.IsNotFound(err) {
			r.throttle.Forget(req.Name)
			r.metrics.forgetQuota(req.Name)
			r.forecastEvents.Delete(req.Name)
			return ctrl.Result{}, r.forgetQueueWrites(ctx, req.Name)
		}
		return ctrl.Result{}, err
	}

	run := reconciliation{Reconciler: r, quota: quota, tree: cardquota.Flat, statusDelay: r.throttle.Wait(req.Name), now: time.Now()}
	var err error
	run.policy, run.inForce, err = r.readPolicy(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}

	// Before the mode is known, nothing may be written. The status of the policy, which says it, causes the next run.
	run.mode = policy.Mode(run.inForce)
	if run.mode == "" {
		return ctrl.Result{}, nil
	}

	run.types = cardquota.PolicyInput{Types: policy.ServiceTypes(run.inForce), Bands: policy.PriorityBands(run.inForce)}
	return run.reconcileQueue(ctx)
}

// reconcileQueue reads what the Queue and the status depend on, and does with the Queue what the mode, the owner of the
// queue and the deletion of the CardQuota say.
func (r *reconciliation) reconcileQueue(ctx context.Context) (ctrl.Result, error) {
	name := r.quota.QueueName()
	if name == workload.RootQueue { // the schema refuses it, but this CardQuota may be older
		return r.updateStatus(ctx, cardquota.QueueReservedCondition(name))
	}

	// Two CardQuotas can name one Queue. Both would write it in turn, so only its owner does.
	candidates, err := r.cardQuotasForQueue(ctx, name)
	if err != nil {
		return ctrl.Result{}, err
	}

	r.queue, err = getQueue(ctx, r.client, name)
	if err != nil {
		return ctrl.Result{}, err
	}

	if own, subtree, counted := r.Reconciler.usage.QueueUsage(name); counted {
		r.usage = &own
		r.subtree = &subtree
	}

	r.tree, err = r.treeAround(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}

	owner := cardquota.QueueOwner(candidates)
	switch {
	case r.mode == v1alpha1.ModeObserve:
		return r.observeQueue(ctx, owner)
	case r.quota.DeletionTimestamp != nil:
		return r.finalizeQueue(ctx, owner, candidates)
	case owner != nil && owner.Name != r.quota.Name:
		return r.updateStatus(ctx, cardquota.QueueConflictCondition(name, owner.Name))
	case r.lacksVolcano(): // no finalizer either: there is nothing to undo
		return r.updateStatus(ctx, policy.VolcanoMissingCondition(r.missingKinds))
	}

	return r.syncOwnedQueue(ctx)
}

// syncOwnedQueue writes the Queue and the status of a CardQuota that owns its queue. It adds the finalizer
// before it writes anything that must be undone. If the CardQuota is newer than the cache, it only requeues.
func (r *reconciliation) syncOwnedQueue(ctx context.Context) (ctrl.Result, error) {
	if controllerutil.ContainsFinalizer(r.quota, cardquota.Finalizer) {
		return r.syncQueue(ctx)
	}

	before := r.quota.DeepCopy()
	controllerutil.AddFinalizer(r.quota, cardquota.Finalizer)
	result, err := r.patchMeta(ctx, before)
	switch {
	case err != nil:
		return r.reportWriteError(ctx, err)
	case !result.IsZero():
		return result, nil
	}

	return r.syncQueue(ctx)
}

// patchMeta writes the metadata of the CardQuota with an optimistic lock, since other
// clients write finalizers as well. It requeues a CardQuota that is newer than the cache. For one that is gone there is
// nothing to write. After any other error the CardQuota has its finalizers of before.
func (r *reconciliation) patchMeta(ctx context.Context, before *v1alpha1.CardQuota) (ctrl.Result, error) {
	err := r.client.Patch(ctx, r.quota, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(v1alpha1.FieldManager))
	if client.IgnoreNotFound(err) == nil {
		return ctrl.Result{}, nil
	}

	r.quota.Finalizers = before.Finalizers
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{}, fmt.Errorf("write finalizers: %w", err)
}

// syncQueue writes the Queue of the CardQuota that owns it, then the status.
func (r *reconciliation) syncQueue(ctx context.Context) (ctrl.Result, error) {
	// Written to the Queue, a bad selector would lock out every namespace, and running tenants
	// with them.
	if selector := r.quota.Spec.NamespaceSelector; selector != nil {
		if _, err := workload.NewNamespaceSelector(selector); err != nil {
			return r.updateStatus(ctx, cardquota.InvalidSelectorCondition(r.quota.QueueName(), err))
		}
	}
	defer r.lockMoves()() // until the Queue is written: two moves at a time could make a cycle

	place, wait, err := r.placeQueue(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait != nil && wait.KeepsQueue { // the Queue has no place yet, so it stays as it is
		return r.reportWait(ctx, wait)
	}

	return r.syncPlacedQueue(ctx, place, wait)
}

// syncPlacedQueue writes the Queue to its place in the tree, then the status. wait says what the Queue does not have
// yet of the CardQuota, and why. It is nil if the Queue has everything.
func (r *reconciliation) syncPlacedQueue(ctx context.Context, place cardquota.Placement, wait *cardquota.Wait) (ctrl.Result, error) {
	desired := func(live *v1beta1.Queue) cardquota.DesiredQueue {
		return cardquota.NewDesiredQueue(r.quota, r.types, live, r.allocatedText(live), place)
	}

	before := conditions.Get(r.quota.Status.Conditions, v1alpha1.ConditionQueueSynced)
	inSync, err := r.inSync(ctx, desired)
	if err != nil {
		return ctrl.Result{}, err
	}

	now := desired(r.queue) // inSync may have read the Queue again
	wasInSync := r.wasInSync(before, now)
	if !inSync && wasInSync && r.statusDelay > 0 {
		// Another manager changed the Queue. The operator writes a changed spec or policy at once, but
		// reverts such a change with the next status write. So constant writes of another manager do not
		// cause constant writes of the operator.
		return ctrl.Result{RequeueAfter: r.statusDelay}, nil
	}

	if !inSync && r.throttle.CacheIsStale(r.quota.Name, r.quota.ResourceVersion) {
		// An outdated status does not tell whether the Queue carried this spec. A change of another
		// manager would be replaced, and never named.
		return ctrl.Result{RequeueAfter: shared.StaleRetry}, nil
	}

	// Another field manager may keep the weight or the parent, and the condition names it.
	written := cardquota.QueueWrite{WeightManager: now.WeightManager, ParentManager: now.ParentManager}
	if !inSync {
		written, err = r.writeQueue(ctx, desired, wasInSync)
		if err != nil {
			return r.reportWriteError(ctx, err)
		}
	}

	written.IsFlat = r.tree.IsFlat()
	written.Wait = wait
	written.CutPriority = r.types.CutPriority(r.quota)
	if written.IsFlat {
		written.ParentManager = "" // who else writes the parent does not matter to a flat Queue
	} else {
		written.Parent = place.Parent
	}

	var again time.Duration
	if wait != nil {
		again = r.retryDelay()
	}

	return r.updateStatusAndRetry(ctx, cardquota.QueueSyncedCondition(r.quota, before, written, r.now), again)
}

// wasInSync reports whether the Queue carried this spec, and neither its service type nor the tree changed
// since. Another manager has then caused a difference. before is the condition of the last status, now the Queue as it
// is desired.
func (r *reconciliation) wasInSync(before metav1.Condition, now cardquota.DesiredQueue) bool {
	// In mode Observe the operator gives up a Queue, and the status may not say so yet.
	if r.queue != nil && !cardquota.HasOwnedFields(r.queue) {
		return false
	}
	return before.Status == metav1.ConditionTrue && before.ObservedGeneration == r.quota.Generation &&
		!now.ServiceTypeChanged(r.queue) && !now.TreeChanged(r.queue)
}

// reportWriteError reports a refused write in the status and returns any other error. The
// operator retries a refused write when the Queue's state changes, otherwise after
// shared.RefusedRetry. If rights to enforce are missing, the status says so, and it looks for them more often.
func (r *reconciliation) reportWriteError(ctx context.Context, err error) (ctrl.Result, error) {
	if !shared.IsRefused(err) {
		return ctrl.Result{}, err
	}

	if rights, areMissing := r.rights.ExplainRefusal(ctx, err); areMissing {
		effect := "queue " + r.quota.QueueName() + " could not be written"
		if r.mode == v1alpha1.ModeObserve {
			effect = "queue " + r.quota.QueueName() + " could not be restored"
		}
		return r.updateStatusAndRetry(ctx, rights.MissingCondition(effect), r.rights.Retry())
	}

	result, err := r.updateStatus(ctx, cardquota.QueueRefusedCondition(r.quota.QueueName(), r.queue, err))
	switch {
	case err != nil || !result.IsZero() || cardquota.RefusesChanges(r.queue): // something else causes the next run
	case !r.tree.IsFlat(): // Volcano's webhook may not know the last writes of the neighbors yet
		result.RequeueAfter = r.retryDelay()
	default:
		result.RequeueAfter = shared.RefusedRetry
	}

	return result, err
}

// allocatedText returns the value of volcano.sh/card.allocated: the cards in use, or the
// current value before the first count.
func (r *reconciliation) allocatedText(live *v1beta1.Queue) string {
	switch {
	case r.subtree != nil:
		return card.Quota(r.subtree.Used).String()
	case live != nil:
		return live.Annotations[v1alpha1.AnnotationCardAllocated]
	default:
		return ""
	}
}

// updateStatus writes the status if it changed, or requeues if the last write was less than a second ago. sync is
// condition QueueSynced. The metrics follow at once.
func (r *reconciliation) updateStatus(ctx context.Context, sync metav1.Condition) (ctrl.Result, error) {
	selected, err := r.selectors.SelectedNamespaces(ctx, r.client, r.quota)
	if err != nil {
		return ctrl.Result{}, err
	}

	counts := r.Reconciler.usage
	found, isKnown := r.readForecast(r.quota)
	status := cardquota.NewStatus(cardquota.StatusInput{
		Quota: r.quota, Mode: r.mode, Queue: r.queue, Sync: sync, Usage: r.subtree, Own: r.usage, Tree: r.tree, Physical: counts.Physical(), Unnamed: counts.Unnamed(),
		Totals: counts.QuotaTotals(), Enforced: r.enforcedCondition(), LocalViews: localquota.ViewsCondition(len(selected)), Forecast: found, Now: r.now,
	})

	r.updateMetrics(&status)
	writer := shared.StatusWriter[v1alpha1.CardQuotaStatus]{
		Client: r.client, Throttle: r.throttle, Object: r.quota, Status: &r.quota.Status, Delay: r.statusDelay, Recorder: r.events,
	}
	// What changes during the deletion is wanted, so it makes no event.
	if r.quota.DeletionTimestamp == nil {
		writer.Events = cardquota.Events
	}

	_, wait, err := writer.Write(ctx, status)
	if err == nil && isKnown {
		r.reportForecast(r.quota, r.now, status.Forecast)
	}
	return ctrl.Result{RequeueAfter: wait}, err
}

// updateMetrics replaces the metrics of the queue. It drops them before the first count, and if the CardQuota
// does not own the queue. The status shows that by its missing usage of CPU: its list of cards may be empty
// at any time.
func (r *reconciliation) updateMetrics(status *v1alpha1.CardQuotaStatus) {
	if status.CPU == nil {
		r.metrics.forgetQuota(r.quota.Name)
		return
	}
	numbers := newQueueMetrics(r.quota)

	// In a tree, a CardQuota without a service type is meant to be a parent, before it has children.
	isParent := status.Children > 0 || (!r.tree.IsFlat() && r.quota.Spec.ServiceType == "")
	if !isParent { // the children of a parent report its cards and workloads
		numbers.cards = slices.Clone(status.Cards) // the answer of the write is decoded into these
		numbers.isInTree = !r.tree.IsFlat()
		numbers.forecast = newForecastMetrics(status.Forecast)
		if r.usage != nil {
			numbers.oldest = r.usage.OldestPending.Time
			numbers.oldestWithinQuota = r.usage.OldestWithinQuota.Time
			numbers.blocked = r.usage.BlockedCards
		}
	}
	r.metrics.setQueue(r.quota.QueueName(), numbers)
}

// enforcedCondition returns condition Enforced of the CardQuota, nil before the policy has it or before the
// first count. Without a policy its status is Unknown.
func (r *reconciliation) enforcedCondition() *metav1.Condition {
	switch {
	case r.mode == v1alpha1.ModeObserve && r.lacksVolcano():
		missing := policy.VolcanoMissingCondition(r.missingKinds)
		return &missing
	case r.mode == v1alpha1.ModeObserve:
		observing := r.unenforcedCondition(r.quota, r.policy)
		return &observing
	}

	var policyCondition *metav1.Condition
	bypasses, counted := r.Reconciler.usage.bypassesByQueue()
	if r.policy != nil {
		policyCondition = meta.FindStatusCondition(r.policy.Status.Conditions, v1alpha1.ConditionEnforced)
		if policyCondition == nil || !counted {
			return nil
		}
	}
	own := enforcement.EvaluateQueue(r.quota.QueueName(), policyCondition, bypasses)
	return &own
}

// unenforcedCondition returns condition Enforced of a CardQuota in mode Observe. It is that of the policy, which may be nil, if
// that wants to enforce and lacks the rights.
func (r *Reconciler) unenforcedCondition(quota *v1alpha1.CardQuota, inUse *v1alpha1.ServiceTypePolicy) metav1.Condition {
	if inUse != nil {
		ofPolicy := conditions.Get(inUse.Status.Conditions, v1alpha1.ConditionEnforced)
		if ofPolicy.Reason == v1alpha1.ReasonRightsMissing {
			return conditions.New(ofPolicy.Status, ofPolicy.Reason, "%s", ofPolicy.Message)
		}
	}

	found, isKnown := r.readForecast(quota)
	return policy.ObservingCondition(forecast.Summary(found), isKnown, quota.Status.Conditions)
}

// cardQuotasForQueue returns the CardQuotas that name a queue. They are copies.
func (r *Reconciler) cardQuotasForQueue(ctx context.Context, name string) ([]*v1alpha1.CardQuota, error) {
	var list v1alpha1.CardQuotaList
	if err := r.client.List(ctx, &list, client.MatchingFields{queueIndex: name}); err != nil {
		return nil, fmt.Errorf("list CardQuotas of queue %s: %w", name, err)
	}
	return workload.PointersTo(list.Items), nil
}

// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies,verbs=list;watch

// readPolicy returns the ServiceTypePolicy, nil when there is none, and what is in force of it.
func (r *Reconciler) readPolicy(ctx context.Context) (found, inForce *v1alpha1.ServiceTypePolicy, err error) {
	found = &v1alpha1.ServiceTypePolicy{}
	err = r.client.Get(ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, found)
	switch {
	case apierrors.IsNotFound(err):
		found = nil
	case err != nil:
		return nil, nil, fmt.Errorf("read ServiceTypePolicy: %w", err)
	}
	return found, r.inventory.PolicyInForce(found), nil
}

// getQueue returns a Queue, nil when there is none.
func getQueue(ctx context.Context, reader client.Reader, name string) (*v1beta1.Queue, error) {
	live := &v1beta1.Queue{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read queue %s: %w", name, err)
	}
	return live, nil
}
