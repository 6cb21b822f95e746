package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/kube"
	"volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/metrics"
	commonutil "volcano.sh/volcano/pkg/util"

	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/cardreclaim"
	"cardquota.dev/operator/internal/scheduler/configloader"
)

// run replaces Volcano's app.Run. The order matters: the process becomes live and ready, then
// waits for a valid configuration, until no other scheduler runs, and until it is elected. Only
// the leader builds Volcano's cache, which writes the root and default queues, so a waiting
// replica changes nothing. It returns nil once signalCtx has ended and the scheduler has
// stopped.
func run(signalCtx context.Context, flags *flags) error {
	opt := flags.volcano
	config, err := kube.BuildConfig(opt.KubeClientOptions)
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}

	cache := capacitycard.NewCache()
	preempt := registerPlugins(cache)
	if err := loadCustomPlugins(opt.PluginsDir); err != nil {
		return err
	}

	ctx, end := context.WithCancelCause(signalCtx)
	defer end(nil)

	loader, closeLoader, err := newConfigLoader(config, flags)
	if err != nil {
		return err
	}
	defer closeLoader()

	others, closeOthers, err := watchOtherSchedulers(config, flags)
	if err != nil {
		return err
	}
	defer closeOthers()

	var readers *rest.Config
	if flags.secureMetrics {
		readers = rest.AddUserAgent(rest.CopyConfig(config), "metrics")
	}

	if err := startServers(ctx, opt, healthHandler(readiness{loader, others}), readers); err != nil {
		return err
	}
	go func() { end(loader.Run(ctx)) }()

	select {
	case <-ctx.Done():
		return stopReason(signalCtx, ctx)
	case <-loader.Ready():
	}

	heartbeatNamespace := flags.heartbeatNamespace()
	opt.SchedulerConf = loader.File()

	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}

	identity := hostname + "_" + string(uuid.NewUUID()) // the host for people
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "leader-election"))
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	if err := alignFeatureGates(client.Discovery()); err != nil {
		return err
	}

	// Kubernetes' scheduler plugins dereference these without looking.
	metrics.InitKubeSchedulerRelatedMetrics()

	work := &leader{config: config, opt: opt, loader: loader, others: others, heartbeatNamespace: heartbeatNamespace, identity: identity, cache: cache, evictor: preempt.Evictor()}
	return runElections(signalCtx, ctx, others, func() *election {
		fence := newFence()
		return &election{
			config:        opt.LeaderElection,
			client:        client,
			identity:      identity,
			component:     commonutil.GenerateComponentName(opt.SchedulerNames),
			fence:         fence,
			lead:          work.leadBehind(fence),
			beforeRelease: work.writeFinalHeartbeat,
		}
	})
}

// loadCustomPlugins loads the plugins of a directory, "" for none.
func loadCustomPlugins(dir string) error {
	if dir == "" {
		return nil
	}
	if err := framework.LoadCustomPlugins(dir); err != nil {
		return fmt.Errorf("plugins of %s: %w", dir, err)
	}
	return nil
}

// stopReason returns nil after a signal, otherwise why ctx ended.
func stopReason(signalCtx, ctx context.Context) error {
	if signalCtx.Err() == nil {
		return context.Cause(ctx)
	}
	return nil
}

// readiness is the text of the readiness page: the loader's status and, while another scheduler
// keeps this process from the election, that.
type readiness struct {
	loader *configloader.Loader
	others *otherSchedulers
}

func (r readiness) String() string {
	text := r.loader.Status().String()
	if waits := r.others.String(); waits != "" {
		text += "\n" + waits
	}
	return text
}

// newConfigLoader returns a configuration loader with a directory of its own, and a function
// that removes the directory.
func newConfigLoader(config *rest.Config, flags *flags) (*configloader.Loader, func(), error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "configuration"))
	if err != nil {
		return nil, nil, fmt.Errorf("API server: %w", err)
	}

	source := configloader.NewFile(flags.volcano.SchedulerConf)
	if flags.volcano.SchedulerConf == "" {
		name, err := flags.configMapName()
		if err != nil {
			return nil, nil, err
		}
		source = configloader.NewConfigMap(client, name, flags.configMapKey)
	}

	dir, err := os.MkdirTemp("", "cardquota-scheduler-")
	if err != nil {
		return nil, nil, fmt.Errorf("make the private directory: %w", err)
	}

	recorder, endEvents := newRecorder(client, "", configloader.EventSource)
	loader, err := configloader.New(configloader.Config{
		Source:   source,
		Dir:      dir,
		Known:    registeredNames(flags.volcano.PluginsDir),
		Accept:   checkAcceptedByVolcano,
		Recorder: recorder,
		Log:      klog.Background().WithName("configuration"),
	})

	cleanUp := func() {
		endEvents()
		if err := os.RemoveAll(dir); err != nil {
			klog.ErrorS(err, "the private directory is left behind")
		}
	}
	if err != nil {
		cleanUp()
		return nil, nil, err
	}

	return loader, cleanUp, nil
}

// newRecorder returns an event recorder for a namespace ("" for the objects' own) and a
// function that stops it.
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

// majorMinor joins the parts of a version. Some providers write a minor version like 34+, on
// which the version parser panics.
func majorMinor(major, minor string) string {
	notDigit := func(r rune) bool { return r < '0' || r > '9' }
	return strings.TrimRightFunc(major, notDigit) + "." + strings.TrimRightFunc(minor, notDigit)
}

