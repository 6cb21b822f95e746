// Command manager is the operator of Cardquota. It writes CardQuotas to Volcano Queues and
// their usage to the status, and the ServiceTypePolicy to the scheduler's configuration.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/controller/admissionpolicy"
	"cardquota.dev/operator/internal/controller/cardinventory"
	"cardquota.dev/operator/internal/controller/cardquota"
	"cardquota.dev/operator/internal/controller/cardseconds"
	"cardquota.dev/operator/internal/controller/enforcerights"
	"cardquota.dev/operator/internal/controller/leaderlock"
	"cardquota.dev/operator/internal/controller/localquota"
	"cardquota.dev/operator/internal/controller/resourceslices"
	"cardquota.dev/operator/internal/controller/servicetypepolicy"
	"cardquota.dev/operator/internal/controller/volcanokinds"
	"cardquota.dev/operator/internal/webhook"
	selfsigned "cardquota.dev/operator/internal/webhook/certificates"
)

func main() {
	f, err := parseFlags(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}

	log := zap.New(zap.UseFlagOptions(&f.logging))
	ctrl.SetLogger(log)
	klog.SetLogger(log) // client-go's own lines come in the same form
	log.Info("starting", "version", build.Version)

	// Without streams the operator works as well, so it goes on.
	if err := streamLists(); err != nil {
		ctrl.Log.Error(err, "a list of all pods takes more memory than their cache")
	}

	err = run(f)
	if errors.Is(err, errKindsChanged) {
		err = restart()
	}
	if err != nil {
		ctrl.Log.Error(err, "manager stopped")
		os.Exit(1)
	}
}

// streamLists lets caches read their objects as a stream, as clients of Kubernetes 1.35 do. A list
// of all pods would take several times the memory of the cache, which keeps little of each. An API
// server that has no streams sends a list. The environment of the operator has precedence.
func streamLists() error {
	const variable = "KUBE_FEATURE_" + string(features.WatchListClient)
	if _, isSet := os.LookupEnv(variable); isSet {
		return nil
	}
	return os.Setenv(variable, "true")
}

// setUpReports adds what shows counts: the CardInventory, card-seconds and LocalCardQuotas.
func setUpReports(ctx context.Context, mgr ctrl.Manager, f flags, nodes *controller.NodeInventory, counts *cardquota.UsageCollector) error {
	keeper, err := cardseconds.Setup(mgr, cardseconds.Options{Namespace: f.operatorNamespace, Counts: counts, Metrics: metrics.Registry})
	if err != nil {
		return err
	}

	devices, err := resourceslices.Setup(mgr)
	if err != nil {
		return err
	}

	err = cardinventory.Setup(mgr, cardinventory.Options{Metrics: metrics.Registry, Nodes: nodes, Counts: counts, Bills: keeper, Devices: devices})
	if err != nil {
		return err
	}

	return localquota.Setup(ctx, mgr, localquota.Options{Usage: counts, Bills: keeper})
}

// run sets up the operator, and runs it until the program is asked to end, or until the API server serves other kinds of
// Volcano. Then it returns errKindsChanged.
func run(f flags) error {
	asked := ctrl.SetupSignalHandler()
	ctx, end := context.WithCancelCause(asked)
	defer end(nil)

	mgr, webhooks, kinds, err := setUpManager(ctx, f)
	if err != nil {
		return err
	}
	if err := addControllers(ctx, mgr, f, webhooks, kinds.Missing()); err != nil {
		return err
	}

	// Not a part of the manager, which starts nothing while it waits for the cache of a kind that is gone.
	go kinds.Watch(ctx, func() { end(errKindsChanged) })

	err = mgr.Start(ctx)
	if errors.Is(context.Cause(ctx), errKindsChanged) && asked.Err() == nil {
		if err != nil {
			ctrl.Log.Error(err, "not everything ended in time")
		}
		return errKindsChanged
	}
	if err != nil {
		return fmt.Errorf("run manager: %w", err)
	}

	return nil
}

