package cardquota

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	apply "volcano.sh/apis/pkg/client/applyconfiguration/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/workload"
)

// finalizer keeps a CardQuota until its Queue is gone or given back.
const finalizer = "cardquota.dev/queue"

// memberRetry is how long a Queue waits that something names which the last
// count did not know: it may be gone again before any count sees it.
const memberRetry = time.Second

// queueBuilder plans the Queue, given how it is.
type queueBuilder func(live *v1beta1.Queue) cardquota.DesiredQueue

// inSync tells whether the Queue is as planned. When the cache says no, the API
// server is asked: the cache may be older than what was written last, and then
// its values would look like somebody's edit.
func (p *reconciliation) inSync(ctx context.Context, desired queueBuilder) (bool, error) {
	if desired(p.queue).InSync(p.queue) {
		return true, nil
	}
	var err error
	if p.queue, err = getQueue(ctx, p.live, p.quota.QueueName()); err != nil {
		return false, err
	}
	return desired(p.queue).InSync(p.queue), nil
}

// writeQueue applies the plan and tells at once what of others it replaced, whatever becomes
// of the status. settled means that any difference is somebody else's doing.
func (p *reconciliation) writeQueue(ctx context.Context, desired queueBuilder, wasInSync bool) (cardquota.QueueWrite, error) {
	want := desired(p.queue)
	replaced, err := p.applyQueue(ctx, &want, wasInSync)
	if err != nil {
		return cardquota.QueueWrite{}, err
	}
	if wasInSync { // whoever goes on is put back with the next report
		p.throttle.Delay(p.quota.Name)
	}
	if p.queue != nil && !cardquota.HasOwnedFields(p.queue) {
		p.events.Eventf(p.quota, corev1.EventTypeNormal, v1alpha1.EventAdopted,
			"queue %s was there already and is taken over; it will not be deleted with this CardQuota", p.quota.QueueName())
	}
	if len(replaced) > 0 {
		p.events.Eventf(p.quota, corev1.EventTypeWarning, v1alpha1.ReasonForeignChangeReplaced,
			"%s on queue %s; replaced by what this CardQuota says", cardquota.DescribeConflicts(replaced), p.quota.QueueName())
	}
	if p.queue == nil && wasInSync {
		p.events.Eventf(p.quota, corev1.EventTypeWarning, v1alpha1.EventQueueRecreated, "queue %s was gone and has been made again", p.quota.QueueName())
	}
	return cardquota.QueueWrite{Replaced: replaced, WeightHeldBy: want.WeightHeldBy}, nil
}

// applyQueue sends the plan without force first. A conflict tells who else writes:
// fields that are given way are taken out of the plan, the others are forced
// and returned.
func (p *reconciliation) applyQueue(ctx context.Context, want *cardquota.DesiredQueue, wasInSync bool) ([]cardquota.FieldConflict, error) {
	log := logf.FromContext(ctx)
	var drift []cardquota.FieldConflict
	if wasInSync && p.queue != nil {
		for _, field := range want.DriftedFields(p.queue) {
			drift = append(drift, cardquota.FieldConflict{Field: field})
		}
	}
	err := p.client.Apply(ctx, want.Config, client.FieldOwner(v1alpha1.FieldManager))
	if !cardquota.IsFieldConflict(err) {
		if err != nil {
			return nil, fmt.Errorf("apply queue %s: %w", p.quota.QueueName(), err)
		}
		log.V(1).Info("queue written", "queue", p.quota.QueueName())
		return drift, nil
	}
	replaced := slices.DeleteFunc(cardquota.FieldConflicts(err), want.YieldField)
	log.Info("queue has other writers", "queue", p.quota.QueueName(), "replaced", cardquota.DescribeConflicts(replaced), "weightLeftTo", want.WeightHeldBy)
	if err := p.client.Apply(ctx, want.Config, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("apply queue %s with force: %w", p.quota.QueueName(), err)
	}
	return replaced, nil
}

// finalizeQueue undoes what the CardQuota did to its Queue, as its deletionPolicy
// says, and lets it go.
func (p *reconciliation) finalizeQueue(ctx context.Context, owner *v1alpha1.CardQuota, candidates []*v1alpha1.CardQuota) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(p.quota, finalizer) {
		return ctrl.Result{}, nil
	}
	// The next owner takes the Queue as it is: draining it in between would
	// stop work that is granted.
	inherited := owner == nil || owner.Name != p.quota.Name || cardquota.NextOwner(p.quota, candidates) != nil
	// Not from the cache: a Queue that was made a moment ago would be left behind,
	// and what may be deleted is not decided on what was.
	var err error
	if p.queue, err = getQueue(ctx, p.live, p.quota.QueueName()); err != nil {
		return ctrl.Result{}, err
	}
	if p.queue == nil || inherited {
		return p.removeFinalizer(ctx)
	}
	drained := drainStatus{done: true}
	switch {
	case p.quota.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain:
		err = p.removeManagedFields(ctx)
	case p.quota.QueueName() == workload.DefaultQueue:
		err = p.releaseFields(ctx)
	case !cardquota.CreatedByOperator(p.queue):
		err = p.abandonQueue(ctx)
	default:
		drained, err = p.drainQueue(ctx)
	}
	switch {
	case err != nil:
		return p.reportWriteError(ctx, err)
	case !drained.done:
		result, err := p.updateStatus(ctx, cardquota.DrainingCondition(p.quota.QueueName(), drained.members))
		if err != nil {
			return ctrl.Result{}, err
		}
		return shared.RequeueWithin(result, drained.requeueAfter), nil
	}
	return p.removeFinalizer(ctx)
}