// leader is what the elected process runs: Volcano's scheduler and its heartbeat.
type leader struct {
	config *rest.Config
	opt    *options.ServerOption
	loader *configloader.Loader
	others *otherSchedulers
	// heartbeatNamespace is the namespace of the heartbeat, identity its holder.
	heartbeatNamespace string
	identity           string
	// cache is that of the plugin; evictor replaces Volcano's.
	cache   *capacitycard.Cache
	evictor *cardreclaim.Evictor
}

// writeFinalHeartbeat records in the heartbeat that this process has stopped. It bypasses the
// fence, which is closed by then.
func (l *leader) writeFinalHeartbeat(ctx context.Context) {
	leases, err := newHeartbeatClient(l.config, l.heartbeatNamespace)
	if err == nil {
		err = writeFinalHeartbeat(ctx, leases, l.identity)
	}
	if err != nil {
		klog.ErrorS(err, "the heartbeat does not say that this scheduler has stopped: it runs out by itself")
	}
}

// leadBehind returns the function that schedules behind a fence until its context ends. It
// returns earlier only with an error.
func (l *leader) leadBehind(fence *fence) func(context.Context) error {
	return func(term context.Context) error {
		// Another scheduler may have started while this process waited for the lease.
		if err := l.others.confirmNone(term); err != nil {
			return err
		}

		select {
		case <-term.Done():
			return nil
		default:
		}

		fenced := rest.CopyConfig(l.config)
		fenced.Wrap(fence.wrapTransport)
		sched, err := scheduler.NewScheduler(fenced, l.opt)
		if err != nil {
			return fmt.Errorf("start the scheduler: %w", err)
		}
		if err := replaceEvictor(sched, l.evictor); err != nil {
			return err
		}

		problem := func() string { return configProblemOf(l.loader.Status()) }
		leases, err := newHeartbeatClient(fenced, l.heartbeatNamespace)
		if err != nil {
			return err
		}

		writer := newHeartbeatWriter(leases, l.heartbeatNamespace, l.identity, problem)
		l.cache.SetSessionObserver(writer.observeSession)
		go writer.run(term)
		sched.Run(term.Done())
		<-term.Done()

		return nil
	}
}

// runElections is a candidate whenever no other scheduler runs, until this process has led or
// ctx ends. Another scheduler that appears ends the election: a process that has not led waits
// until it is gone. The leader stops, frees the lease and returns an error, because Volcano
// cannot be started twice. newElection returns an election that was not run yet.
func runElections(signalCtx, ctx context.Context, others *otherSchedulers, newElection func() *election) error {
	for {
		if others.waitUntilNone(ctx) != nil {
			return stopReason(signalCtx, ctx)
		}

		term, end := context.WithCancelCause(ctx)
		go func() {
			if err := others.waitForAny(term); err != nil {
				end(err)
			}
		}()

		current := newElection()
		err := current.run(term)
		cause := stopReason(signalCtx, term)
		end(nil)
		if err != nil || cause == nil || current.hasLed || ctx.Err() != nil {
			return errors.Join(err, cause)
		}
		klog.InfoS("withdraws from the election", "reason", cause.Error())
	}
}

// ownPodName returns the name of the pod that this process runs in.
func ownPodName() string {
	if name := os.Getenv("POD_NAME"); name != "" {
		return name
	}
	name, _ := os.Hostname() // without a name no pod is the own one
	return name
}

// registerPlugins adds our plugin and actions to Volcano's. It returns Volcano's action preempt
// with the rules of card quota.
func registerPlugins(cache *capacitycard.Cache) *cardreclaim.Preempt {
	framework.RegisterPluginBuilder(capacitycard.PluginName, capacitycard.Builder(cache))
	reclaim := cardreclaim.New(cache, nil)
	preempt := cardreclaim.NewPreempt(reclaim)
	framework.RegisterAction(reclaim)
	framework.RegisterAction(preempt)                          // in the place of Volcano's
	framework.RegisterAction(cardreclaim.NewAllocate(reclaim)) // likewise, and drains queues
	prometheus.MustRegister(append(reclaim.Metrics(), cache.Metrics())...)
	return preempt
}

// errNoCache means that Volcano's scheduler differs from that of v1.14.1.
var errNoCache = errors.New("the cache of Volcano's scheduler was not found, so its evictions would leave gangs partially running")

// replaceEvictor replaces the evictor in the cache of a scheduler by that of Preempt. Volcano
// exports the evictor of a cache, but not the cache of a scheduler.
func replaceEvictor(sched *scheduler.Scheduler, evictor *cardreclaim.Evictor) error {
	found, err := schedulerCache(sched)
	if err != nil {
		return err
	}
	found.Evictor = evictor.Use(found.Client(), found.Recorder)
	return nil
}

func schedulerCache(sched *scheduler.Scheduler) (*cache.SchedulerCache, error) {
	field := reflect.ValueOf(sched).Elem().FieldByName("cache")
	if !field.IsValid() || field.Kind() != reflect.Interface || field.IsNil() || field.Elem().Type() != reflect.TypeFor[*cache.SchedulerCache]() {
		return nil, errNoCache
	}
	return (*cache.SchedulerCache)(field.Elem().UnsafePointer()), nil
}
