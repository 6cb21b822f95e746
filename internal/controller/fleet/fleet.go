// Package fleet keeps in mind which cards the nodes of the cluster offer, in
// every replica of the operator, for those who must know at once what a card is.
package fleet

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"cardquota.dev/operator/internal/bypass"
	"cardquota.dev/operator/internal/card"
)

// Fleet is the cards of all nodes. A resource that was a card once stays one: it
// is remembered while the operator runs, and beyond that in the annotation of the
// ValidatingAdmissionPolicy against bypassing the scheduler.
type Fleet struct {
	informers cache.Informers
	changed   chan event.TypedGenericEvent[string]

	mu     sync.Mutex
	nodes  map[string]card.Node
	known  []corev1.ResourceName
	made   *card.Inventory // nil when nodes changed since
	synced bool
}

// New returns a Fleet that must be added to the manager.
func New(informers cache.Informers) *Fleet {
	return &Fleet{informers: informers, nodes: map[string]card.Node{}, changed: make(chan event.TypedGenericEvent[string], 1)}
}

// NeedLeaderElection is false: every replica answers admission requests.
func (*Fleet) NeedLeaderElection() bool { return false }

// Start follows the nodes until the context ends.
func (f *Fleet) Start(ctx context.Context) error {
	nodes, err := f.informers.GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	policies, err := f.informers.GetInformer(ctx, &admissionv1.ValidatingAdmissionPolicy{})
	if err != nil {
		return fmt.Errorf("watch the admission policy: %w", err)
	}
	seen, err := nodes.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: f.see, UpdateFunc: func(_, node any) { f.see(node) }, DeleteFunc: f.forget,
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	read, err := policies.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: f.remember, UpdateFunc: func(_, policy any) { f.remember(policy) },
	})
	if err != nil {
		return fmt.Errorf("watch the admission policy: %w", err)
	}
	if toolscache.WaitForCacheSync(ctx.Done(), seen.HasSynced, read.HasSynced) {
		f.mu.Lock()
		f.synced = true
		f.mu.Unlock()
		f.tell()
	}
	<-ctx.Done()
	return nil
}

// Inventory returns the cards of all nodes. It is false until every node was
// read once.
func (f *Fleet) Inventory() (*card.Inventory, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made == nil {
		nodes := make(map[string]card.Node, len(f.nodes))
		for name, node := range f.nodes {
			nodes[name] = node
		}
		f.made = card.NewInventory(nodes, f.known...)
	}
	return f.made, f.synced
}

// Changed tells that cards came, went or became others.
func (f *Fleet) Changed() <-chan event.TypedGenericEvent[string] { return f.changed }

func (f *Fleet) see(object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	is := card.Recognise(node)
	f.mu.Lock()
	was, there := f.nodes[node.Name]
	same := there && reflect.DeepEqual(was, is)
	if !same {
		f.nodes[node.Name], f.made = is, nil
		for _, holding := range is.Holdings {
			f.learn(holding.Resource)
		}
		f.learn(is.Unnamed...)
	}
	f.mu.Unlock()
	if !same {
		f.tell()
	}
}

func (f *Fleet) forget(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	f.mu.Lock()
	delete(f.nodes, node.Name)
	f.made = nil
	f.mu.Unlock()
	f.tell()
}

// remember adds the resources that an admission policy has taken for cards.
func (f *Fleet) remember(object any) {
	policy, ok := object.(*admissionv1.ValidatingAdmissionPolicy)
	if !ok {
		return
	}
	f.mu.Lock()
	before := len(f.known)
	f.learn(bypass.ResourcesOf(policy)...)
	grown := len(f.known) > before
	f.mu.Unlock()
	if grown {
		f.tell()
	}
}

// learn adds resources that are cards; f.mu is held.
func (f *Fleet) learn(resources ...corev1.ResourceName) {
	for _, resource := range resources {
		if !slices.Contains(f.known, resource) {
			f.known, f.made = append(f.known, resource), nil
		}
	}
}

// tell wakes who follows, once for everything that happened until it looks.
func (f *Fleet) tell() {
	select {
	case f.changed <- event.TypedGenericEvent[string]{}:
	default:
	}
}
