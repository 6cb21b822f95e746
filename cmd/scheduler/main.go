// Command cardquota-scheduler is Volcano's scheduler with card quotas: Volcano v1.14.1's
// actions and plugins, the capacity-card plugin and the cardreclaim action. It places no pods
// until it has a configuration that enforces quotas.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	// Credential plugins of kubeconfig files.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	cliflag "k8s.io/component-base/cli/flag"
	componentbaseoptions "k8s.io/component-base/config/options"
	// Metrics of API requests.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	// Volcano's own actions and plugins register themselves.
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	// Decides by PANIC_ON_ERROR what Volcano's assertions do.
	_ "volcano.sh/volcano/pkg/scheduler/util/assert"
	commonutil "volcano.sh/volcano/pkg/util"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/workload"
)

func main() {
	// Volcano looks up the flag v in the command line's flag set while it runs.
	klog.InitFlags(nil)
	flags := addFlags(pflag.CommandLine)
	pflag.CommandLine.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
	pflag.Parse()
	if flags.volcano.PrintVersion {
		fmt.Println(versionLine())
		return
	}
	os.Exit(runScheduler(flags))
}

// runScheduler returns the process's exit code: 0 only after a signal and an orderly stop.
func runScheduler(flags *flags) int {
	if err := flags.complete(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	klog.StartFlushDaemon(flags.logFlush)
	defer klog.Flush()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)

	if err := run(ctx, flags); err != nil {
		klog.ErrorS(err, "the scheduler stopped with an error")
		return 1
	}
	klog.InfoS("the scheduler stopped after a signal")

	return 0
}

// flags are all flags of Volcano's scheduler, some with other defaults, those of the
// configuration loader, and those of the handover.
type flags struct {
	volcano *options.ServerOption
	// configMap is namespace/name of the ConfigMap to watch, configMapKey its key.
	configMap    string
	configMapKey string
	logFlush     time.Duration
	// secureMetrics serves metrics over TLS, and only to authorized readers.
	secureMetrics bool
	// otherSchedulerNamespaces are searched for pods of other schedulers, besides that of the
	// leader lease.
	otherSchedulerNamespaces []string
	// otherSchedulerLabels finds the pods of other schedulers, "" finds none. complete parses
	// it into otherSchedulerSelector, nil for none.
	otherSchedulerLabels   string
	otherSchedulerSelector labels.Selector
}

// ourDefaults are the flags of Volcano whose default differs here.
var ourDefaults = map[string]string{
	"enable-healthz": "true",
	"enable-metrics": "true",
	// Volcano's built-in configuration has no capacity-card, so it would enforce nothing.
	"disable-default-scheduler-config": "true",
}

// addFlags declares the flags in Volcano's order: the lease's name comes from the default of
// --scheduler-name, so it is "volcano" whatever that flag says later.
func addFlags(set *pflag.FlagSet) *flags {
	f := &flags{volcano: options.NewServerOption()}
	f.volcano.AddFlags(set)
	utilfeature.DefaultMutableFeatureGate.AddFlag(set)
	commonutil.LeaderElectionDefault(&f.volcano.LeaderElection)
	f.volcano.LeaderElection.ResourceName = commonutil.GenerateComponentName(f.volcano.SchedulerNames)
	componentbaseoptions.BindLeaderElectionFlags(&f.volcano.LeaderElection, set)

	for name, value := range ourDefaults {
		flag := set.Lookup(name)
		flag.DefValue = value
		if err := flag.Value.Set(value); err != nil {
			panic(fmt.Errorf("default of --%s: %w", name, err))
		}
	}

	set.DurationVar(&f.logFlush, "log-flush-frequency", 5*time.Second, "Maximum number of seconds between log flushes")
	set.StringVar(&f.configMap, "scheduler-configmap", "volcano-system/cardquota-scheduler-configmap",
		"Namespace and name of the ConfigMap that holds the scheduler configuration; not used with --scheduler-conf")
	set.StringVar(&f.configMapKey, "scheduler-configmap-key", "volcano-scheduler.conf",
		"Key of the scheduler configuration in --scheduler-configmap")

	set.BoolVar(&f.secureMetrics, "secure-metrics", false,
		"Serve --listen-address over TLS, and only to readers whose token may get the path (TokenReview, SubjectAccessReview)")
	set.StringSliceVar(&f.otherSchedulerNamespaces, "foreign-scheduler-namespaces", []string{workload.StockSchedulerNamespace},
		"Namespaces in which another scheduler may run, besides that of the leader lease")
	set.StringVar(&f.otherSchedulerLabels, "foreign-scheduler-selector", workload.StockSchedulerLabel+"="+workload.StockSchedulerApp,
		"Labels of the pods that run another scheduler, in the namespace of the leader lease and in --foreign-scheduler-namespaces. While one of them runs this scheduler is not elected, and it ends when one appears. Empty: never look")

	set.Lookup("scheduler-conf").Usage = "The absolute path of a scheduler configuration file, to be used instead of --scheduler-configmap"
	set.Lookup("disable-default-scheduler-config").Usage = "Always true: without a good configuration nothing is scheduled"
	return f
}

