package cardquota

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	apply "volcano.sh/apis/pkg/client/applyconfiguration/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/workload"
)

// memberRetry is how soon to retry deleting a Queue that has members the last count did not
// include. They may be gone before the next count.
const memberRetry = time.Second

// queueBuilder returns the desired Queue for the live one.
type queueBuilder func(live *v1beta1.Queue) cardquota.DesiredQueue

// inSync reports whether the Queue is as desired. If the cache says no and may not have the operator's
// own last write, it replaces r.queue by what the API server has: otherwise that write would look like another
// manager's change.
func (r *reconciliation) inSync(ctx context.Context, desired queueBuilder) (bool, error) {
	if desired(r.queue).InSync(r.queue) {
		return true, nil
	}
	if r.queue != nil && r.queueWrites.CacheHasWrite(r.queue.Name, r.queue.ResourceVersion) {
		return false, nil
	}

	var err error
	r.queue, err = getQueue(ctx, r.live, r.quota.QueueName())
	if err != nil {
		return false, err
	}

	return desired(r.queue).InSync(r.queue), nil
}

// writeQueue applies the desired Queue. wasInSync means that the Queue was as desired before, so another manager caused
// any difference. writeQueue emits an event if it adopts a Queue, replaces changes of other managers, or creates a Queue
// again that another client deleted.
func (r *reconciliation) writeQueue(ctx context.Context, desired queueBuilder, wasInSync bool) (cardquota.QueueWrite, error) {
	want := desired(r.queue)
	replaced, err := r.applyQueue(ctx, &want, wasInSync)
	if err != nil {
		return cardquota.QueueWrite{}, err
	}

	// Two writers must not undo each other as fast as they can, so further changes stay until the next status write.
	if wasInSync {
		r.throttle.Delay(r.quota.Name)
	}

	if r.queue != nil && !cardquota.HasOwnedFields(r.queue) {
		r.events.Eventf(r.quota, corev1.EventTypeNormal, v1alpha1.EventAdopted,
			"queue %s already existed and now carries this quota; it will not be deleted with this CardQuota", r.quota.QueueName())
	}

	if len(replaced) > 0 {
		r.events.Eventf(r.quota, corev1.EventTypeWarning, v1alpha1.ReasonForeignChangeReplaced,
			"%s on queue %s; replaced by what this CardQuota says", cardquota.DescribeConflicts(replaced), r.quota.QueueName())
	}

	if r.queue == nil && wasInSync {
		r.events.Eventf(r.quota, corev1.EventTypeWarning, v1alpha1.EventQueueRecreated, "queue %s had been deleted and was created again", r.quota.QueueName())
	}

	return cardquota.QueueWrite{Replaced: replaced, WeightManager: want.WeightManager, ParentManager: want.ParentManager}, nil
}

// applyQueue applies the desired Queue without force first. On a conflict it leaves to other managers the
// fields that they may keep, forces the others and returns them. Without a conflict it returns the fields that another
// manager changed or removed without owning them now: those have no manager to name.
func (r *reconciliation) applyQueue(ctx context.Context, want *cardquota.DesiredQueue, wasInSync bool) ([]cardquota.FieldConflict, error) {
	log := logf.FromContext(ctx)
	var drift []cardquota.FieldConflict
	if wasInSync && r.queue != nil {
		for _, field := range want.DriftedFields(r.queue) {
			drift = append(drift, cardquota.FieldConflict{Field: field})
		}
	}

	// Force takes a field without saying from whom. Only a refused apply names its manager.
	err := r.applyAndRecord(ctx, want.Config)
	if !cardquota.IsFieldConflict(err) {
		if err != nil {
			return nil, fmt.Errorf("apply queue %s: %w", r.quota.QueueName(), err)
		}
		log.V(1).Info("queue written", "queue", r.quota.QueueName())
		return drift, nil
	}

	// YieldField also takes the fields that others keep out of want.
	replaced := slices.DeleteFunc(cardquota.FieldConflicts(err), want.YieldField)
	log.Info("queue has other writers", "queue", r.quota.QueueName(), "replaced", cardquota.DescribeConflicts(replaced), "weightLeftTo", want.WeightManager)
	if err := r.applyAndRecord(ctx, want.Config, client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("apply queue %s with force: %w", r.quota.QueueName(), err)
	}

	return replaced, nil
}

