package cardquota

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/workload"
)

// finalizer keeps a CardQuota until its Queue is gone or given back.
const finalizer = "cardquota.dev/queue"

// memberRetry is how long a Queue waits that something names which the last
// count did not know: it may be gone again before any count sees it.
const memberRetry = time.Second

// finalize undoes what the CardQuota did to its Queue, as its deletionPolicy
// says, and lets it go.
func (p *pass) finalize(ctx context.Context, owner *v1alpha1.CardQuota, rivals []*v1alpha1.CardQuota) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(p.quota, finalizer) {
		return ctrl.Result{}, nil
	}
	// The next owner takes the Queue as it is: draining it in between would
	// stop work that is granted.
	inherited := owner == nil || owner.Name != p.quota.Name || cardquota.Successor(p.quota, rivals) != nil
	// Not from the cache: a Queue that was made a moment ago would be left behind,
	// and what may be deleted is not decided on what was.
	var err error
	if p.queue, err = getQueue(ctx, p.live, p.quota.QueueName()); err != nil {
		return ctrl.Result{}, err
	}
	if p.queue == nil || inherited {
		return p.letGo(ctx)
	}
	drained := drainage{done: true}
	switch {
	case p.quota.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain:
		err = p.disown(ctx)
	case p.quota.QueueName() == workload.DefaultQueue:
		err = p.release(ctx)
	case !cardquota.Created(p.queue):
		err = p.giveUp(ctx)
	default:
		drained, err = p.drain(ctx)
	}
	switch {
	case err != nil:
		return p.failed(ctx, err)
	case !drained.done:
		return p.reportAndReturn(ctx, cardquota.Draining(p.quota.QueueName(), drained.members), drained.again)
	}
	return p.letGo(ctx)
}

// drainage is how far draining has come.
type drainage struct {
	done bool
	// members is how many pods and PodGroups still use the queue.
	members int
	// again is when to look again, 0 when something that is watched tells.
	again time.Duration
}

// drain takes quota and capability away and deletes the Queue once nothing
// names it. While something does it is not done: the end of that is an event.
func (p *pass) drain(ctx context.Context) (drainage, error) {
	plan := func(live *v1beta1.Queue) cardquota.Plan { return cardquota.Drained(p.quota, live, p.allocated(live)) }
	settled := conditions.Get(p.quota.Status.Conditions, v1alpha1.ConditionQueueSynced).Reason == v1alpha1.ReasonDraining
	var again time.Duration
	if !plan(p.queue).InSync(p.queue) {
		if settled && p.wait > 0 { // a foreign change, see sync
			again = p.wait
		} else if _, err := p.write(ctx, plan, settled); err != nil {
			return drainage{}, err
		}
	}
	if p.usage == nil || p.usage.Members > 0 {
		members := 0
		if p.usage != nil {
			members = p.usage.Members
		}
		return drainage{members: members, again: again}, nil
	}
	// The last count is up to a second old, and deleting is for ever.
	members, counted, err := p.counts.of(p.quota, func(owners map[string]*v1alpha1.CardQuota) (map[string]int, error) {
		return p.countMembers(ctx, owners)
	})
	if err != nil {
		return drainage{}, err
	}
	if !counted || members > 0 {
		return drainage{members: members, again: memberRetry}, nil
	}
	uid := p.queue.UID
	err = p.client.Delete(ctx, p.queue, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return drainage{}, fmt.Errorf("delete queue %s: %w", p.quota.QueueName(), err)
	}
	logf.FromContext(ctx).Info("queue deleted", "queue", p.quota.QueueName())
	return drainage{done: true}, nil
}

// giveUp leaves a Queue that the operator did not make: without quota and
// capability, so that nothing new starts, and belonging to nobody. What runs
// there goes on, and nobody waits for it.
func (p *pass) giveUp(ctx context.Context) error {
	if !cardquota.Owned(p.queue) {
		return nil
	}
	plan := func(live *v1beta1.Queue) cardquota.Plan { return cardquota.GivenUp(p.quota, live) }
	if !plan(p.queue).InSync(p.queue) {
		if _, err := p.write(ctx, plan, false); err != nil {
			return err
		}
	}
	if err := p.disown(ctx); err != nil {
		return err
	}
	logf.FromContext(ctx).Info("queue given up, since it was not made for a CardQuota", "queue", p.quota.QueueName())
	return nil
}

// release takes back every field that only the operator owned.
func (p *pass) release(ctx context.Context) error {
	if !cardquota.Owned(p.queue) {
		return nil
	}
	err := p.client.Apply(ctx, cardquota.Released(p.quota.QueueName()).Config, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("release queue %s: %w", p.quota.QueueName(), err)
	}
	return nil
}

// jsonPath writes a key into the path of a JSON patch.
var jsonPath = strings.NewReplacer("~", "~0", "/", "~1")

// disown leaves every value but the label of who manages it, and gives the ownership of the fields up.
// Server-side apply has no word for that, so the managed fields themselves are
// written, with the resource version as a lock.
func (p *pass) disown(ctx context.Context) error {
	live, err := getQueue(ctx, p.live, p.quota.QueueName())
	if err != nil {
		return err
	}
	if live == nil || !cardquota.Owned(live) {
		return nil
	}
	change := []map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": cardquota.Disowned(live)},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.ResourceVersion},
	}
	if cardquota.Labelled(live) {
		change = append(change, map[string]any{"op": "remove", "path": "/metadata/labels/" + jsonPath.Replace(cardquota.LabelManagedBy)})
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

// letGo removes the finalizer, the last thing that keeps the CardQuota.
func (p *pass) letGo(ctx context.Context) (ctrl.Result, error) {
	before := p.quota.DeepCopy()
	controllerutil.RemoveFinalizer(p.quota, finalizer)
	p.series.forget(p.quota.Name)
	return p.patchMeta(ctx, before)
}
