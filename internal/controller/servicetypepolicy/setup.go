package servicetypepolicy

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	shared "cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/controller/enforcerights"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/policy"
)

// Options configure the controller.
type Options struct {
	// SchedulerNamespace is the namespace of our scheduler, its Leases and its rendered
	// ConfigMap. VolcanoNamespace is that of Volcano's programs and the default namespace
	// of the base.
	SchedulerNamespace, VolcanoNamespace string
	// SkipNameValidation allows a second controller in one process, as in tests.
	SkipNameValidation bool
	// Metrics takes the controller's metrics.
	Metrics metrics.RegistererGatherer
	// Bypasses provides the pods that use cards that our scheduler did not assign.
	Bypasses BypassSource
	// Guard provides condition BypassGuarded; without it that condition stays as it was.
	Guard Guard
	// Rights are the rights to enforce that the operator has, nil to count it as allowed to do everything.
	Rights *enforcerights.Rights
	// InForce returns what is in force of a policy that was read.
	InForce func(*v1alpha1.ServiceTypePolicy) *v1alpha1.ServiceTypePolicy
	// MissingKinds are the kinds of Volcano that the API server lacks.
	MissingKinds []string
}

// Guard provides condition BypassGuarded, nil before it is known, and signals its changes.
type Guard interface {
	Latest() *policy.Guard
	Changed() <-chan event.TypedGenericEvent[string]
}

// BypassSource provides what a count of all pods found for the policy: the pods that use cards that our scheduler did not
// assign, false before the first count, and the forecast. It signals changes.
type BypassSource interface {
	Bypasses() ([]enforcement.Bypass, bool)
	// PolicyForecast returns what no CardQuota decides about in mode Observe, nil for nothing, and false before the first count
	// in this mode.
	PolicyForecast() (*v1alpha1.PolicyForecast, bool)
	Changed() <-chan event.TypedGenericEvent[string]
}

// Setup adds the controller to a manager. The end of ctx ends its watches.
func Setup(ctx context.Context, mgr ctrl.Manager, options Options) error {
	kube, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}

	// The policy names its base, the ConfigMap that it is merged into, so that watch changes with the policy.
	// The rendered ConfigMap has one name. Both watches signal on one channel.
	base := configMapWatch{client: kube, log: mgr.GetLogger().WithName("servicetypepolicy"), changes: make(chan event.TypedGenericEvent[string]), parent: ctx, stop: func() {}}
	rendered := base
	rendered.watchConfigMap(types.NamespacedName{Namespace: options.SchedulerNamespace, Name: policy.ConfigMapName})

	r := &Reconciler{
		client:    mgr.GetClient(),
		live:      mgr.GetAPIReader(),
		events:    mgr.GetEventRecorderFor(shared.Component),
		now:       time.Now,
		throttle:  shared.NewStatusThrottle(shared.StatusInterval),
		watchBase: base.watchConfigMap,
		evidence: &evidence{
			cached: mgr.GetClient(), live: mgr.GetAPIReader(), schedulerNamespace: options.SchedulerNamespace, volcanoNamespace: options.VolcanoNamespace, bypasses: options.Bypasses,
			metric: newEnforcedMetric(),
		},
		guard:              options.Guard,
		rights:             options.Rights,
		inForce:            options.InForce,
		schedulerNamespace: options.SchedulerNamespace,
		volcanoNamespace:   options.VolcanoNamespace,
		missingKinds:       options.MissingKinds,
		synced:             newSyncedMetric(),
	}

	for _, metric := range []prometheus.Collector{r.synced, r.evidence.metric} {
		if err := options.Metrics.Register(metric); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}

	// There is one policy, and each event below reconciles it. onChange handles objects, onSignal channels.
	onChange, onSignal := shared.DebouncedHandlers(v1alpha1.PolicyName)
	build := ctrl.NewControllerManagedBy(mgr).
		Named("servicetypepolicy").
		For(&v1alpha1.ServiceTypePolicy{}, builder.WithPredicates(shared.SpecChanged)).
		Watches(&v1alpha1.CardQuota{}, onChange, builder.WithPredicates(predicate.Or(serviceTypeChanged, finalizerChanged))).
		Watches(&schedulingv1.PriorityClass{}, onChange).
		Watches(&coordinationv1.Lease{}, onChange).
		Watches(&corev1.Pod{}, onChange, builder.WithPredicates(isStockScheduler)).
		WatchesRawSource(source.TypedChannel(options.Bypasses.Changed(), onSignal)).
		WatchesRawSource(source.TypedChannel(base.changes, onSignal)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, SkipNameValidation: &options.SkipNameValidation})

	if options.Guard != nil {
		build = build.WatchesRawSource(source.TypedChannel(options.Guard.Changed(), onSignal))
	}

	if err := build.Complete(r); err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}

	return nil
}

// serviceTypeChanged selects CardQuotas that are created, deleted or change their service
// type.
var serviceTypeChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return serviceTypeOf(e.ObjectOld) != serviceTypeOf(e.ObjectNew) }}

// finalizerChanged selects CardQuotas that get or lose the finalizer of their Queue: in mode Observe the policy says which
// still have it.
var finalizerChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return controllerutil.ContainsFinalizer(e.ObjectOld, cardquota.Finalizer) != controllerutil.ContainsFinalizer(e.ObjectNew, cardquota.Finalizer)
}}

// serviceTypeOf returns the service type of a CardQuota.
func serviceTypeOf(object client.Object) string {
	if quota, ok := object.(*v1alpha1.CardQuota); ok {
		return quota.Spec.ServiceType
	}
	return ""
}
