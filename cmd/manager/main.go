// The manager is the operator of Cardquota: it writes CardQuotas to Volcano
// Queues and their use back to the status, and the ServiceTypePolicy to the
// scheduler's configuration.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/controller/cardquota"
	"cardquota.dev/operator/internal/controller/enforced"
	"cardquota.dev/operator/internal/controller/servicetypepolicy"
	"cardquota.dev/operator/internal/version"
)

// leaderLease is the Lease by which replicas elect their leader; the shipped
// Role names it.
const leaderLease = "cardquota-manager"

// flags are the command line.
type flags struct {
	metrics, probes string
	elect           bool
	electNamespace  string
	qps             float64
	logging         zap.Options
}

func parse(args []string) (flags, error) {
	var f flags
	set := flag.NewFlagSet("cardquota-manager", flag.ContinueOnError)
	set.StringVar(&f.metrics, "metrics-bind-address", ":8080", "The address that serves /metrics; 0 serves none.")
	set.StringVar(&f.probes, "health-probe-bind-address", ":8081", "The address that serves /healthz and /readyz.")
	set.BoolVar(&f.elect, "leader-elect", true, "Work only while holding the leader Lease, so that several replicas can run.")
	set.StringVar(&f.electNamespace, "leader-elect-namespace", "volcano-system", "The namespace of the leader Lease.")
	set.Float64Var(&f.qps, "kube-api-qps", 500, "Requests per second to the API server; bursts may be twice as many.")
	f.logging.BindFlags(set)
	kubeconfig := flag.CommandLine.Lookup("kubeconfig")
	set.Var(kubeconfig.Value, kubeconfig.Name, kubeconfig.Usage)
	if err := set.Parse(args); err != nil {
		return flags{}, fmt.Errorf("parse flags: %w", err)
	}
	if f.qps <= 0 {
		return flags{}, fmt.Errorf("parse flags: --kube-api-qps is %g: it must be more than 0", f.qps)
	}
	return f, nil
}

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
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("build scheme: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cardquota.CacheOptions(),
		Metrics:                       metricsserver.Options{BindAddress: f.metrics},
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
	watch, err := enforced.Setup(mgr, metrics.Registry)
	if err != nil {
		return err
	}
	quotas, policies := cardquota.DefaultOptions(), servicetypepolicy.DefaultOptions()
	quotas.Enforced = watch
	policies.Enforcement, policies.Woken = watch.Policy, watch.WakePolicy()
	if err := cardquota.Setup(ctx, mgr, quotas); err != nil {
		return err
	}
	if err := servicetypepolicy.Setup(ctx, mgr, policies); err != nil {
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
