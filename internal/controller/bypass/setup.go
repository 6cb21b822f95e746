package bypass

import (
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"cardquota.dev/operator/api/v1alpha1"
	shared "cardquota.dev/operator/internal/controller"
)

// gather is how long changes of nodes and objects are gathered: a rack that comes
// up costs one write.
const gather = 100 * time.Millisecond

// CacheOptions are the objects that are read through the manager: the policy
// against bypassing and its binding.
func CacheOptions() map[client.Object]cache.ByObject { return named(v1alpha1.BypassPolicyName) }

// named are the policy and the binding of one name. A cache can be asked for one
// name, and the shipped Role permits no others.
func named(name string) map[client.Object]cache.ByObject {
	ours := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	return map[client.Object]cache.ByObject{
		&admissionv1.ValidatingAdmissionPolicy{}:        ours,
		&admissionv1.ValidatingAdmissionPolicyBinding{}: ours,
	}
}

// Setup adds the controller to a manager whose cache has CacheOptions.
// skipNameValidation allows a second one in one process, as tests have it. The
// Guard tells what it finds.
func Setup(mgr ctrl.Manager, nodes *shared.Nodes, skipNameValidation bool) (*Guard, error) {
	second, err := secondCache(mgr)
	if err != nil {
		return nil, err
	}
	r := &Reconciler{guard: newGuard(), client: mgr.GetClient(), events: mgr.GetEventRecorderFor(shared.Component), nodes: nodes, kinds: mgr.GetScheme(), written: map[string]stamp{},
		readers: map[string]client.Reader{v1alpha1.BypassPolicyName: mgr.GetClient(), v1alpha1.ChargePolicyName: second}}
	cards := make(chan event.TypedGenericEvent[string], 1)
	nodes.Follow(func() {
		select {
		case cards <- event.TypedGenericEvent[string]{}:
		default: // it has yet to look
		}
	})
	later, woken := shared.Gathered(v1alpha1.PolicyName, gather)
	err = ctrl.NewControllerManagedBy(mgr).
		Named("bypass").
		Watches(&v1alpha1.ServiceTypePolicy{}, later, builder.WithPredicates(policyChanged)).
		Watches(&admissionv1.ValidatingAdmissionPolicy{}, later).
		Watches(&admissionv1.ValidatingAdmissionPolicyBinding{}, later).
		WatchesRawSource(source.Kind(second, client.Object(&admissionv1.ValidatingAdmissionPolicy{}), later)).
		WatchesRawSource(source.Kind(second, client.Object(&admissionv1.ValidatingAdmissionPolicyBinding{}), later)).
		WatchesRawSource(source.TypedChannel(cards, woken)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, SkipNameValidation: &skipNameValidation}).
		Complete(r)
	if err != nil {
		return nil, fmt.Errorf("set up controller: %w", err)
	}
	return r.guard, nil
}

// secondCache holds the policy about charges and its binding; it starts with the
// manager's own.
func secondCache(mgr ctrl.Manager) (cache.Cache, error) {
	made, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme = mgr.GetScheme()
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mgr.GetRESTMapper(), nil }
		o.Cache.ByObject = named(v1alpha1.ChargePolicyName)
	})
	if err == nil {
		err = mgr.Add(made)
	}
	if err != nil {
		return nil, fmt.Errorf("set up cache of %s: %w", v1alpha1.ChargePolicyName, err)
	}
	return made.GetCache(), nil
}

// policyChanged lets changes of the spec pass.
var policyChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
}}
