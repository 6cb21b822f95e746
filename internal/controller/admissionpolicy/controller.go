// Package admissionpolicy writes the ValidatingAdmissionPolicies that keep pods from
// bypassing the scheduler and used cards charged. It determines condition BypassGuarded of
// the ServiceTypePolicy.
//
// The controller only reads and writes objects. The other files decide what the policies
// say, without a client.
package admissionpolicy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/controller/enforcerights"
	"cardquota.dev/operator/internal/policy"
)

// InventorySource provides the cards of all nodes, false until all nodes were read, and the policy in force.
type InventorySource interface {
	Inventory() (*card.Inventory, bool)
	// PolicyInForce returns what is in force of the policy that was read.
	PolicyInForce(read *v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy
}

// Reconciler writes the ValidatingAdmissionPolicies and their bindings for the
// ServiceTypePolicy. One run at a time, so it needs no lock.
type Reconciler struct {
	// client reads from the cache and writes to the API server.
	client    client.Client
	events    record.EventRecorder
	inventory InventorySource
	// missingKinds are the kinds of Volcano that the API server lacks.
	missingKinds []string
	// rights are the rights to enforce that the operator has, nil if it does not ask.
	rights *enforcerights.Rights
	// readers are the caches of the objects, by name.
	readers map[string]client.Reader
	// guard has the result.
	guard *Guard
	// lastApplied are the last written states, by kind and name.
	lastApplied map[string]appliedState
}

// appliedState identifies one state of an object.
type appliedState struct {
	wanted     string
	uid        string
	generation int64
}

// +kubebuilder:rbac:groups=cardquota.dev,resources=servicetypepolicies,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=cardquota-bypass.cardquota.dev;cardquota-charge.cardquota.dev,verbs=list;watch

// Reconcile writes all objects and stores condition BypassGuarded for the policy
// controller.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &v1alpha1.ServiceTypePolicy{}
	err := r.client.Get(ctx, client.ObjectKey{Name: v1alpha1.PolicyName}, object)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read ServiceTypePolicy: %w", err)
	}

	// Without a policy nothing is enforced, so its rules must not refuse pods any more.
	if err != nil || object.DeletionTimestamp != nil {
		return ctrl.Result{}, r.deleteObjects(ctx)
	}
	if mode := r.decideMode(object); mode != v1alpha1.ModeEnforce {
		return r.withdrawPolicies(ctx, object, mode)
	}

	inventory, known := r.inventory.Inventory()
	if !known {
		return ctrl.Result{}, nil // OnChange triggers a reconcile once all nodes are read
	}

	spec := policy.Effective(object.Spec)
	if faults := policy.Validate(spec); len(faults) > 0 {
		return ctrl.Result{}, nil // the previous objects stay
	}

	resources := inventory.Resources()
	condition := GuardCondition(spec, resources)

	// A refused policy must not prevent the other one.
	var errs []error
	for _, wanted := range rememberResources(Policies(object, spec, resources), inventory.LastingResources()) {
		errs = append(errs, r.applyWithBinding(ctx, object, wanted, Binding(object, spec, wanted.Name)))
	}

	result := ctrl.Result{}
	if err := errors.Join(errs...); err != nil {
		// A refusal ends only when rights or the cluster's version change. Backoff would fill the
		// log meanwhile.
		if !shared.IsRefused(err) && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return ctrl.Result{}, err
		}
		condition, result.RequeueAfter = r.explainRefusal(ctx, err, "pods may bypass the scheduler, or hold cards uncharged, since an admission policy could not be written")
	}

	r.guard.setLatest(policy.Guard{Condition: condition, UID: object.UID, Generation: object.Generation})
	return result, nil
}

// decideMode returns the mode in force of the policy that was read. A new policy has Enforce in force before its first
// status. Without Volcano it is going to observe, so it must refuse no pod before that.
func (r *Reconciler) decideMode(read *v1alpha1.ServiceTypePolicy) v1alpha1.Mode {
	inForce := r.inventory.PolicyInForce(read)
	if len(r.missingKinds) > 0 && read.Spec.Mode != v1alpha1.ModeObserve {
		return policy.ModeWithoutVolcano(inForce)
	}
	return policy.Mode(inForce)
}

// explainRefusal returns condition BypassGuarded after a refused write, and when to try again. If missing rights are the
// reason, it says so. effect is then the beginning of the message.
func (r *Reconciler) explainRefusal(ctx context.Context, refusal error, effect string) (metav1.Condition, time.Duration) {
	if rights, areMissing := r.rights.ExplainRefusal(ctx, refusal); areMissing {
		return rights.MissingCondition(effect), r.rights.Retry()
	}
	return GuardRefusedCondition(refusal), shared.RefusedRetry
}

