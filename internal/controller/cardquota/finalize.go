package cardquota

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/queue"
	"cardquota.dev/operator/internal/quotastatus"
)

// finalize undoes what the CardQuota did to its Queue, as its deletionPolicy
// says, and lets it go.
func (p *pass) finalize(ctx context.Context, owner *v1alpha1.CardQuota, rivals []*v1alpha1.CardQuota) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(p.quota, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	// The next owner takes the Queue as it is: draining it in between would
	// stop work that is granted.
	inherited := owner == nil || owner.Name != p.quota.Name || queue.Successor(p.quota, rivals) != nil
	if p.queue == nil || inherited {
		return p.letGo(ctx)
	}
	var err error
	done := true
	switch {
	case p.quota.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain:
		err = p.disown(ctx)
	case p.quota.Queue() == v1alpha1.QueueDefault:
		err = p.release(ctx)
	default:
		done, err = p.drain(ctx)
	}
	switch {
	case err != nil:
		return p.failed(ctx, err)
	case !done:
		members := 0
		if p.usage != nil {
			members = p.usage.Members
		}
		return p.report(ctx, quotastatus.Draining(p.quota.Queue(), members))
	}
	return p.letGo(ctx)
}

// drain takes quota and capability away and deletes the Queue once nothing
// names it. It is false while something does: its end is an event.
func (p *pass) drain(ctx context.Context) (bool, error) {
	plan := func(live *v1beta1.Queue) queue.Plan { return queue.Drained(p.quota, live, p.allocated(live)) }
	inSync, err := p.inSync(ctx, plan)
	if err != nil {
		return false, err
	}
	if p.queue == nil {
		return true, nil
	}
	if !inSync {
		if _, err := p.write(ctx, plan, false); err != nil {
			return false, err
		}
	}
	if p.usage == nil || p.usage.Members > 0 {
		return false, nil
	}
	uid := p.queue.UID
	err = p.client.Delete(ctx, p.queue, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete queue %s: %w", p.quota.Queue(), err)
	}
	logf.FromContext(ctx).Info("queue deleted", "queue", p.quota.Queue())
	return true, nil
}

// release takes back every field that only the operator owned.
func (p *pass) release(ctx context.Context) error {
	if !queue.Owned(p.queue) {
		return nil
	}
	err := p.client.Apply(ctx, queue.Released(p.quota.Queue()).Config, client.FieldOwner(queue.FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("release queue %s: %w", p.quota.Queue(), err)
	}
	return nil
}

// disown leaves every value as it is and gives the ownership of the fields up.
// Server-side apply has no word for that, so the managed fields themselves are
// written, with the resource version as a lock.
func (p *pass) disown(ctx context.Context) error {
	live, err := getQueue(ctx, p.live, p.quota.Queue())
	if err != nil {
		return err
	}
	if live == nil || !queue.Owned(live) {
		return nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": queue.Disowned(live)},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("encode managed fields: %w", err)
	}
	if err := p.client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(queue.FieldManager)); err != nil {
		return fmt.Errorf("give up queue %s: %w", p.quota.Queue(), err)
	}
	return nil
}

// letGo removes the finalizer, the last thing that keeps the CardQuota.
func (p *pass) letGo(ctx context.Context) (ctrl.Result, error) {
	before := p.quota.DeepCopy()
	controllerutil.RemoveFinalizer(p.quota, v1alpha1.Finalizer)
	p.series.forget(p.quota.Name)
	return p.patchMeta(ctx, before)
}
