package cardquota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

const (
	// parentIndex is the cache index of CardQuotas by spec.parent.
	parentIndex = "parent"
	// queueParentIndex is the cache index of Queues by spec.parent, except root.
	queueParentIndex = "queueParent"
	// maxPath bounds how far the operator follows parents. Longer paths are too deep anyway.
	maxPath = 64
)

// treeAround returns a tree with the CardQuotas that decide about this one: its ancestors, the other children
// of each, and everything below all of these. If nothing changed since the last count, it is the tree of that count,
// which has all CardQuotas.
func (r *reconciliation) treeAround(ctx context.Context) (*cardquota.Tree, error) {
	if !policy.IsTree(r.inForce) {
		return cardquota.Flat, nil
	}

	// Building a part of it again for each reconcile costs many lists.
	if tree, isFresh := r.Reconciler.usage.FreshTree(); isFresh && tree.IsMadeFrom(r.quota) {
		return tree, nil
	}

	members := map[string]*v1alpha1.CardQuota{r.quota.Name: r.quota}
	addChildren := func(parent string) error {
		children, err := r.childQuotas(ctx, parent)
		for _, child := range children {
			if _, known := members[child.Name]; !known {
				members[child.Name] = child
			}
		}
		return err
	}
	if err := addChildren(r.quota.Name); err != nil {
		return nil, err
	}

	if err := r.addAncestors(ctx, members, addChildren); err != nil {
		return nil, err
	}
	if err := addBelow(members, addChildren); err != nil {
		return nil, err
	}

	return r.treeOfOwners(ctx, members)
}

// addAncestors adds the ancestors of the CardQuota to the members, and the children of each.
func (r *reconciliation) addAncestors(ctx context.Context, members map[string]*v1alpha1.CardQuota, addChildren func(parent string) error) error {
	// Users can write cycles and endless chains, so the walk is bounded.
	seen := map[string]bool{}
	for at := r.quota; at.Spec.Parent != "" && !seen[at.Name] && len(seen) < maxPath; {
		seen[at.Name] = true
		if err := addChildren(at.Spec.Parent); err != nil {
			return err
		}

		above := &v1alpha1.CardQuota{}
		err := r.client.Get(ctx, client.ObjectKey{Name: at.Spec.Parent}, above)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read parent %s: %w", at.Spec.Parent, err)
		}

		if _, known := members[above.Name]; !known {
			members[above.Name] = above
		}
		at = above
	}

	return nil
}

// addBelow adds all CardQuotas below the members: what is written below decides whether a limit of CPU or memory is
// divided among children, and whether Volcano needs one.
func addBelow(members map[string]*v1alpha1.CardQuota, addChildren func(parent string) error) error {
	next := slices.Collect(maps.Keys(members))
	for seen := map[string]bool{}; len(next) > 0; {
		for _, name := range next {
			seen[name] = true
			if err := addChildren(name); err != nil {
				return err
			}
		}
		next = slices.DeleteFunc(slices.Collect(maps.Keys(members)), func(name string) bool { return seen[name] })
	}

	return nil
}

// treeOfOwners returns the tree of the CardQuotas that own their queues, and of the Queues
// below those that no CardQuota owns.
func (r *reconciliation) treeOfOwners(ctx context.Context, members map[string]*v1alpha1.CardQuota) (*cardquota.Tree, error) {
	owners := make([]*v1alpha1.CardQuota, 0, len(members))
	queues := make([]string, 0, len(members))
	for _, member := range members {
		owner, err := r.ownerOfQueue(ctx, member.QueueName())
		if err != nil {
			return nil, err
		}
		// A CardQuota that lost its Queue to another one has no part in the tree that is
		// enforced. The one that is reconciled stays, because its place is wanted.
		if member.Name != r.quota.Name && owner != nil && owner.Name != member.Name {
			continue
		}

		owners = append(owners, member)
		queues = append(queues, member.QueueName())
	}

	others, err := unownedBelow(queues, func(queue string) ([]*v1beta1.Queue, error) {
		children, err := r.childQueues(ctx, queue)
		children = slices.DeleteFunc(children, func(child *v1beta1.Queue) bool {
			owner, readErr := r.ownerOfQueue(ctx, child.Name)
			err = errors.Join(err, readErr)
			return owner != nil
		})
		return children, err
	})
	if err != nil {
		return nil, err
	}

	return cardquota.NewTree(owners, others, policy.UnmanagedQueues(r.inForce)), nil
}

