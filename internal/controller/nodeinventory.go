// Package controller contains what the controllers of the operator share: the inventory of all
// nodes, and the throttle of status writes.
package controller

import (
	"context"
	"fmt"
	"maps"
	"strings"
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

// NodeInventory keeps the cards of all nodes, in every replica of the operator. It recognises them
// by labels and by the mappings of the ServiceTypePolicy in force. A resource
// that was a card once stays one while the operator runs. An annotation of the bypass
// ValidatingAdmissionPolicy keeps it across restarts.
type NodeInventory struct {
	informers cache.Informers
	callbacks []func()
	// nodeCallbacks are called for every change that TrackedNodes may show.
	nodeCallbacks []func()

	mu      sync.Mutex
	tracker card.Tracker
	synced  bool
	// lastPolicy is the last ServiceTypePolicy that took effect, nil for none.
	lastPolicy *v1alpha1.ServiceTypePolicy
}

// NewNodeInventory returns a NodeInventory, which must be added to the manager.
func NewNodeInventory(informers cache.Informers) *NodeInventory {
	return &NodeInventory{informers: informers}
}

// NeedLeaderElection returns false: every replica answers admission requests.
func (*NodeInventory) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. Until the context ends it watches the nodes, and what decides which of
// their resources are cards: the policy, and the ValidatingAdmissionPolicy that keeps the resources of
// earlier cards.
func (n *NodeInventory) Start(ctx context.Context) error {
	var haveSynced []toolscache.InformerSynced
	for _, w := range []struct {
		object         client.Object
		update, remove func(any)
	}{
		// What is known from the other two stays when they are deleted.
		{&corev1.Node{}, n.updateNode, n.deleteNode},
		{&admissionv1.ValidatingAdmissionPolicy{}, n.rememberResources, nil},
		{&v1alpha1.ServiceTypePolicy{}, n.updatePolicy, nil},
	} {
		hasSynced, err := n.addHandler(ctx, w.object, w.update, w.remove)
		if err != nil {
			return err
		}
		haveSynced = append(haveSynced, hasSynced)
	}

	// Until all three are read, cards may be unknown, and nothing may be decided by the
	// inventory.
	if toolscache.WaitForCacheSync(ctx.Done(), haveSynced...) {
		n.applyChange(func() bool {
			n.synced = true
			return true // the readers of the inventory can start
		})
	}

	<-ctx.Done()
	return nil
}

// addHandler calls update for each object of a kind that is new or changed, and remove, if it is not nil, for each that
// is gone. The returned function reports whether update has seen all objects that exist.
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

// OnNodeChange registers a function that is called when TrackedNodes may show something else, such
// as the capacity of a node. It must be called before Start; the function must not block.
func (n *NodeInventory) OnNodeChange(changed func()) {
	n.nodeCallbacks = append(n.nodeCallbacks, changed)
}

// TrackedNodes returns all nodes, sorted by name. It returns false until every node was read
// once.
func (n *NodeInventory) TrackedNodes() ([]card.TrackedNode, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tracker.TrackedNodes(), n.synced
}

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

// Nodes returns the state of all nodes, see card.Tracker.
func (n *NodeInventory) Nodes() []card.NodeState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tracker.Nodes()
}

// updateNode keeps a node as it is now. It calls nodeCallbacks only if the CardInventory may show another state:
// kubelets write the status of a node all the time.
func (n *NodeInventory) updateNode(object any) {
	if node, ok := object.(*corev1.Node); ok {
		var before *corev1.Node
		n.applyChange(func() bool {
			before = n.tracker.Node(node.Name)
			return n.tracker.Update(node)
		})
		if before == nil || !hasSameCards(before, node) {
			callAll(n.nodeCallbacks)
		}
	}
}

// hasSameCards reports whether the CardInventory shows the same for two versions of a node. It is made from nothing
// else of them.
func hasSameCards(before, after *corev1.Node) bool {
	if before == after {
		return true
	}
	hasSameState := before.Spec.Unschedulable == after.Spec.Unschedulable && card.IsNodeReady(before) == card.IsNodeReady(after)
	return hasSameState && maps.Equal(before.Labels, after.Labels) &&
		sameResources(before.Status.Allocatable, after.Status.Allocatable) && sameResources(before.Status.Capacity, after.Status.Capacity)
}

// sameResources reports whether two lists have the same resources that can be cards: those with a domain. Others,
// such as ephemeral-storage, may change all the time.
func sameResources(a, b corev1.ResourceList) bool {
	hasAll := func(one, other corev1.ResourceList) bool { // whether other has what one has
		for name, quantity := range one {
			if now, ok := other[name]; strings.Contains(string(name), "/") && (!ok || now.Cmp(quantity) != 0) {
				return false
			}
		}
		return true
	}
	return hasAll(a, b) && hasAll(b, a)
}

// deleteNode forgets a node. The watch brings a tombstone for one whose deletion it has missed.
func (n *NodeInventory) deleteNode(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if node, ok := object.(*corev1.Node); ok {
		n.applyChange(func() bool { return n.tracker.Delete(node.Name) })
		callAll(n.nodeCallbacks)
	}
}

// setMappings recognises cards by the mappings of a policy from now on.
func (n *NodeInventory) setMappings(mappings card.Mappings) {
	isChanged := false
	n.applyChange(func() bool {
		isChanged = n.tracker.SetMappings(mappings)
		return isChanged
	})
	if isChanged {
		callAll(n.nodeCallbacks)
	}
}

// rememberResources takes as cards, for good, the resources in the annotation of an admission policy: they were cards
// before the operator restarted.
func (n *NodeInventory) rememberResources(object any) {
	if guard, ok := object.(*admissionv1.ValidatingAdmissionPolicy); ok {
		n.applyChange(func() bool {
			return n.tracker.AddResources(card.SplitResources(guard.Annotations[v1alpha1.AnnotationCardResources])...)
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
		callAll(n.callbacks)
	}
}

func callAll(callbacks []func()) {
	for _, call := range callbacks {
		call()
	}
}