// withdrawPolicies deletes the policies in mode Observe, and says so in condition BypassGuarded. It does nothing while the mode is
// undecided.
func (r *Reconciler) withdrawPolicies(ctx context.Context, object *v1alpha1.ServiceTypePolicy, mode v1alpha1.Mode) (ctrl.Result, error) {
	if mode != v1alpha1.ModeObserve {
		return ctrl.Result{}, nil
	}

	result := ctrl.Result{}
	condition := ObservingGuardCondition()
	if err := r.deleteObjects(ctx); err != nil {
		if !shared.IsRefused(err) {
			return ctrl.Result{}, err
		}
		condition, result.RequeueAfter = r.explainRefusal(ctx, err, "an admission policy could not be deleted")
	}

	r.guard.setLatest(policy.Guard{Condition: condition, UID: object.UID, Generation: object.Generation})
	return result, nil
}

// deleteObjects deletes all policies and bindings.
func (r *Reconciler) deleteObjects(ctx context.Context) error {
	var errs []error
	for _, name := range PolicyNames() {
		errs = append(errs, r.deleteObject(ctx, name, &admissionv1.ValidatingAdmissionPolicyBinding{}), r.deleteObject(ctx, name, &admissionv1.ValidatingAdmissionPolicy{}))
	}
	return errors.Join(errs...)
}

// applyWithBinding writes a policy, then its binding. It deletes the binding if the policy
// is switched off.
func (r *Reconciler) applyWithBinding(ctx context.Context, owner *v1alpha1.ServiceTypePolicy, wanted *admissionv1.ValidatingAdmissionPolicy, binding *admissionv1.ValidatingAdmissionPolicyBinding) error {
	if err := r.applyObject(ctx, owner, wanted); err != nil {
		return err
	}
	if binding == nil {
		return r.deleteObject(ctx, wanted.Name, &admissionv1.ValidatingAdmissionPolicyBinding{})
	}
	return r.applyObject(ctx, owner, binding)
}

// applyObject writes one object by server-side apply, with force. The API server changes
// nothing where nothing differs. An event reports that the operator reverted another
// manager's change.
func (r *Reconciler) applyObject(ctx context.Context, owner *v1alpha1.ServiceTypePolicy, wanted client.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return fmt.Errorf("write %s: %w", wanted.GetName(), err)
	}

	// Server-side apply owns what it sends, and these two belong to the API server.
	delete(fields, "status")
	object := &unstructured.Unstructured{Object: fields}
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	kind := object.GetKind()

	text, err := object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("write %s %s: %w", kind, wanted.GetName(), err)
	}
	if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("write %s %s: %w", kind, wanted.GetName(), err)
	}

	// The API server raises the generation only of a changed spec. So a new generation of the same
	// wanted text means that another client had changed the object.
	is := appliedState{wanted: string(text), uid: string(object.GetUID()), generation: object.GetGeneration()}
	key := kind + " " + wanted.GetName()
	was, before := r.lastApplied[key]
	r.lastApplied[key] = is

	switch {
	case !before || was.wanted != is.wanted:
		logf.FromContext(ctx).Info("written", "kind", kind, "name", object.GetName())
	case was != is:
		r.events.Event(owner, corev1.EventTypeWarning, v1alpha1.EventGuardRestored, fmt.Sprintf(
			"%s %s had been changed or deleted by another client, and the operator restored it: change spec.admission of this policy instead", kind, object.GetName()))
	}

	return nil
}

// deleteObject deletes an object that a ServiceTypePolicy owns.
func (r *Reconciler) deleteObject(ctx context.Context, name string, object client.Object) error {
	err := r.readers[name].Get(ctx, client.ObjectKey{Name: name}, object)
	if err != nil {
		return client.IgnoreNotFound(err)
	}

	// An administrator may have written an object of this name. Only own ones are deleted.
	if owner := metav1.GetControllerOf(object); owner == nil || owner.Kind != "ServiceTypePolicy" || object.GetDeletionTimestamp() != nil {
		return nil
	}

	// A later object of this name is new, and its first write must not look like a correction.
	if kind, err := r.client.GroupVersionKindFor(object); err == nil {
		delete(r.lastApplied, kind.Kind+" "+name)
	}

	// A conflict means another UID: an object that was created meanwhile stays.
	err = r.client.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", object.GetName(), err)
	}

	return nil
}