// unownedBelow returns all Queues below the given ones, as far as no CardQuota owns them. children returns
// the Queues directly below one, without those that a CardQuota owns.
func unownedBelow(queues []string, children func(queue string) ([]*v1beta1.Queue, error)) (found []*v1beta1.Queue, err error) {
	seen := map[string]bool{}
	for next := slices.Clone(queues); len(next) > 0; next = next[1:] {
		if seen[next[0]] {
			continue
		}

		seen[next[0]] = true
		below, err := children(next[0])
		if err != nil {
			return nil, err
		}

		for _, queue := range below {
			found = append(found, queue)
			next = append(next, queue.Name)
		}
	}

	return found, nil
}

// ownerOfQueue returns the CardQuota that owns a queue, nil for none. It is not a copy.
func (r *Reconciler) ownerOfQueue(ctx context.Context, queue string) (*v1alpha1.CardQuota, error) {
	var candidates v1alpha1.CardQuotaList
	if err := r.client.List(ctx, &candidates, client.MatchingFields{queueIndex: queue}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CardQuotas of queue %s: %w", queue, err)
	}
	return cardquota.QueueOwner(workload.PointersTo(candidates.Items)), nil
}

// childQuotas returns the CardQuotas that name a parent. They are not copies.
func (r *Reconciler) childQuotas(ctx context.Context, parent string) ([]*v1alpha1.CardQuota, error) {
	var list v1alpha1.CardQuotaList
	if err := r.client.List(ctx, &list, client.MatchingFields{parentIndex: parent}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list children of CardQuota %s: %w", parent, err)
	}
	return workload.PointersTo(list.Items), nil
}

// childQueues returns the Queues directly below a Queue. They are not copies.
func (r *Reconciler) childQueues(ctx context.Context, parent string) ([]*v1beta1.Queue, error) {
	var list v1beta1.QueueList
	if err := r.client.List(ctx, &list, client.MatchingFields{queueParentIndex: parent}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list children of queue %s: %w", parent, err)
	}
	return workload.PointersTo(list.Items), nil
}

// placeQueue returns where the Queue belongs now, and why it does not have all that the CardQuota says, nil if it
// does.
func (r *reconciliation) placeQueue(ctx context.Context) (place cardquota.Placement, wait *cardquota.Wait, err error) {
	if r.tree.IsFlat() { // Queues that a tree placed below it move to the top level first
		wait, err := r.waitForMovingChildren(ctx)
		return r.tree.Placement(r.quota, workload.RootQueue), wait, err
	}
	neighbors, err := r.readNeighbors(ctx)
	if err != nil {
		return place, nil, err
	}

	parent, wait := r.tree.PlaceQueue(r.quota, neighbors)
	if wait != nil && wait.KeepsQueue {
		return place, wait, nil
	}

	// CPU and memory must fit below the Queue where it really is, which another manager may
	// decide.
	above := parent
	if cardquota.HasOtherParentManager(r.queue, parent) {
		above = r.queue.Spec.Parent
	}

	family, err := r.readFamily(ctx, above)
	if err != nil {
		return place, nil, err
	}

	// Stage brings CPU and memory as close to the CardQuota as parent, siblings and children allow now. The
	// status can show one wait. That for the place comes first: CPU and memory depend on the place.
	place, resourceWait := r.tree.Placement(r.quota, parent).Stage(r.quota, family)
	if wait == nil {
		wait = resourceWait
	}

	return place, wait, nil
}

// lockMoves keeps other reconciles from moving Queues below others, if this one may do so.
// Two moves at the same time could make a cycle. A Queue that is created, goes to the top level or keeps its parent
// makes none. The caller calls the returned function when the Queue is written.
func (r *reconciliation) lockMoves() (unlock func()) {
	ancestors := r.tree.Ancestors(r.quota.Name)
	if r.queue == nil || len(ancestors) == 0 || r.queue.Spec.Parent == ancestors[0].QueueName() {
		return func() {}
	}
	r.moves.Lock()
	return r.moves.Unlock
}

