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

	"cardquota.dev/operator/internal/scheduler/actions"
	"cardquota.dev/operator/internal/scheduler/capacitycard"
	"cardquota.dev/operator/internal/scheduler/cardreclaim"
	"cardquota.dev/operator/internal/scheduler/configloader"
	"cardquota.dev/operator/internal/scheduler/leader"
	"cardquota.dev/operator/internal/schedulerconfig"
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

	// The loader accepts only names that are registered when it is made.
	cache := capacitycard.NewCache()
	preempt := registerPlugins(cache)
	if err := loadCustomPlugins(opt.PluginsDir); err != nil {
		return err
	}

	// A signal ends ctx without a cause, a fault with one.
	ctx, end := context.WithCancelCause(context.WithoutCancel(signalCtx))
	defer end(nil)
	context.AfterFunc(signalCtx, func() { end(nil) })

	loader, closeLoader, err := newConfigLoader(config, flags)
	if err != nil {
		return err
	}
	defer closeLoader()
	prometheus.MustRegister(loader.Metrics()...)

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
	// A loader that cannot watch its source would miss changes, so its error ends the process.
	go func() { end(loader.Run(ctx)) }()

	select {
	case <-ctx.Done():
		return leader.StopReason(ctx)
	case <-loader.Ready():
	}

	// This reads the flag that the next line replaces.
	heartbeatNamespace := flags.heartbeatNamespace()
	opt.SchedulerConf = loader.File()

	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}

	identity := hostname + "_" + string(uuid.NewUUID()) // the host is for people: two processes may share it
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "leader-election"))
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	// This API server may be older or newer than the Kubernetes that this program is built with.
	if err := alignFeatureGates(client.Discovery()); err != nil {
		return err
	}

	// Kubernetes' scheduler plugins dereference these metrics without a check for nil.
	metrics.InitKubeSchedulerRelatedMetrics()

	recorder, endEvents := newRecorder(client, opt.LeaderElection.ResourceNamespace, commonutil.GenerateComponentName(opt.SchedulerNames))
	defer endEvents()
	work := &work{opt: opt, cache: cache, evictor: preempt.Evictor()}
	candidate := &leader.Candidate{
		Config:             config,
		Election:           opt.LeaderElection,
		Client:             client,
		Recorder:           recorder,
		Identity:           identity,
		Others:             others,
		HeartbeatNamespace: heartbeatNamespace,
		ConfigProblem:      func() string { return loader.Status().Problem() },
		Schedule:           work.schedule,
	}
	return candidate.Run(ctx)
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

// readiness is the text of the readiness page: the loader's status and, while another scheduler
// keeps this process from the election, that.
type readiness struct {
	loader *configloader.Loader
	others *leader.OtherSchedulers
}

// String returns the lines of the page.
func (r readiness) String() string {
	text := r.loader.Status().String()
	if waits := r.others.String(); waits != "" {
		text += "\n" + waits
	}
	return text
}

// newConfigLoader returns a configuration loader with a directory of its own, in which Volcano reads the accepted text,
// and a function that ends its events and removes the directory.
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

// handoverEventSource is the component of events about the pods of other schedulers.
const handoverEventSource = "cardquota-scheduler-handover"

// watchOtherSchedulers returns what finds other schedulers, and a function that sends its last events.
func watchOtherSchedulers(config *rest.Config, flags *flags) (*leader.OtherSchedulers, func(), error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "handover"))
	if err != nil {
		return nil, nil, fmt.Errorf("API server: %w", err)
	}
	recorder, endEvents := newRecorder(client, "", handoverEventSource)
	namespaces := append(flags.otherSchedulerNamespaces, flags.volcano.LeaderElection.ResourceNamespace)
	return leader.NewOtherSchedulers(client, namespaces, flags.otherSchedulerSelector, ownPodName(), recorder), endEvents, nil
}

// ownPodName returns the name of the pod that this process runs in.
func ownPodName() string {
	if name := os.Getenv("POD_NAME"); name != "" {
		return name
	}
	name, _ := os.Hostname() // without a name no pod is the own one
	return name
}

// work is what the leader runs: Volcano's scheduler with our cache and evictor.
type work struct {
	opt *options.ServerOption
	// cache is that of the plugin; evictor replaces Volcano's.
	cache   *capacitycard.Cache
	evictor *cardreclaim.Evictor
}

// schedule runs Volcano's scheduler until ctx ends. It returns earlier only with an error. observe gets a report of
// each session.
func (w *work) schedule(ctx context.Context, config *rest.Config, observe func(capacitycard.SessionReport)) error {
	sched, err := scheduler.NewScheduler(config, w.opt)
	if err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	if err := replaceEvictor(sched, w.evictor); err != nil {
		return err
	}

	w.cache.SetSessionObserver(observe)
	// Volcano schedules in goroutines, so Run returns at once.
	sched.Run(ctx.Done())
	<-ctx.Done()

	return nil
}

// registerPlugins adds our plugin and actions to Volcano's. It returns Volcano's action preempt
// with the rules of card quota.
func registerPlugins(cache *capacitycard.Cache) *actions.Preempt {
	framework.RegisterPluginBuilder(schedulerconfig.CapacityCard, capacitycard.Builder(cache))
	shared := actions.NewShared(cache, nil)
	preempt := actions.NewPreempt(shared)
	framework.RegisterAction(actions.NewCardReclaim(shared))
	framework.RegisterAction(preempt)                     // in the place of Volcano's
	framework.RegisterAction(actions.NewAllocate(shared)) // likewise, and drains queues
	prometheus.MustRegister(append(shared.Search.Metrics(), cache.Metrics())...)
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

// schedulerCache returns the cache of a scheduler, which is in an unexported field. It returns errNoCache if that field
// is not as in Volcano v1.14.1.
func schedulerCache(sched *scheduler.Scheduler) (*cache.SchedulerCache, error) {
	field := reflect.ValueOf(sched).Elem().FieldByName("cache")
	if !field.IsValid() || field.Kind() != reflect.Interface || field.IsNil() || field.Elem().Type() != reflect.TypeFor[*cache.SchedulerCache]() {
		return nil, errNoCache
	}
	return (*cache.SchedulerCache)(field.Elem().UnsafePointer()), nil
}
