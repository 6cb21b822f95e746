package admissionpolicy

import (
	"context"
	"testing"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// oneNode is one node with NVIDIA cards.
type oneNode struct{}

func (oneNode) Inventory() (*card.Inventory, bool) {
	return card.NewInventory(map[string]card.Node{"a": card.Recognise(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj(), nil)}), true
}

// TestTheStatusHasAnotherWriter: the conditions of the ServiceTypePolicy are one list, and
// this controller passes its findings to the writer of the status.
func TestTheStatusHasAnotherWriter(t *testing.T) {
	owner := builder.ServiceTypePolicy().Obj()

	written := 0
	api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(builder.Scheme(t, clientgoscheme.AddToScheme, v1alpha1.AddToScheme)).
		WithObjects(owner).WithStatusSubresource(owner).Build(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			written++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})

	r := &Reconciler{
		guard:  newGuard(),
		client: api, events: record.NewFakeRecorder(10), inventory: oneNode{}, lastApplied: map[string]appliedState{},
		readers: map[string]client.Reader{BypassPolicyName: api, ChargePolicyName: api},
	}

	check.Value(r.Reconcile(t.Context(), ctrl.Request{}))(t)
	check.Equal(t, "writes of the status", 0, written)

	got := r.guard.Latest()
	check.Must(t, got != nil, "nothing is passed on")
	check.Equal(t, "told", "True/"+v1alpha1.ReasonBypassDenied, string(got.Status)+"/"+got.Reason)
	check.That(t, got.UID == owner.UID && got.Generation == owner.Generation, "passed on for %s, generation %d", got.UID, got.Generation)
	check.Equal(t, "words that it changed", 1, len(r.guard.Changed()))

	<-r.guard.Changed()
	check.Value(r.Reconcile(t.Context(), ctrl.Request{}))(t)
	check.Equal(t, "words after nothing changed", 0, len(r.guard.Changed()))
}