// drainStatus is how far draining has come.
type drainStatus struct {
	done bool
	// members is how many pods and PodGroups still use the queue.
	members int
	// again is when to look again, 0 when something that is watched tells.
	requeueAfter time.Duration
}

// drainQueue takes quota and capability away and deletes the Queue once nothing
// names it. While something does it is not done: the end of that is an event.
func (p *reconciliation) drainQueue(ctx context.Context) (drainStatus, error) {
	desired := func(live *v1beta1.Queue) cardquota.DesiredQueue {
		return cardquota.NewDrainedQueue(p.quota, live, p.allocatedText(live))
	}
	wasInSync := conditions.Get(p.quota.Status.Conditions, v1alpha1.ConditionQueueSynced).Reason == v1alpha1.ReasonDraining
	var requeueAfter time.Duration
	if !desired(p.queue).InSync(p.queue) {
		if wasInSync && p.statusDelay > 0 { // a foreign change, see sync
			requeueAfter = p.statusDelay
		} else if _, err := p.writeQueue(ctx, desired, wasInSync); err != nil {
			return drainStatus{}, err
		}
	}
	switch {
	case p.usage == nil:
		return drainStatus{requeueAfter: requeueAfter}, nil
	case p.usage.Members > 0:
		return drainStatus{members: p.usage.Members, requeueAfter: requeueAfter}, nil
	}
	// The last count is up to a second old, and deleting is for ever.
	members, counted, err := p.memberCounts.membersOf(p.quota, func(owners map[string]*v1alpha1.CardQuota) (map[string]int, error) {
		return p.countMembers(ctx, owners)
	})
	if err != nil {
		return drainStatus{}, err
	}
	if !counted || members > 0 {
		return drainStatus{members: members, requeueAfter: memberRetry}, nil
	}
	uid := p.queue.UID
	err = p.client.Delete(ctx, p.queue, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return drainStatus{}, fmt.Errorf("delete queue %s: %w", p.quota.QueueName(), err)
	}
	logf.FromContext(ctx).Info("queue deleted", "queue", p.quota.QueueName())
	return drainStatus{done: true}, nil
}

// abandonQueue leaves a Queue that the operator did not make: without quota and
// capability, so that nothing new starts, and belonging to nobody. What runs
// there goes on, and nobody waits for it.
func (p *reconciliation) abandonQueue(ctx context.Context) error {
	if !cardquota.HasOwnedFields(p.queue) {
		return nil
	}
	desired := func(live *v1beta1.Queue) cardquota.DesiredQueue { return cardquota.NewAbandonedQueue(p.quota, live) }
	if !desired(p.queue).InSync(p.queue) {
		if _, err := p.writeQueue(ctx, desired, false); err != nil {
			return err
		}
	}
	if err := p.removeManagedFields(ctx); err != nil {
		return err
	}
	logf.FromContext(ctx).Info("queue given up, since it was not made for a CardQuota", "queue", p.quota.QueueName())
	return nil
}

// releaseFields applies nothing, which removes every field that only the operator owned.
func (p *reconciliation) releaseFields(ctx context.Context) error {
	if !cardquota.HasOwnedFields(p.queue) {
		return nil
	}
	err := p.client.Apply(ctx, apply.Queue(p.quota.QueueName()), client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("release queue %s: %w", p.quota.QueueName(), err)
	}
	return nil
}

// jsonPointerEscaper writes a key into the path of a JSON patch.
var jsonPointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// removeManagedFields leaves every value but the label of who manages it, and gives the ownership of the fields up.
// Server-side apply has no word for that, so the managed fields themselves are
// written, with the resource version as a lock.
func (p *reconciliation) removeManagedFields(ctx context.Context) error {
	live, err := getQueue(ctx, p.live, p.quota.QueueName())
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
		change = append(change, map[string]any{"op": "remove", "path": "/metadata/labels/" + jsonPointerEscaper.Replace(cardquota.LabelManagedBy)})
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode managed fields: %w", err)
	}
	if err := p.client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("give up queue %s: %w", p.quota.QueueName(), err)
	}
	return nil
}

// removeFinalizer removes the finalizer, the last thing that keeps the CardQuota.
func (p *reconciliation) removeFinalizer(ctx context.Context) (ctrl.Result, error) {
	before := p.quota.DeepCopy()
	controllerutil.RemoveFinalizer(p.quota, finalizer)
	p.metrics.forgetQuota(p.quota.Name)
	return p.patchMeta(ctx, before)
}
