// The manager is the operator of Cardquota: it writes CardQuotas to Volcano
// Queues and their use back to the status, and the ServiceTypePolicy to the
// scheduler's configuration.
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/controller/admissionpolicy"
	"cardquota.dev/operator/internal/controller/cardquota"
	"cardquota.dev/operator/internal/controller/servicetypepolicy"
	"cardquota.dev/operator/internal/version"
	"cardquota.dev/operator/internal/webhook"
)

// leaderLease is the Lease by which replicas elect their leader; the shipped
// Role names it.
const leaderLease = "cardquota-manager"

func main() {
	f, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	log := zap.New(zap.UseFlagOptions(&f.logging))
	ctrl.SetLogger(log)
	klog.SetLogger(log) // client-go's own lines come in the same form
	log.Info("starting", "version", version.Version)
	if err := run(f); err != nil {
		ctrl.Log.Error(err, "manager stopped")
		os.Exit(1)
	}
}

func run(f flags) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS, config.Burst = float32(f.qps), int(2*f.qps)

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme, webhook.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("build scheme: %w", err)
		}
	}
	hooks, err := newHooks(f)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cacheOptions(f),
		Metrics:                       metricsOptions(f),
		WebhookServer:                 hooks.server,
		HealthProbeBindAddress:        f.probes,
		LeaderElection:                f.elect,
		LeaderElectionID:              leaderLease,
		LeaderElectionNamespace:       f.electNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("make manager: %w", err)
	}
	ctx := ctrl.SetupSignalHandler()
	nodes := controller.NewNodes(mgr.GetCache())
	if err := mgr.Add(nodes); err != nil {
		return fmt.Errorf("add nodes: %w", err)
	}
	guard, err := admissionpolicy.Setup(mgr, nodes, false)
	if err != nil {
		return err
	}
	quotas, policies := cardquota.DefaultOptions(), servicetypepolicy.DefaultOptions()
	quotas.Cards = nodes
	recounter, err := cardquota.Setup(ctx, mgr, quotas)
	if err != nil {
		return err
	}
	policies.Scheduler, policies.Volcano = f.scheduler, f.volcano
	policies.Bypasses, policies.Guard = recounter, guard
	if err := servicetypepolicy.Setup(ctx, mgr, policies); err != nil {
		return err
	}
	if err := hooks.setup(ctx, mgr, nodes); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add readiness check: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run manager: %w", err)
	}
	return nil
}