// Guard has condition BypassGuarded. The ServiceTypePolicy controller writes it, since
// the list of conditions has one writer.
type Guard struct {
	mu      sync.Mutex
	latest  *policy.Guard
	changed chan event.TypedGenericEvent[string]
}

func newGuard() *Guard { return &Guard{changed: make(chan event.TypedGenericEvent[string], 1)} }

// Latest returns the latest condition, nil before the first.
func (g *Guard) Latest() *policy.Guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.latest
}

// Changed signals that the result of Latest changed.
func (g *Guard) Changed() <-chan event.TypedGenericEvent[string] { return g.changed }

// setLatest replaces the condition, and signals a change.
func (g *Guard) setLatest(found policy.Guard) {
	g.mu.Lock()
	same := g.latest != nil && *g.latest == found
	g.latest = &found
	g.mu.Unlock()
	if same {
		return
	}
	select {
	case g.changed <- event.TypedGenericEvent[string]{}:
	default: // the receiver has not read the last signal yet
	}
}

// CacheOptions limit the manager's cache to the bypass policy and its binding.
func CacheOptions() map[client.Object]cache.ByObject { return cacheByName(BypassPolicyName) }

// cacheByName limits a cache to the policy and the binding of one name. A cache can select
// one name, and the shipped Role permits no others.
func cacheByName(name string) map[client.Object]cache.ByObject {
	ours := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	return map[client.Object]cache.ByObject{
		&admissionv1.ValidatingAdmissionPolicy{}:        ours,
		&admissionv1.ValidatingAdmissionPolicyBinding{}: ours,
	}
}

// Setup adds the controller to a manager whose cache has CacheOptions. rights are the rights to enforce that the operator
// has, nil to count it as allowed to do everything. missingKinds are the kinds of Volcano that the API server lacks. It
// returns the Guard with the result.
func Setup(mgr ctrl.Manager, nodes *shared.NodeInventory, rights *enforcerights.Rights, missingKinds []string) (*Guard, error) {
	chargeCache, err := newChargeCache(mgr)
	if err != nil {
		return nil, err
	}

	r := &Reconciler{guard: newGuard(), client: mgr.GetClient(), events: mgr.GetEventRecorderFor(shared.Component), inventory: nodes, rights: rights, lastApplied: map[string]appliedState{},
		missingKinds: missingKinds, readers: map[string]client.Reader{BypassPolicyName: mgr.GetClient(), ChargePolicyName: chargeCache}}

	// One pending signal stands for all changes before it: the reconcile reads all cards anyway.
	cards := make(chan event.TypedGenericEvent[string], 1)
	nodes.OnChange(func() {
		select {
		case cards <- event.TypedGenericEvent[string]{}:
		default: // the receiver has not read the last signal yet
		}
	})

	onChange, onSignal := shared.DebouncedHandlers(v1alpha1.PolicyName)
	err = ctrl.NewControllerManagedBy(mgr).
		Named("bypass").
		Watches(&v1alpha1.ServiceTypePolicy{}, onChange, builder.WithPredicates(predicate.Or(shared.SpecChanged, shared.ModeChanged))).
		Watches(&admissionv1.ValidatingAdmissionPolicy{}, onChange).
		Watches(&admissionv1.ValidatingAdmissionPolicyBinding{}, onChange).
		WatchesRawSource(source.Kind(chargeCache, client.Object(&admissionv1.ValidatingAdmissionPolicy{}), onChange)).
		WatchesRawSource(source.Kind(chargeCache, client.Object(&admissionv1.ValidatingAdmissionPolicyBinding{}), onChange)).
		WatchesRawSource(source.TypedChannel(cards, onSignal)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
	if err != nil {
		return nil, fmt.Errorf("set up controller: %w", err)
	}

	return r.guard, nil
}

// newChargeCache returns a cache of the charge policy and its binding, which the manager
// starts.
func newChargeCache(mgr ctrl.Manager) (cache.Cache, error) {
	// The manager's cache selects one object of a kind by its name, and this kind has two.
	made, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme = mgr.GetScheme()
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mgr.GetRESTMapper(), nil }
		o.Cache.ByObject = cacheByName(ChargePolicyName)
	})
	if err == nil {
		err = mgr.Add(made)
	}
	if err != nil {
		return nil, fmt.Errorf("set up cache of %s: %w", ChargePolicyName, err)
	}

	return made.GetCache(), nil
}
