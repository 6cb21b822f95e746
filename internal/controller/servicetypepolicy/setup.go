package servicetypepolicy

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/controller/pace"
	"cardquota.dev/operator/internal/policy"
)

// Component is the source of the controller's events.
const Component = "cardquota-manager"

// gather is how long changes of other objects are gathered: a thousand
// CardQuotas, or a ConfigMap that is written all the time, cost ten looks a
// second.
const gather = 100 * time.Millisecond

// Options are the speeds and the parts of the controller.
type Options struct {
	// Interval is the shortest time between two status writes.
	Interval time.Duration
	// Home is the namespace of the operator, where the ConfigMap is when the policy
	// does not say.
	Home string
	// SkipNameValidation allows a second controller in one process, as tests
	// have it.
	SkipNameValidation bool
	// Metrics takes the controller's metrics.
	Metrics metrics.RegistererGatherer
	// Enforcement judges whether quotas are enforced; without it nothing is known
	// of that. Woken tells, by any name, that it may judge otherwise now.
	Enforcement Enforcement
	Woken       chan event.TypedGenericEvent[string]
	// Guard tells whether pods are kept from passing the scheduler by; without it
	// that condition stays as it was.
	Guard Guard
}

// Guard tells what condition BypassGuarded is, nil before that is known, and that
// it is another one.
type Guard interface {
	Last() *policy.Guard
	Changed() <-chan event.TypedGenericEvent[string]
}

// DefaultOptions are those of the shipped manager.
func DefaultOptions() Options {
	return Options{Interval: time.Second, Metrics: metrics.Registry}
}

// Setup adds the controller to a manager. ctx ends what it watches.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) error {
	kube, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	configMap := &watch{client: kube, log: mgr.GetLogger().WithName("servicetypepolicy"), woken: make(chan event.TypedGenericEvent[string]), parent: ctx}
	r := &Reconciler{
		client:      mgr.GetClient(),
		live:        mgr.GetAPIReader(),
		events:      mgr.GetEventRecorderFor(Component),
		now:         time.Now,
		pace:        pace.New(options.Interval),
		follow:      configMap.follow,
		enforcement: options.Enforcement,
		guard:       options.Guard,
		home:        options.Home,
		memory:      newMemory(),
		synced: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cardquota_policy_config_synced",
			Help: "1 while the scheduler's configuration says what the ServiceTypePolicy says, else 0.",
		}, []string{"policy"}),
	}
	if err := options.Metrics.Register(r.synced); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	later, woken := pace.Gathered(v1alpha1.PolicyName, gather)
	build := ctrl.NewControllerManagedBy(mgr).
		Named("servicetypepolicy").
		For(&v1alpha1.ServiceTypePolicy{}, builder.WithPredicates(policyChanged)).
		Watches(&v1alpha1.CardQuota{}, later, builder.WithPredicates(typeChanged)).
		Watches(&schedulingv1.PriorityClass{}, later).
		WatchesRawSource(source.TypedChannel(configMap.woken, woken)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, SkipNameValidation: &options.SkipNameValidation})
	if options.Woken != nil {
		build = build.WatchesRawSource(source.TypedChannel(options.Woken, woken))
	}
	if options.Guard != nil {
		build = build.WatchesRawSource(source.TypedChannel(options.Guard.Changed(), woken))
	}
	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	return nil
}

// policyChanged lets changes of the policy pass except those of its status, which
// the operator makes itself.
var policyChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
}}

// typeChanged lets a CardQuota pass that comes, goes or becomes one of another
// service type.
var typeChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return serviceType(e.ObjectOld) != serviceType(e.ObjectNew) }}

func serviceType(object client.Object) string {
	if quota, ok := object.(*v1alpha1.CardQuota); ok {
		return quota.Spec.ServiceType
	}
	return ""
}
