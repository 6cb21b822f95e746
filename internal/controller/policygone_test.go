package controller

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// policyInForce returns a policy whose status says that these mappings are in force.
func policyInForce(cards ...v1alpha1.CardMapping) *v1alpha1.ServiceTypePolicy {
	p := builder.ServiceTypePolicy().Obj()
	p.Status.Cards = cards
	p.Status.ServiceTypes = []v1alpha1.ServiceTypeStatus{{Name: "training"}}
	return p
}

// fakeInformers pass events to the handlers of the last kind that was watched.
type fakeInformers struct {
	cache.Informers
	cache.Informer
	handler toolscache.ResourceEventHandler
}

func (f *fakeInformers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return f, nil
}

func (f *fakeInformers) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	f.handler = handler
	return f, nil
}

func (f *fakeInformers) HasSynced() bool { return true }

// TestMappedChargesOutliveThePolicy: the ServiceTypePolicy maps resource hygon.com/dcu to card K100, and pod p uses 4
// of them. The scheduler goes on charging mapped cards while the policy is deleted or created again. So the operator
// keeps the mapping too, and counts the cards that pod p uses, until a policy in force has no such mapping.
func TestMappedChargesOutliveThePolicy(t *testing.T) {
	informers := &fakeInformers{}
	nodes := NewNodeInventory(informers)
	ended, end := context.WithCancel(t.Context())
	end() // so that Start returns once it has added its handlers

	check.NoError(t, nodes.Start(ended)) // informers.handler is now that of the policy
	nodes.updateNode(builder.Node("a").Resource("hygon.com/dcu", "8").Obj())
	pod := builder.Pod("lab", "p").Queue("q").Requests("hygon.com/dcu", "4").Running("a").Obj()
	old := policyInForce(v1alpha1.CardMapping{Resource: "hygon.com/dcu", Model: "K100"})

	created := builder.ServiceTypePolicy().Obj()
	created.Spec.Cards = old.Status.Cards
	invalid := created.DeepCopy()
	invalid.Status.ObservedGeneration = 1 // the operator has read the spec, and nothing of it is in force
	removed := policyInForce()

	charged := []card.Amount{{Name: "K100", Count: 4}}
	check.That(t, nodes.PolicyInForce(nil) == nil, "a policy is in force before there is one")
	for _, step := range []struct {
		name  string
		event func()
		want  []card.Amount
	}{
		{"the policy is in force", func() { informers.handler.OnAdd(old, true) }, charged},
		{"the policy is deleted", func() { informers.handler.OnDelete(old) }, charged},
		{"a deletion that the watch missed", func() { informers.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: old}) }, charged},
		{"the policy is created again, and not in force yet", func() { informers.handler.OnAdd(created, false) }, charged},
		{"the new policy has an invalid spec", func() { informers.handler.OnUpdate(created, invalid) }, charged},
		{"the new policy is in force", func() { informers.handler.OnUpdate(created, old) }, charged},
		{"the mapping is removed", func() { informers.handler.OnUpdate(old, removed) }, nil},
	} {
		step.event()
		inventory, _ := nodes.Inventory()
		r := workload.Resolver{Inventory: inventory}
		check.Equal(t, step.name+": used cards of the pod", step.want, r.Usage(pod, nil, nil).Cards)
		check.Equal(t, step.name+": mappings in force", len(step.want), len(nodes.PolicyInForce(nil).Status.Cards))
		check.Equal(t, step.name+": hygon.com/dcu is a card", step.want != nil, inventory.IsCard("hygon.com/dcu"))
	}
}

// TestTheTreeAndMappedCardsSurviveARestartWithoutAPolicy: an administrator deletes the ServiceTypePolicy in an
// emergency (the first command of break-glass.md), and a drained node restarts the operator. The scheduler
// keeps its configuration. So the operator reads from a ConfigMap that a tree and the mapping to K100 are in
// force, until a policy in force says Flat. If the ConfigMap has no policy, or does not exist, no policy is in
// force.
func TestTheTreeAndMappedCardsSurviveARestartWithoutAPolicy(t *testing.T) {
	last := policyInForce(v1alpha1.CardMapping{Resource: "hygon.com/dcu", Model: "K100"})
	last.Status.QueueHierarchy = v1alpha1.QueueHierarchyTree

	// restartWith starts an operator that finds a text in the ConfigMap, and a node with the mapped resource.
	restartWith := func(stored string) *NodeInventory {
		kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "cards", Name: policy.KeptConfigMapName}, Data: map[string]string{policy.KeptConfigMapKey: stored}}
		nodes := NewNodeInventory(nil)
		check.NoError(t, nodes.RestorePolicy(t.Context(), fake.NewClientBuilder().WithObjects(kept).Build(), "cards"))
		nodes.updateNode(builder.Node("a").Resource("hygon.com/dcu", "8").Obj())
		return nodes
	}

	nodes := restartWith(check.Value(policy.EncodeKept(last))(t))
	inventory, _ := nodes.Inventory()
	check.That(t, policy.IsTree(nodes.PolicyInForce(nil)), "queues are flat after the restart")
	check.Equal(t, "cards", []card.Name{"K100"}, inventory.Names())

	created := builder.ServiceTypePolicy().Obj()
	nodes.updatePolicy(created)
	check.That(t, policy.IsTree(nodes.PolicyInForce(created)), "queues are flat before the new policy takes effect")

	flat := policyInForce()
	flat.Status.QueueHierarchy = v1alpha1.QueueHierarchyFlat
	nodes.updatePolicy(flat)
	check.That(t, !policy.IsTree(nodes.PolicyInForce(flat)), "the tree outlives an explicit Flat")

	check.That(t, restartWith("{").PolicyInForce(nil) == nil, "a text that is no policy is in force")
	first := NewNodeInventory(nil)
	check.NoError(t, first.RestorePolicy(t.Context(), fake.NewClientBuilder().Build(), "cards"))
	check.That(t, first.PolicyInForce(nil) == nil, "a policy is in force although there is no ConfigMap")
}

// TestAnOperatorWithEarlierRightsStarts: the ClusterRole of an earlier version does not allow to read the
// ConfigMap that keeps the policy in force. That version wrote no such ConfigMap, so the operator starts
// without it. After another error, here an API server that is away, the operator may lack what is in force. So
// it ends, and Kubernetes starts it again.
func TestAnOperatorWithEarlierRightsStarts(t *testing.T) {
	restore := func(answer error) error {
		fails := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return answer
		}}
		return NewNodeInventory(nil).RestorePolicy(t.Context(), fake.NewClientBuilder().WithInterceptorFuncs(fails).Build(), "cards")
	}
	check.NoError(t, restore(apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, policy.KeptConfigMapName, errors.New("no rule"))))
	check.Says(t, restore(errors.New("the API server is away")), "the API server is away")
}
