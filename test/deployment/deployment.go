// Package deployment runs this repository's operator and scheduler on a local cluster, from the
// manifests under config/. They run as processes with the rights of the shipped
// ServiceAccounts.
package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/cluster"
)

// Namespace is the namespace of both programs.
const Namespace = "volcano-system"

// Options configure the programs. The zero value is the shipped configuration with a session
// every second.
type Options struct {
	// Configuration is the manifest of the scheduler's ConfigMap; default:
	// config/scheduler/configmap.yaml. Volcano's own ConfigMap gets the same text, as the base
	// of a policy. NoConfiguration installs neither.
	Configuration string
	// SchedulePeriod is the time between sessions, one second by default.
	SchedulePeriod time.Duration
	// WithoutEnforceRights leaves the rights to enforce unbound, as for a cluster on which Cardquota only observes.
	WithoutEnforceRights bool
	// SecureMetrics lets both programs serve their metrics over TLS, as shipped, and creates a token
	// that may read them.
	SecureMetrics bool
	// SchedulerArgs and ManagerArgs are added to the programs' flags.
	SchedulerArgs, ManagerArgs []string
	// ManagerEnv is added to the operator's environment.
	ManagerEnv []string
}

// Deployment is a running operator and scheduler. They stop with the cluster.
type Deployment struct {
	cluster *cluster.Cluster
	options Options

	// Manager and Scheduler are the processes started last.
	Manager, Scheduler *cluster.Process
	// metricsSource is where the scheduler that was started last serves its metrics.
	metricsSource atomic.Pointer[metricsEndpoint]
	// managerMetrics is where the manager that was started last serves its metrics, nil for nowhere.
	managerMetrics atomic.Pointer[metricsEndpoint]
	metricsToken   string
}

// shippedConfigMap is the manifest of the scheduler's configuration.
const shippedConfigMap = "config/scheduler/configmap.yaml"

// NoConfiguration as Options.Configuration installs no ConfigMaps: the scheduler waits for one.
const NoConfiguration = "none"

// ShippedConfiguration returns config/scheduler/configmap.yaml with texts replaced: old, new,
// old, new … Each old text must occur exactly once.
func ShippedConfiguration(replace ...string) (string, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, shippedConfigMap))
	for i := 0; i < len(replace); i += 2 {
		if strings.Count(string(text), replace[i]) != 1 {
			err = errors.Join(err, fmt.Errorf("the shipped configuration has not once %q", replace[i]))
		}
	}
	return strings.NewReplacer(replace...).Replace(string(text)), err
}

// Install applies CRDs, RBAC and the scheduler's configuration to the cluster, and binds the rights to enforce,
// without starting a program.
func Install(ctx context.Context, c *cluster.Cluster, o Options) (*Deployment, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return nil, err
	}

	if o.SchedulePeriod == 0 {
		o.SchedulePeriod = time.Second
	}

	d := &Deployment{cluster: c, options: o}
	for _, pattern := range []string{"config/crd/bases/*.yaml", "config/rbac/*.yaml"} {
		if err := applyFiles(ctx, c, root, pattern); err != nil {
			return nil, err
		}
	}

	if !o.WithoutEnforceRights {
		if err := bindEnforceRights(ctx, c); err != nil {
			return nil, err
		}
	}

	if o.SecureMetrics {
		if err := d.createMetricsReader(ctx); err != nil {
			return nil, err
		}
	}

	if o.Configuration == NoConfiguration {
		return d, nil
	}

	if o.Configuration == "" {
		o.Configuration, err = ShippedConfiguration()
		if err != nil {
			return nil, err
		}
	}

	volcanos := strings.Replace(o.Configuration, "cardquota-scheduler-configmap", "volcano-scheduler-configmap", 1)
	return d, c.Apply(ctx, []byte(o.Configuration+"\n---\n"+volcanos))
}

// bindEnforceRights grants the operator what mode Enforce needs.
func bindEnforceRights(ctx context.Context, c *cluster.Cluster) error {
	binding, err := json.Marshal(builder.EnforceBinding(Namespace))
	if err != nil {
		return fmt.Errorf("encode the binding of the rights to enforce: %w", err)
	}
	return c.Apply(ctx, binding)
}