// readNeighbors returns the Queue of the parent CardQuota and those above it, if the Queue has to be created below them
// or moved there. It reads the API server, since a move by an old cache could make a cycle.
func (r *reconciliation) readNeighbors(ctx context.Context) (cardquota.Neighbors, error) {
	neighbors := cardquota.Neighbors{Live: r.queue}
	ancestors := r.tree.Ancestors(r.quota.Name)
	if len(ancestors) == 0 {
		return neighbors, nil
	}

	wanted := ancestors[0].QueueName()
	if r.queue != nil && r.queue.Spec.Parent == wanted {
		return neighbors, nil
	}

	var err error
	neighbors.Parent, err = getQueue(ctx, r.live, wanted)
	if err != nil || neighbors.Parent == nil {
		return neighbors, err
	}

	for at := neighbors.Parent; at != nil && len(neighbors.AboveParent) < maxPath; {
		above := at.Spec.Parent
		if above == "" || above == workload.RootQueue || slices.Contains(neighbors.AboveParent, above) {
			break
		}

		neighbors.AboveParent = append(neighbors.AboveParent, above)
		at, err = getQueue(ctx, r.live, above)
		if err != nil {
			return neighbors, err
		}
	}

	return neighbors, nil
}

// readFamily returns the Queues whose CPU and memory bound those of the Queue below a parent: its children, its
// siblings and the parent. Root has no limit, so below it only the children count.
func (r *reconciliation) readFamily(ctx context.Context, parent string) (family cardquota.Family, err error) {
	name := r.quota.QueueName()
	family.Children, err = r.childQueues(ctx, name)
	if err != nil || parent == workload.RootQueue {
		return family, err
	}

	family.Parent, err = getQueue(ctx, r.client, parent)
	if err != nil {
		return family, err
	}

	family.Siblings, err = r.childQueues(ctx, parent)
	family.Siblings = slices.DeleteFunc(family.Siblings, func(q *v1beta1.Queue) bool { return q.Name == name })
	return family, err
}

// waitForMovingChildren returns what a flat Queue waits for: Queues that the operator placed
// below it in a tree go to the top level first.
func (r *reconciliation) waitForMovingChildren(ctx context.Context) (*cardquota.Wait, error) {
	children, err := r.childQueues(ctx, r.quota.QueueName())
	if err != nil {
		return nil, err
	}
	children = slices.DeleteFunc(children, func(q *v1beta1.Queue) bool { return !cardquota.IsBelowQueue(q) })
	return cardquota.MovingChildrenWait(r.quota, children), nil
}

// waitForChildren returns what the deletion of a parent waits for: Volcano deletes no Queue
// that has others below it, and those would lose the quota from which theirs comes. With Retain the Queue stays.
func (r *reconciliation) waitForChildren(ctx context.Context) (*cardquota.Wait, error) {
	if r.tree.IsFlat() || r.quota.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		return nil, nil
	}
	children, err := r.childQueues(ctx, r.quota.QueueName())
	if err != nil {
		return nil, err
	}
	return cardquota.DeletionWait(r.quota, children), nil
}

// reportWait reports that the Queue is not written, and retries soon.
func (r *reconciliation) reportWait(ctx context.Context, wait *cardquota.Wait) (ctrl.Result, error) {
	return r.updateStatusAndRetry(ctx, conditions.New(metav1.ConditionFalse, wait.Reason, "%s", wait.Message), r.retryDelay())
}

// updateStatusAndRetry is updateStatus for a state that the operator looks at again after some time, 0 for not by
// itself.
func (r *reconciliation) updateStatusAndRetry(ctx context.Context, sync metav1.Condition, again time.Duration) (ctrl.Result, error) {
	result, err := r.updateStatus(ctx, sync)
	if err != nil {
		return ctrl.Result{}, err
	}
	return shared.RequeueWithin(result, again), nil
}

// retryDelay returns when to retry what condition QueueSynced reports as False: as long again as
// it has been False, so that what never succeeds costs little.
func (r *reconciliation) retryDelay() time.Duration {
	c := conditions.Get(r.quota.Status.Conditions, v1alpha1.ConditionQueueSynced)
	if c.Status != metav1.ConditionFalse {
		return waitingRetry
	}
	return min(max(r.now.Sub(c.LastTransitionTime.Time), waitingRetry), shared.RefusedRetry)
}