// applyAndRecord applies a Queue, and records the version that the API server made of it. After an error
// no version is known: the write may have taken effect.
func (r *reconciliation) applyAndRecord(ctx context.Context, config *apply.QueueApplyConfiguration, options ...client.ApplyOption) error {
	name := r.quota.QueueName()
	r.queueWrites.Forget(name)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return fmt.Errorf("encode queue %s: %w", name, err)
	}

	applied := &unstructured.Unstructured{Object: fields} // the client decodes no answer into a typed configuration
	if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), append(options, client.FieldOwner(v1alpha1.FieldManager))...); err != nil {
		return err
	}

	r.queueWrites.RecordWrite(name, applied.GetResourceVersion())
	r.writtenQueues.Store(r.quota.Name, name)
	return nil
}

// forgetQueueWrites forgets the last write of the Queue of a CardQuota that is gone, also of one whose finalizer a
// user removed. If another CardQuota names this queue now, its last write stays known.
func (r *Reconciler) forgetQueueWrites(ctx context.Context, quota string) error {
	queue, isKnown := r.writtenQueues.Load(quota)
	name, _ := queue.(string)
	if !isKnown {
		return nil
	}

	candidates, err := r.cardQuotasForQueue(ctx, name)
	if err != nil {
		return err
	}

	if len(candidates) == 0 {
		r.queueWrites.Forget(name)
	}

	r.writtenQueues.Delete(quota)
	return nil
}

// finalizeQueue releases or deletes the Queue, as the deletionPolicy says, and removes the
// finalizer.
func (r *reconciliation) finalizeQueue(ctx context.Context, owner *v1alpha1.CardQuota, candidates []*v1alpha1.CardQuota) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(r.quota, cardquota.Finalizer) {
		return ctrl.Result{}, nil
	}

	// The next owner takes the Queue as it is: draining it would stop pods that have quota.
	inherited := owner == nil || owner.Name != r.quota.Name || cardquota.NextOwner(r.quota, candidates) != nil

	// Read the API server, not the cache: a Queue that was just created would be left
	// behind.
	var err error
	r.queue, err = getQueue(ctx, r.live, r.quota.QueueName())
	if err != nil {
		return ctrl.Result{}, err
	}
	if r.queue == nil || inherited {
		return r.removeFinalizer(ctx)
	}

	if wait, err := r.waitForChildren(ctx); err != nil || wait != nil {
		if err != nil {
			return ctrl.Result{}, err
		}
		return r.reportWait(ctx, wait)
	}

	drained, err := r.releaseQueue(ctx)
	switch {
	case err != nil:
		return r.reportWriteError(ctx, err)
	case !drained.done:
		return r.updateStatusAndRetry(ctx, cardquota.DrainingCondition(r.quota.QueueName(), drained.members), drained.requeueAfter)
	}

	return r.removeFinalizer(ctx)
}

// releaseQueue does with the Queue of a CardQuota that is being deleted what its deletionPolicy and the origin of the
// Queue say. Only a Queue that has to be drained first is not done at once.
func (r *reconciliation) releaseQueue(ctx context.Context) (drained drainStatus, err error) {
	drained.done = true
	switch {
	case r.quota.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain: // everything stays as written
		err = r.removeManagedFields(ctx)
	// Volcano needs this queue for work that names none, so it only loses the operator's fields.
	case r.quota.QueueName() == workload.DefaultQueue:
		err = r.releaseFields(ctx)
	case !cardquota.CreatedByOperator(r.queue):
		err = r.abandonQueue(ctx)
	default:
		drained, err = r.drainQueue(ctx)
	}

	return drained, err
}

// drainStatus is the progress of draining a Queue.
type drainStatus struct {
	done bool
	// members counts the pods and PodGroups that still use the queue, children are the Queues below it.
	members  queueusage.Members
	children []string
	// requeueAfter is when to check again, 0 when a watch reports the change.
	requeueAfter time.Duration
}

// drainQueue removes quota and capability, so that nothing new starts, and deletes the Queue once it has no members.
func (r *reconciliation) drainQueue(ctx context.Context) (drainStatus, error) {
	return r.emptyQueue(ctx, v1alpha1.ReasonDraining, func(live *v1beta1.Queue) cardquota.DesiredQueue {
		return cardquota.NewDrainedQueue(r.quota, live, r.allocatedText(live))
	})
}

