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

// oneNode is the inventory of one node with 8 NVIDIA cards.
type oneNode struct{}

func (oneNode) Inventory() (*card.Inventory, bool) {
	return card.NewInventory(map[string]card.Node{"a": card.Recognise(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj(), nil)}), true
}

// TestGuardConditionIsPassedToTheWriterOfTheStatus: all conditions of the ServiceTypePolicy are one list, which
// another controller writes. So this controller writes no status. It passes condition BypassGuarded to that
// controller, with the UID and generation of the policy, and signals each change once.
func TestGuardConditionIsPassedToTheWriterOfTheStatus(t *testing.T) {
	owner := builder.ServiceTypePolicy().Obj()

	statusWrites := 0
	api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(builder.Scheme(t, clientgoscheme.AddToScheme, v1alpha1.AddToScheme)).
		WithObjects(owner).WithStatusSubresource(owner).Build(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			statusWrites++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})

	r := &Reconciler{
		guard:  newGuard(),
		client: api, events: record.NewFakeRecorder(10), inventory: oneNode{}, lastApplied: map[string]appliedState{},
		readers: map[string]client.Reader{BypassPolicyName: api, ChargePolicyName: api},
	}

	check.Value(r.Reconcile(t.Context(), ctrl.Request{}))(t)
	check.Equal(t, "writes of the status", 0, statusWrites)

	guard := r.guard.Latest()
	check.Must(t, guard != nil, "no condition is passed on")
	check.Equal(t, "condition", "True/"+v1alpha1.ReasonBypassDenied, string(guard.Status)+"/"+guard.Reason)
	check.Equal(t, "UID of the policy", owner.UID, guard.UID)
	check.Equal(t, "generation of the policy", owner.Generation, guard.Generation)
	check.Equal(t, "signals of the first reconcile", 1, len(r.guard.Changed()))

	<-r.guard.Changed()
	check.Value(r.Reconcile(t.Context(), ctrl.Request{}))(t)
	check.Equal(t, "signals when nothing changed", 0, len(r.guard.Changed()))
}
