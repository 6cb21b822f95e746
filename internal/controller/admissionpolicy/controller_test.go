package admissionpolicy

import (
	"context"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/controller/enforcerights"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// oneNode is the inventory of one node with 8 NVIDIA cards.
type oneNode struct{}

func (oneNode) Inventory() (*card.Inventory, bool) {
	return card.NewInventory(map[string]card.Node{"a": card.Recognise(builder.Node("a").GPUs("NVIDIA-H200", 8).Obj(), nil)}), true
}

func (oneNode) PolicyInForce(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy {
	return read
}

// TestObserveDeletesTheAdmissionPolicies: the policy was in force with mode Enforce, so both admission policies and their
// bindings exist. When Observe comes into force, the controller deletes all four. Condition BypassGuarded says so, also
// for a policy that observes from the beginning. While the mode is undecided, nothing is written or deleted.
func TestObserveDeletesTheAdmissionPolicies(t *testing.T) {
	owner := builder.ServiceTypePolicy().Obj()
	api := fake.NewClientBuilder().WithScheme(builder.Scheme(t, clientgoscheme.AddToScheme, v1alpha1.AddToScheme)).WithObjects(owner).Build()
	r := &Reconciler{
		guard: newGuard(), client: api, events: record.NewFakeRecorder(10), inventory: oneNode{}, lastApplied: map[string]appliedState{},
		readers: map[string]client.Reader{BypassPolicyName: api, ChargePolicyName: api},
	}

	// reconcile sets the mode in force, and returns how many objects exist then.
	reconcile := func(mode v1alpha1.Mode) int {
		owner.Spec.Mode = v1alpha1.ModeObserve
		owner.Status.Mode = mode
		check.NoError(t, api.Update(t.Context(), owner))
		check.Value(r.Reconcile(t.Context(), ctrl.Request{}))(t)

		var policies admissionv1.ValidatingAdmissionPolicyList
		var bindings admissionv1.ValidatingAdmissionPolicyBindingList
		check.NoError(t, api.List(t.Context(), &policies))
		check.NoError(t, api.List(t.Context(), &bindings))
		return len(policies.Items) + len(bindings.Items)
	}

	check.Equal(t, "objects while the mode is undecided", 0, reconcile(""))
	check.That(t, r.guard.Latest() == nil, "a condition is passed on while the mode is undecided")
	check.Equal(t, "objects in mode Enforce", 4, reconcile(v1alpha1.ModeEnforce))
	check.Equal(t, "objects in mode Observe", 0, reconcile(v1alpha1.ModeObserve))
	check.Equal(t, "reason of BypassGuarded", v1alpha1.ReasonObserving, r.guard.Latest().Reason)
}

// TestANewPolicyRefusesNothingWithoutVolcano: Volcano is missing when the first policy comes, with mode Enforce. It is going
// to observe, which its status does not say yet. No pod may be refused meanwhile. Enforce that was in force stays.
func TestANewPolicyRefusesNothingWithoutVolcano(t *testing.T) {
	r := &Reconciler{inventory: oneNode{}, missingKinds: []string{"Queue"}}
	for t, tc := range check.Cases(t, map[string]struct{ wanted, inForce, want v1alpha1.Mode }{
		"a new policy":         {v1alpha1.ModeEnforce, "", v1alpha1.ModeObserve},
		"Enforce was in force": {v1alpha1.ModeEnforce, v1alpha1.ModeEnforce, v1alpha1.ModeEnforce},
		"Observe comes":        {v1alpha1.ModeObserve, v1alpha1.ModeEnforce, v1alpha1.ModeEnforce},
	}) {
		read := builder.ServiceTypePolicy().Obj()
		read.Spec.Mode = tc.wanted
		read.Status.Mode = tc.inForce
		check.Equal(t, "mode", tc.want, r.decideMode(read))
	}
}

// deniedReviews answers that the operator has no right.
type deniedReviews struct{}

func (deniedReviews) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }

// TestMissingRightsToTheAdmissionPolicies: the operator may not write admission policies in mode Enforce, nor delete them in mode
// Observe. Condition BypassGuarded names the missing rights and the command that helps, and the operator tries again
// as soon as it looks for its rights.
func TestMissingRightsToTheAdmissionPolicies(t *testing.T) {
	owner := builder.ServiceTypePolicy().Obj()
	mayWrite := true
	refusal := func(name string) error {
		if mayWrite {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: admissionv1.GroupName, Resource: "validatingadmissionpolicies"}, name, errors.New("the account cannot write it"))
	}
	api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(builder.Scheme(t, clientgoscheme.AddToScheme, v1alpha1.AddToScheme)).WithObjects(owner).Build(), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return errors.Join(refusal("any"), c.Apply(ctx, o, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := refusal(o.GetName()); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	r := &Reconciler{
		guard: newGuard(), client: api, events: record.NewFakeRecorder(10), inventory: oneNode{}, lastApplied: map[string]appliedState{},
		readers: map[string]client.Reader{BypassPolicyName: api, ChargePolicyName: api},
		rights:  enforcerights.New(enforcerights.Options{Client: deniedReviews{}, Namespace: "cards", Retry: time.Second}),
	}

	check.Value(r.Reconcile(t.Context(), ctrl.Request{}))(t)
	check.Equal(t, "reason while writes succeed", v1alpha1.ReasonBypassDenied, r.guard.Latest().Reason)

	mayWrite = false
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeObserve} {
		owner.Status.Mode = mode
		check.NoError(t, api.Update(t.Context(), owner))
		result := check.Value(r.Reconcile(t.Context(), ctrl.Request{}))(t)
		guard := r.guard.Latest()
		check.Equal(t, "BypassGuarded in mode "+string(mode), "False/"+v1alpha1.ReasonRightsMissing, string(guard.Status)+"/"+guard.Reason)
		check.Contains(t, "message", guard.Message, "kubectl create clusterrolebinding cardquota-manager-enforce", "--serviceaccount=cards:cardquota-manager")
		check.Equal(t, "next try", time.Second, result.RequeueAfter)
	}
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