// addControllers adds the controllers, the webhooks and the servers to the manager. missingKinds are the kinds of Volcano
// that the API server lacks.
func addControllers(ctx context.Context, mgr ctrl.Manager, f flags, webhooks *webhookServer, missingKinds []string) error {
	if err := addMetricsServer(ctx, mgr, f, newMetricsPage(metrics.Registry)); err != nil {
		return err
	}

	nodes := controller.NewNodeInventory(mgr.GetCache())
	// Without the policy in force, controllers that start would put every queue under root.
	if err := nodes.RestorePolicy(ctx, mgr.GetAPIReader(), f.schedulerNamespace); err != nil {
		return err
	}
	if err := mgr.Add(nodes); err != nil {
		return fmt.Errorf("add nodes: %w", err)
	}

	rights := enforcerights.New(enforcerights.Options{Client: mgr.GetClient(), Namespace: f.operatorNamespace})
	guard, err := admissionpolicy.Setup(mgr, nodes, rights, missingKinds)
	if err != nil {
		return err
	}

	usageCollector, err := cardquota.Setup(ctx, mgr, cardquota.Options{Metrics: metrics.Registry, Inventory: nodes, Rights: rights, MissingKinds: missingKinds})
	if err != nil {
		return err
	}
	if err := setUpReports(ctx, mgr, f, nodes, usageCollector); err != nil {
		return err
	}

	// The conditions of the policy also say which pods bypass the scheduler, and whether the guard refuses
	// such pods.
	err = servicetypepolicy.Setup(ctx, mgr, servicetypepolicy.Options{
		SchedulerNamespace: f.schedulerNamespace, VolcanoNamespace: f.volcanoNamespace, Metrics: metrics.Registry,
		Bypasses: usageCollector, Guard: guard, Rights: rights, InForce: nodes.PolicyInForce, MissingKinds: missingKinds,
	})
	if err != nil {
		return err
	}

	ready, err := webhooks.setupWebhooks(ctx, mgr, nodes)
	if err != nil {
		return err
	}
	return addHealthServer(ctx, mgr, f.probeAddress, ready)
}

// setUpManager returns a manager for the API server of the kubeconfig, the server of its webhooks, and the kinds of Volcano
// that this API server serves.
func setUpManager(ctx context.Context, f flags) (ctrl.Manager, *webhookServer, *volcanokinds.Kinds, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read kubeconfig: %w", err)
	}

	config.QPS = float32(f.qps)
	config.Burst = int(2 * f.qps)

	scheme, err := newScheme()
	if err != nil {
		return nil, nil, nil, err
	}

	webhooks, err := newWebhookServer(f)
	if err != nil {
		return nil, nil, nil, err
	}

	kinds, err := volcanokinds.LookUp(ctx, config)
	if err != nil {
		return nil, nil, nil, err
	}

	mgr, err := newManager(config, f, scheme, webhooks.server, kinds)
	return mgr, webhooks, kinds, err
}

// newManager returns a manager whose replicas elect a leader. The lock of the election is our own, because
// its Lease shows the version of the leader.
func newManager(config *rest.Config, f flags, scheme *runtime.Scheme, webhooks ctrlwebhook.Server, kinds *volcanokinds.Kinds) (ctrl.Manager, error) {
	lock, err := leaderlock.New(config, f.operatorNamespace)
	if err != nil {
		return nil, err
	}

	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                              scheme,
		Cache:                               cacheOptions(f),
		NewCache:                            kinds.NewCache,
		Metrics:                             metricsserver.Options{BindAddress: noAddress}, // addMetricsServer adds another one
		WebhookServer:                       webhooks,
		HealthProbeBindAddress:              noAddress, // addHealthServer adds another one
		PprofBindAddress:                    f.pprofAddress,
		LeaderElection:                      f.leaderElect,
		LeaderElectionReleaseOnCancel:       true,
		LeaderElectionResourceLockInterface: lock,
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}

	// The lock writes events with the recorder of the manager, which needs the lock first.
	lock.LockConfig.EventRecorder = mgr.GetEventRecorderFor(lock.Identity())
	return kinds.WrapManager(mgr), nil
}

// newScheme returns a scheme with all types that the operator reads or writes.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme, webhook.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return scheme, nil
}

// cacheOptions returns which objects the operator caches.
func cacheOptions(f flags) cache.Options {
	options := cardquota.CacheOptions()
	maps.Copy(options.ByObject, admissionpolicy.CacheOptions())
	maps.Copy(options.ByObject, servicetypepolicy.CacheOptions(f.schedulerNamespace))
	maps.Copy(options.ByObject, webhook.CacheOptions())
	maps.Copy(options.ByObject, selfsigned.CacheOptions(f.operatorNamespace))
	return controller.TransformWatches(options)
}

// setupWebhooks adds the webhooks to the manager. It returns the readiness checks of whether they answer, nil without
// webhooks.
func (w *webhookServer) setupWebhooks(ctx context.Context, mgr ctrl.Manager, nodes *controller.NodeInventory) (map[string]healthz.Checker, error) {
	if w.certificates == certificatesOff {
		return nil, nil
	}
	if err := webhook.Setup(ctx, mgr, nodes, webhook.Namespaces{Scheduler: w.schedulerNamespace, Volcano: w.volcanoNamespace}); err != nil {
		return nil, err
	}

	checks := map[string]healthz.Checker{"cards": webhook.Ready(nodes), "webhooks": w.startedCheck()}
	if w.rotator != nil {
		if err := w.rotator.Setup(mgr, false); err != nil {
			return nil, err
		}
		checks["certificate"] = w.rotator.Ready
	}

	return checks, nil
}