// emptyQueue writes the Queue as it is to be until it is empty, and deletes it once it has no members. reason is that of
// condition QueueSynced meanwhile.
func (r *reconciliation) emptyQueue(ctx context.Context, reason string, desired queueBuilder) (drainStatus, error) {
	// With this reason the Queue had lost its quota before, so another manager has caused a difference.
	wasInSync := conditions.Get(r.quota.Status.Conditions, v1alpha1.ConditionQueueSynced).Reason == reason

	var requeueAfter time.Duration
	if !desired(r.queue).InSync(r.queue) {
		if wasInSync && r.statusDelay > 0 { // another manager's change is reverted with the next status write
			requeueAfter = r.statusDelay
		} else if _, err := r.writeQueue(ctx, desired, wasInSync); err != nil {
			return drainStatus{}, err
		}
	}

	switch {
	case r.usage == nil: // the first count reconciles every CardQuota
		return drainStatus{requeueAfter: requeueAfter}, nil
	case r.usage.Members.Any(): // a count that finds other members reconciles this one
		return drainStatus{members: r.usage.Members, requeueAfter: requeueAfter}, nil
	}

	// The last count is up to a second old, and a deletion is final.
	members, counted, err := r.memberCounts.membersOf(r.quota, func(owners map[string]*v1alpha1.CardQuota) (map[string]queueusage.Members, error) {
		return r.countMembers(ctx, owners)
	})
	if err != nil {
		return drainStatus{}, err
	}
	if !counted || members.Any() {
		return drainStatus{members: members, requeueAfter: memberRetry}, nil
	}

	// A Queue of the same name that was created meanwhile must stay.
	err = r.client.Delete(ctx, r.queue, client.Preconditions{UID: ptr.To(r.queue.UID)})
	if client.IgnoreNotFound(err) != nil {
		return drainStatus{}, fmt.Errorf("delete queue %s: %w", r.quota.QueueName(), err)
	}

	logf.FromContext(ctx).Info("queue deleted", "queue", r.quota.QueueName())
	return drainStatus{done: true}, nil
}

// abandonQueue releases a Queue that the operator did not create, without quota and
// capability, so that nothing new starts. Running pods go on, and the operator does not
// wait for them.
func (r *reconciliation) abandonQueue(ctx context.Context) error {
	if !cardquota.HasOwnedFields(r.queue) {
		return nil
	}

	desired := func(live *v1beta1.Queue) cardquota.DesiredQueue { return cardquota.NewAbandonedQueue(r.quota, live) }
	if !desired(r.queue).InSync(r.queue) {
		if _, err := r.writeQueue(ctx, desired, false); err != nil {
			return err
		}
	}

	if err := r.removeManagedFields(ctx); err != nil {
		return err
	}
	logf.FromContext(ctx).Info("queue given up, since it was not made for a CardQuota", "queue", r.quota.QueueName())

	return nil
}

// releaseFields applies an empty Queue, by which server-side apply removes every field that only the operator
// owned.
func (r *reconciliation) releaseFields(ctx context.Context) error {
	if !cardquota.HasOwnedFields(r.queue) {
		return nil
	}
	err := r.client.Apply(ctx, apply.Queue(r.quota.QueueName()), client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("release queue %s: %w", r.quota.QueueName(), err)
	}
	return nil
}

// jsonPointerEscaper escapes a key for the path of a JSON patch.
var jsonPointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// removeManagedFields keeps every value of the Queue but LabelManagedBy and AnnotationBefore, and drops the operator's ownership of the
// fields, so that the Queue is as if users had written it. Server-side apply cannot do that, so it patches
// managedFields, with the resource version as a lock.
func (r *reconciliation) removeManagedFields(ctx context.Context) error {
	live, err := getQueue(ctx, r.live, r.quota.QueueName())
	if err != nil {
		return err
	}
	if live == nil || !cardquota.HasOwnedFields(live) {
		return nil
	}

	change := []map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": cardquota.ManagedFieldsWithoutOperator(live)},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.ResourceVersion},
	}
	if cardquota.HasManagedByLabel(live) {
		change = append(change, map[string]any{"op": "remove", "path": "/metadata/labels/" + jsonPointerEscaper.Replace(v1alpha1.LabelManagedBy)})
	}
	if live.Annotations[v1alpha1.AnnotationBefore] != "" {
		change = append(change, map[string]any{"op": "remove", "path": "/metadata/annotations/" + jsonPointerEscaper.Replace(v1alpha1.AnnotationBefore)})
	}

	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode managed fields: %w", err)
	}
	if err := r.client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("give up queue %s: %w", r.quota.QueueName(), err)
	}

	return nil
}

// removeFinalizer removes the finalizer, after which the API server deletes the CardQuota that is being deleted. The status
// says if the API server refuses that.
func (r *reconciliation) removeFinalizer(ctx context.Context) (ctrl.Result, error) {
	before := r.quota.DeepCopy()
	controllerutil.RemoveFinalizer(r.quota, cardquota.Finalizer)
	r.metrics.forgetQuota(r.quota.Name)
	r.queueWrites.Forget(r.quota.QueueName())
	result, err := r.patchMeta(ctx, before)
	if err != nil {
		return r.reportWriteError(ctx, err)
	}
	return result, nil
}
