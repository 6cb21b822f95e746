// Package deployment runs this repository's operator and scheduler on a local
// cluster: from the manifests under config/, as processes that hold nothing
// but the ServiceAccounts shipped there.
package deployment

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"cardquota.dev/operator/test/cluster"
)

// Namespace is where both programs live.
const Namespace = "volcano-system"

// Options decide how the programs run. The zero value is the shipped
// configuration with a session every second.
type Options struct {
	// Configuration is the text of volcano-scheduler.conf's ConfigMap manifest;
	// default: config/scheduler/configmap.yaml. "none" installs no ConfigMap.
	Configuration string
	// SchedulePeriod is the time between sessions, one second by default.
	SchedulePeriod time.Duration
	// SchedulerArgs and ManagerArgs are added to the programs' flags.
	SchedulerArgs, ManagerArgs []string
}

// Deployment is the running pair of programs. They stop with the cluster.
type Deployment struct {
	cluster *cluster.Cluster
	options Options
	root    string

	// Manager and Scheduler are the processes started last.
	Manager, Scheduler *cluster.Process
}

// NoConfiguration as Options.Configuration installs no ConfigMap: the
// scheduler waits until somebody makes one.
const NoConfiguration = "none"

// Install applies CRDs, RBAC and the scheduler's configuration to the cluster,
// without starting a program.
func Install(ctx context.Context, c *cluster.Cluster, o Options) (*Deployment, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return nil, err
	}
	if o.SchedulePeriod == 0 {
		o.SchedulePeriod = time.Second
	}
	d := &Deployment{cluster: c, options: o, root: root}
	for _, pattern := range []string{"config/crd/bases/*.yaml", "config/rbac/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("no manifests at %s (%w)", pattern, err)
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			if err := c.ApplyFile(ctx, file); err != nil {
				return nil, err
			}
		}
	}
	switch o.Configuration {
	case NoConfiguration:
		return d, nil
	case "":
		return d, c.ApplyFile(ctx, filepath.Join(root, "config", "scheduler", "configmap.yaml"))
	default:
		return d, c.Apply(ctx, []byte(o.Configuration))
	}
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
func (d *Deployment) StartManager(ctx context.Context) error {
	health, err := cluster.FreePort()
	if err != nil {
		return err
	}
	args := append([]string{
		"--metrics-bind-address=0",
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", health),
		"--leader-elect=false",
	}, d.options.ManagerArgs...)
	d.Manager, err = d.start(ctx, "manager", "cardquota-manager", args, health)
	return err
}

// StartScheduler starts the scheduler and waits until it is ready, which it is
// without a configuration as well.
func (d *Deployment) StartScheduler(ctx context.Context) error {
	health, err := cluster.FreePort()
	if err != nil {
		return err
	}
	metrics, err := cluster.FreePort()
	if err != nil {
		return err
	}
	args := append([]string{
		fmt.Sprintf("--healthz-address=127.0.0.1:%d", health),
		fmt.Sprintf("--listen-address=127.0.0.1:%d", metrics),
		"--schedule-period=" + d.options.SchedulePeriod.String(),
		"--leader-elect=false",
		"-v=2",
	}, d.options.SchedulerArgs...)
	d.Scheduler, err = d.start(ctx, "cardquota-scheduler", "cardquota-scheduler", args, health)
	return err
}

func (d *Deployment) start(ctx context.Context, binary, serviceAccount string, args []string, health int) (*cluster.Process, error) {
	path := filepath.Join(d.root, "bin", binary)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%s is not built, run make build: %w", binary, err)
	}
	kubeconfig, err := d.cluster.KubeconfigFor(ctx, Namespace, serviceAccount)
	if err != nil {
		return nil, err
	}
	process, err := d.cluster.StartProcess(ctx, cluster.ProcessSpec{
		Name: binary, Path: path, Args: append([]string{"--kubeconfig=" + kubeconfig}, args...),
	})
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/readyz", health)
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 60*time.Second, true, func(ctx context.Context) (bool, error) {
		if !process.Running() {
			return false, fmt.Errorf("%s ended: %w", binary, process.Wait())
		}
		return answers(ctx, url), nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s did not become ready, its log ends with:\n%s\n%w", binary, tail(process.LogFile()), err)
	}
	return process, nil
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// tail returns the last lines of a log.
func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