// complete validates the parsed flags and registers them with Volcano, which reads some of them
// through a global variable.
func (f *flags) complete() error {
	if err := f.volcano.CheckOptionOrDie(); err != nil {
		return err
	}
	if _, err := f.configMapName(); err != nil {
		return err
	}

	if f.otherSchedulerLabels != "" {
		selector, err := labels.Parse(f.otherSchedulerLabels)
		if err != nil {
			return fmt.Errorf("--foreign-scheduler-selector=%s is no label selector: %w", f.otherSchedulerLabels, err)
		}
		f.otherSchedulerSelector = selector
	}

	if !f.volcano.DisableDefaultSchedulerConfig {
		klog.InfoS("--disable-default-scheduler-config=false is ignored: Volcano's default configuration enforces no card quota")
		f.volcano.DisableDefaultSchedulerConfig = true
	}

	f.requireElection()

	//nolint:staticcheck // the deprecated flag still works in Volcano
	if namespace := f.volcano.LockObjectNamespace; namespace != "" {
		f.volcano.LeaderElection.ResourceNamespace = namespace
	}

	// If one of the files is not named, the servers use plain HTTP, and need none of them.
	if f.volcano.CaCertFile != "" && f.volcano.CertFile != "" && f.volcano.KeyFile != "" {
		if err := f.volcano.ParseCAFiles(nil); err != nil { // nil: the files are not encrypted
			return fmt.Errorf("read the serving certificate: %w", err)
		}
	}

	f.volcano.RegisterOptions()
	return nil
}

// requireElection switches the leader election on in a cluster. Volcano's installer and chart switch it off. If
// our image runs in their Deployment, a second replica, or one on a lost node, would then have its own ledger.
// Outside a cluster the administrator starts the scheduler by hand.
func (f *flags) requireElection() {
	client := f.volcano.KubeClientOptions // neither is set in a cluster
	if !f.volcano.LeaderElection.LeaderElect && client.KubeConfig == "" && client.Master == "" {
		klog.InfoS("--leader-elect=false is ignored in a cluster: two schedulers must never run at the same time")
		f.volcano.LeaderElection.LeaderElect = true
	}
}

// configMapName returns the namespace and name of --scheduler-configmap, or what is wrong with it or with its key.
func (f *flags) configMapName() (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(f.configMap, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("--scheduler-configmap=%s: write namespace/name", f.configMap)
	}
	if f.configMapKey == "" {
		return types.NamespacedName{}, errors.New("--scheduler-configmap-key is empty: write the key that holds the configuration")
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// heartbeatNamespace is the namespace of the heartbeat: that of the ConfigMap, or with a file
// that of the leader lease. The flags must be complete and unchanged.
func (f *flags) heartbeatNamespace() string {
	if name, err := f.configMapName(); err == nil && f.volcano.SchedulerConf == "" {
		return name.Namespace
	}
	return f.volcano.LeaderElection.ResourceNamespace
}

// versionLine names this build and the Volcano in it.
func versionLine() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "cardquota-scheduler " + build.Version
	}
	volcano := "unknown"
	for _, module := range info.Deps {
		if module.Path == "volcano.sh/volcano" {
			volcano = module.Version
		}
	}
	return fmt.Sprintf("cardquota-scheduler %s, Volcano %s, %s", build.Version, volcano, info.GoVersion)
}
