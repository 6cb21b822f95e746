// Package controller holds what the controllers of the operator share: the cards of
// all nodes, and the pace at which statuses are written.
package controller

import (
	"context"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// Component is the source of the operator's events.
const Component = "cardquota-manager"

// Nodes keeps the cards of all nodes, in every replica of the operator. A resource
// that was a card once stays one: while the operator runs, and beyond that by the
// annotation of the ValidatingAdmissionPolicy against bypassing the scheduler.
type Nodes struct {
	informers cache.Informers
	followers []func()

	mu      sync.Mutex
	tracker card.Tracker
	synced  bool
}

// NewNodes returns Nodes that must be added to the manager.
func NewNodes(informers cache.Informers) *Nodes { return &Nodes{informers: informers} }

// NeedLeaderElection is false: every replica answers admission requests.
func (*Nodes) NeedLeaderElection() bool { return false }

// Start follows the nodes until the context ends.
func (n *Nodes) Start(ctx context.Context) error {
	seen, err := n.handle(ctx, &corev1.Node{}, n.update, n.delete)
	if err != nil {
		return err
	}
	read, err := n.handle(ctx, &admissionv1.ValidatingAdmissionPolicy{}, n.remember, nil)
	if err != nil {
		return err
	}
	if toolscache.WaitForCacheSync(ctx.Done(), seen, read) {
		n.change(func() bool {
			n.synced = true
			return true
		})
	}
	<-ctx.Done()
	return nil
}

func (n *Nodes) handle(ctx context.Context, object client.Object, update, remove func(any)) (toolscache.InformerSynced, error) {
	informer, err := n.informers.GetInformer(ctx, object)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", object, err)
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: update, UpdateFunc: func(_, object any) { update(object) }, DeleteFunc: remove,
	})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", object, err)
	}
	return handle.HasSynced, nil
}

// Follow calls a function whenever cards come, go or become others, and when all
// nodes were read. It must be called before Start; the function must not block.
func (n *Nodes) Follow(changed func()) { n.followers = append(n.followers, changed) }

// Inventory returns the cards of all nodes. It is false until every node was
// read once.
func (n *Nodes) Inventory() (*card.Inventory, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tracker.Inventory(), n.synced
}

// Healthy returns the cards of Ready nodes, see card.Tracker.
func (n *Nodes) Healthy() map[card.Name]card.Count {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tracker.Healthy()
}

func (n *Nodes) update(object any) {
	if node, ok := object.(*corev1.Node); ok {
		n.change(func() bool { return n.tracker.Update(node) })
	}
}

func (n *Nodes) delete(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if node, ok := object.(*corev1.Node); ok {
		n.change(func() bool { return n.tracker.Delete(node.Name) })
	}
}

// remember adds the resources that an admission policy has taken for cards.
func (n *Nodes) remember(object any) {
	if policy, ok := object.(*admissionv1.ValidatingAdmissionPolicy); ok {
		n.change(func() bool {
			return n.tracker.AddResources(card.SplitResources(policy.Annotations[v1alpha1.AnnotationCardResources])...)
		})
	}
}

// change makes a change under the lock and calls the followers if it was one.
func (n *Nodes) change(make func() bool) {
	n.mu.Lock()
	changed := make()
	n.mu.Unlock()
	if changed {
		for _, follower := range n.followers {
			follower()
		}
	}
}
