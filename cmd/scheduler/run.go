package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/kube"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/metrics"
	commonutil "volcano.sh/volcano/pkg/util"

	"cardquota.dev/operator/internal/capacitycard"
	"cardquota.dev/operator/internal/configgate"
)

// run takes the place of Volcano's app.Run. The order is what matters: the process is live
// and ready first, then waits for a good configuration, then until no other scheduler runs,
// then for its turn to lead; only the leader builds Volcano's cache, which writes the root
// and default queues. A replica that waits therefore changes nothing and needs nothing of
// Volcano's. It returns nil once asked has ended and the scheduler has stopped in order.
func run(asked context.Context, flags *flags) error {
	opt := flags.volcano
	config, err := kube.BuildConfig(opt.KubeClientOptions)
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	cache := capacitycard.NewCache()
	preempt := registerPlugins(cache)
	if opt.PluginsDir != "" {
		if err := framework.LoadCustomPlugins(opt.PluginsDir); err != nil {
			return fmt.Errorf("plugins of %s: %w", opt.PluginsDir, err)
		}
	}

	ctx, end := context.WithCancelCause(asked)
	defer end(nil)
	gate, closeGate, err := newGate(config, flags)
	if err != nil {
		return err
	}
	defer closeGate()
	others, closeOthers, err := watchForeign(config, flags)
	if err != nil {
		return err
	}
	defer closeOthers()
	var readers *rest.Config
	if flags.secureMetrics {
		readers = rest.AddUserAgent(rest.CopyConfig(config), "metrics")
	}
	if err := serve(ctx, opt, healthHandler(state{gate, others}), readers); err != nil {
		return err
	}
	go func() { end(gate.Run(ctx)) }()

	select {
	case <-ctx.Done():
		return stopReason(asked, ctx)
	case <-gate.Ready():
	}
	heartbeats := flags.heartbeatNamespace()
	opt.SchedulerConf = gate.File()

	identity, err := newIdentity()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "leader-election"))
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	if err := alignFeatureGates(client.Discovery()); err != nil {
		return err
	}
	// Kubernetes' scheduler plugins dereference these without looking.
	metrics.InitKubeSchedulerRelatedMetrics()

	work := &leader{config: config, opt: opt, gate: gate, others: others, heartbeats: heartbeats, identity: identity, cache: cache, evictor: preempt.Evictor()}
	return takeTurns(asked, ctx, others, func() *election {
		fence := newFence()
		return &election{
			config:    opt.LeaderElection,
			client:    client,
			identity:  identity,
			component: commonutil.GenerateComponentName(opt.SchedulerNames),
			fence:     fence,
			lead:      work.with(fence),
			farewell:  work.farewell,
		}
	})
}

// stopReason is nil if the process was asked to stop, else why ctx ended by itself.
func stopReason(asked, ctx context.Context) error {
	if asked.Err() == nil {
		return context.Cause(ctx)
	}
	return nil
}

// state is what the readiness page shows: the gate's status and, while this process may not
// stand for election because of another scheduler, that.
type state struct {
	gate   *configgate.Gate
	others *foreign
}

func (s state) String() string {
	text := s.gate.Status().String()
	if waits := s.others.String(); waits != "" {
		text += "\n" + waits
	}
	return text
}

// newGate makes the configuration gate in a directory of its own, and a function that removes
// that directory.
func newGate(config *rest.Config, flags *flags) (*configgate.Gate, func(), error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "configuration"))
	if err != nil {
		return nil, nil, fmt.Errorf("API server: %w", err)
	}
	source := configgate.NewFile(flags.volcano.SchedulerConf)
	if flags.volcano.SchedulerConf == "" {
		name, err := flags.configMapName()
		if err != nil {
			return nil, nil, err
		}
		source = configgate.NewConfigMap(client, name, flags.configMapKey)
	}
	dir, err := os.MkdirTemp("", "cardquota-scheduler-")
	if err != nil {
		return nil, nil, fmt.Errorf("make the private directory: %w", err)
	}
	recorder, endEvents := newRecorder(client, "", configgate.EventSource)
	gate, err := configgate.New(configgate.Config{
		Source:   source,
		Dir:      dir,
		Known:    knownNames(flags.volcano.PluginsDir),
		Accept:   volcanoAccepts,
		Recorder: recorder,
		Log:      klog.Background().WithName("configuration"),
	})
	remove := func() {
		endEvents()
		if err := os.RemoveAll(dir); err != nil {
			klog.ErrorS(err, "the private directory is left behind")
		}
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return gate, remove, nil
}

// newRecorder records events in a namespace, "" for the objects' own, until its function is called.
func newRecorder(client kubernetes.Interface, namespace, component string) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(namespace)})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}), broadcaster.Shutdown
}

// alignFeatureGates sets the defaults of Kubernetes' feature gates to those of the cluster's
// version, so that nothing is used or watched that this API server does not have.
func alignFeatureGates(server discovery.ServerVersionInterface) error {
	version, err := server.ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	registry := basecompatibility.NewComponentGlobalsRegistry()
	effective := basecompatibility.NewEffectiveVersionFromString(majorMinor(version.Major, version.Minor), "", "")
	if err := registry.Register(basecompatibility.DefaultKubeComponent, effective, utilfeature.DefaultMutableFeatureGate); err != nil {
		return fmt.Errorf("register the feature gates: %w", err)
	}
	if err := registry.Set(); err != nil {
		return fmt.Errorf("set the feature gates: %w", err)
	}
	return nil
}

// majorMinor joins a version's parts. Some providers write a minor version like 34+, which
// the version parser answers with a panic.
func majorMinor(major, minor string) string {
	notDigit := func(r rune) bool { return r < '0' || r > '9' }
	return strings.TrimRightFunc(major, notDigit) + "." + strings.TrimRightFunc(minor, notDigit)
}
