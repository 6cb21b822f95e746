// Package controller holds what the controllers of the operator share: the inventory of all
// nodes, and the throttle of status writes.
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

// NodeInventory keeps the cards of all nodes, in every replica of the operator. A resource
// that was a card once stays one while the operator runs. An annotation of the bypass
// ValidatingAdmissionPolicy keeps it across restarts.
type NodeInventory struct {
	informers cache.Informers
	callbacks []func()

	mu      sync.Mutex
	tracker card.Tracker
	synced  bool
}

// NewNodeInventory returns a NodeInventory, which must be added to the manager.
func NewNodeInventory(informers cache.Informers) *NodeInventory {
	return &NodeInventory{informers: informers}
}

// NeedLeaderElection returns false: every replica answers admission requests.
func (*NodeInventory) NeedLeaderElection() bool { return false }

// Start watches the nodes until the context ends.
func (n *NodeInventory) Start(ctx context.Context) error {
	seen, err := n.addHandler(ctx, &corev1.Node{}, n.updateNode, n.deleteNode)
	if err != nil {
		return err
	}
	read, err := n.addHandler(ctx, &admissionv1.ValidatingAdmissionPolicy{}, n.rememberResources, nil)
	if err != nil {
		return err
	}
	if toolscache.WaitForCacheSync(ctx.Done(), seen, read) {
		n.applyChange(func() bool {
			n.synced = true
			return true
		})
	}
	<-ctx.Done()
	return nil
}

func (n *NodeInventory) addHandler(ctx context.Context, object client.Object, update, remove func(any)) (toolscache.InformerSynced, error) {
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

// OnChange registers a function that is called when the inventory changes and when all
// nodes were read. It must be called before Start; the function must not block.
func (n *NodeInventory) OnChange(changed func()) { n.callbacks = append(n.callbacks, changed) }

// Inventory returns the cards of all nodes. It returns false until every node was read
// once.
func (n *NodeInventory) Inventory() (*card.Inventory, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tracker.Inventory(), n.synced
}

// Healthy returns the cards of Ready nodes, see card.Tracker.
func (n *NodeInventory) Healthy() map[card.Name]card.Count {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tracker.Healthy()
}

func (n *NodeInventory) updateNode(object any) {
	if node, ok := object.(*corev1.Node); ok {
		n.applyChange(func() bool { return n.tracker.Update(node) })
	}
}

func (n *NodeInventory) deleteNode(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if node, ok := object.(*corev1.Node); ok {
		n.applyChange(func() bool { return n.tracker.Delete(node.Name) })
	}
}

// rememberResources adds the card resources in the annotation of an admission policy.
func (n *NodeInventory) rememberResources(object any) {
	if policy, ok := object.(*admissionv1.ValidatingAdmissionPolicy); ok {
		n.applyChange(func() bool {
			return n.tracker.AddResources(card.SplitResources(policy.Annotations[v1alpha1.AnnotationCardResources])...)
		})
	}
}

// applyChange makes a change under the lock and calls the callbacks if it changed the
// inventory.
func (n *NodeInventory) applyChange(apply func() bool) {
	n.mu.Lock()
	changed := apply()
	n.mu.Unlock()
	if changed {
		for _, follower := range n.callbacks {
			follower()
		}
	}
}