// applyFiles applies the manifests that match a pattern below a folder.
func applyFiles(ctx context.Context, c *cluster.Cluster, root, pattern string) error {
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no manifests at %s (%w)", pattern, err)
	}

	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		if err := c.ApplyFile(ctx, file); err != nil {
			return err
		}
	}

	return nil
}

// Start installs and starts both programs and waits until they are ready.
func Start(ctx context.Context, c *cluster.Cluster, o Options) (*Deployment, error) {
	d, err := Install(ctx, c, o)
	if err != nil {
		return nil, err
	}
	if err := d.StartManager(ctx); err != nil {
		return nil, err
	}
	return d, d.StartScheduler(ctx)
}

// StartManager starts the operator and waits until it is ready.
func (d *Deployment) StartManager(ctx context.Context) (err error) {
	var at *metricsEndpoint
	flags := []string{"--metrics-bind-address=0"}
	if d.options.SecureMetrics {
		at, flags, err = d.newMetricsEndpoint("metrics-bind-address")
		if err != nil {
			return err
		}
	}

	d.Manager, err = d.startProgram(ctx, "manager", "cardquota-manager", d.options.ManagerEnv, "--health-probe-bind-address=",
		slices.Concat(flags, []string{"--leader-elect=false"}, d.options.ManagerArgs)...)
	if err == nil && at != nil {
		at.process = d.Manager.Pid()
		d.managerMetrics.Store(at)
	}

	return err
}

// StartScheduler starts the scheduler and waits until it is ready. It also becomes ready
// without a configuration.
func (d *Deployment) StartScheduler(ctx context.Context) error {
	at, flags, err := d.newMetricsEndpoint("listen-address")
	if err != nil {
		return err
	}

	d.Scheduler, err = d.startProgram(ctx, "cardquota-scheduler", "cardquota-scheduler", nil, "--healthz-address=", slices.Concat(flags, []string{
		"--schedule-period=" + d.options.SchedulePeriod.String(), "--leader-elect=false", "-v=2",
	}, d.options.SchedulerArgs)...)
	if err != nil {
		return err
	}

	at.process = d.Scheduler.Pid()
	d.metricsSource.Store(at)
	return nil
}

// startProgram starts a program and waits until it is ready. health is the flag for the address
// of its probes.
func (d *Deployment) startProgram(ctx context.Context, binary, serviceAccount string, env []string, health string, args ...string) (*cluster.Process, error) {
	path, err := ProgramPath(ctx, binary)
	if err != nil {
		return nil, err
	}

	kubeconfig, err := d.cluster.KubeconfigFor(ctx, Namespace, serviceAccount)
	if err != nil {
		return nil, err
	}

	address, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}

	return d.cluster.StartProcess(ctx, cluster.ProcessSpec{
		Name: binary, Path: path, Args: append([]string{"--kubeconfig=" + kubeconfig, health + address}, args...), Env: env,
		Ready: cluster.HTTPProbe("http://" + address + "/readyz"),
	})
}

// StartStockScheduler starts Volcano's own scheduler as its installer does. It does not know
// card quotas.
func (d *Deployment) StartStockScheduler(ctx context.Context) (*cluster.Process, error) {
	return d.cluster.StartStockScheduler(ctx, cluster.StockConfiguration,
		"--schedule-period="+d.options.SchedulePeriod.String(), "--enable-metrics=false", "-v=2")
}

// StockPod returns the pod of Volcano's own scheduler as other programs see it: the scheduler
// itself is a process here. It takes some time to end after its deletion.
func StockPod(name, node string) *corev1.Pod {
	return builder.Pod(Namespace, name).Scheduler("").Node(node).GracePeriod(10).
		Label("app", "volcano-scheduler").Annotation("test.cardquota.dev/delete-after", "5s").Obj()
}

// NewScheme returns a scheme with the kinds of Kubernetes, Volcano and this project that tests
// use.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	kinds := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, v1beta1.AddToScheme, batchv1alpha1.AddToScheme, v1alpha1.AddToScheme)
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	return scheme, nil
}
