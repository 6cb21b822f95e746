// Package cluster runs a Kubernetes and Volcano control plane on this machine, without
// containers: etcd, kube-apiserver, kube-controller-manager, Volcano's controllers and
// webhooks, and kwok, which simulates the kubelets of a fleet of nodes.
//
// Options.RealNode adds a node with a real kubelet for tests that must run a container. It
// needs root and the tools of hack/install-node-tools.sh:
//
//	if err := cluster.CanRunRealNode(); err != nil {
//		t.Skip(err)
//	}
//	c, err := cluster.Start(ctx, cluster.Options{
//		RealNode: &cluster.RealNode{Cards: map[corev1.ResourceName]int{"nvidia.com/gpu": 4}},
//	})
//	archive, err := c.BuildImage(ctx, "localhost/responder:test", "./test/realnode/responder")
//	err = c.ImportImage(ctx, archive)
//
// and then pods with the node selector RealNodeLabel and that image.
//
// Everything listens on free loopback ports, has its own identity and rights, writes its own
// log file, and ends with the process that started it. make controlplane builds the binaries.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Cluster is a running local cluster. Its methods may be called from several goroutines.
type Cluster struct {
	options   Options
	dir       stateDir
	ca        *authority
	serverURL string // URL of the apiserver

	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper

	mu       sync.Mutex
	running  []*Process // in the order they were started
	stopped  bool
	stopOnce sync.Once
	stopErr  error

	crash     chan struct{}
	crashOnce sync.Once

	realNode *realNode // nil without Options.RealNode

	permit *permit // among the clusters that run on this machine
}

// Start starts a cluster and returns when it is ready: the apiserver serves, the ServiceAccount
// "default" exists, Volcano's webhooks answer, and every node of the fleet is Ready. ctx bounds
// the start only. When Start fails, only the logs in Options.Dir remain.
//
// The number of clusters on a machine is limited; Start waits for a permit.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := openCluster(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("local cluster: %w", err)
	}

	began := time.Now()
	err = c.startComponents(ctx)
	if err == nil {
		err = os.WriteFile(c.dir.readyFile(), nil, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("local cluster: %w", errors.Join(err, c.Stop()))
	}

	c.options.Log.Info("cluster ready", "after", time.Since(began).Round(10*time.Millisecond).String(), "kubeconfig", c.Kubeconfig())
	return c, nil
}

// openCluster acquires what a cluster needs of this machine and starts nothing.
func openCluster(ctx context.Context, o Options) (*Cluster, error) {
	if err := o.applyDefaults(); err != nil {
		return nil, err
	}

	if o.Fleet != "" {
		fleet, err := LoadFleet(o.Fleet)
		if err != nil {
			return nil, err
		}
		o.Nodes = append(fleet, o.Nodes...)
	}

	var turn *permit // an apiserver alone is light
	if !o.APIServerOnly {
		var err error
		turn, err = acquirePermit(ctx, func(message string) { fmt.Fprintln(os.Stderr, "cluster:", message) })
		if err != nil {
			return nil, err
		}
	}

	dir, err := openStateDir(o.Dir)
	if err != nil {
		return nil, errors.Join(err, turn.release())
	}

	return &Cluster{options: o, dir: dir, permit: turn, crash: make(chan struct{})}, nil
}

func (c *Cluster) startComponents(ctx context.Context) error {
	var err error
	c.ca, err = newAuthority(c.dir.pkiDir())
	if err != nil {
		return err
	}

	if c.options.RealNode != nil {
		c.realNode, err = c.newRealNode()
		if err != nil {
			return err
		}
	}

	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	if err := c.createClients(); err != nil {
		return err
	}

	if c.options.APIServerOnly {
		if c.options.WithoutVolcano {
			return nil
		}
		return c.createCRDs(ctx)
	}

	return c.startOtherComponents(ctx)
}

// startOtherComponents starts the components that need the API server, all at the same time.
func (c *Cluster) startOtherComponents(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startControllerManager(ctx) })
	if !c.options.WithoutVolcano {
		group.Go(func() error { return c.startVolcano(ctx) })
	}

	group.Go(func() error {
		if !c.options.WithoutKwok {
			if err := c.startKwok(ctx); err != nil {
				return err
			}
		}
		return c.CreateNodes(ctx, c.options.Nodes)
	})

	if c.realNode != nil {
		group.Go(func() error { return c.startRealNode(ctx) })
	}
	if c.options.WithKubeScheduler {
		group.Go(func() error { return c.startKubeScheduler(ctx) })
	}

	return group.Wait()
}

// createClients creates the administrator's clients.
func (c *Cluster) createClients() error {
	config, err := c.adminConfig()
	if err != nil {
		return err
	}

	c.config = config
	c.client, err = kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}

	c.dynamic, err = dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("dynamic client: %w", err)
	}

	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	return nil
}

// Stop stops everything in the reverse order of its start and waits for the end. Its error
// includes components that had ended by themselves. Stopping twice returns the same error.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		c.mu.Lock()
		c.stopped = true
		c.mu.Unlock()

		var problems []error
		for _, p := range slices.Backward(c.running) {
			if p.spec.component {
				problems = append(problems, p.crashError())
			}
			began := time.Now()
			problems = append(problems, p.Stop())
			c.options.Log.V(1).Info("stopped", "component", p.Name(), "after", time.Since(began).Round(time.Millisecond).String())
		}

		if c.realNode != nil {
			problems = append(problems, c.realNode.slot.release())
		}

		problems = append(problems, c.dir.close(), c.permit.release())
		c.stopErr = errors.Join(problems...)
		c.options.Log.Info("cluster stopped")
	})

	return c.stopErr
}

// StartProcess starts a child that is stopped with the cluster, before the components that
// were started earlier, and waits until it is ready. The name must not contain a path separator.
func (c *Cluster) StartProcess(ctx context.Context, spec ProcessSpec) (*Process, error) {
	p, err := c.launchProcess(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return p, c.awaitReady(ctx, p)
}

// launchProcess is StartProcess without waiting.
func (c *Cluster) launchProcess(ctx context.Context, spec ProcessSpec) (*Process, error) {
	if spec.Name == "" || filepath.Base(spec.Name) != spec.Name {
		return nil, fmt.Errorf("process name %q is not usable as a file name", spec.Name)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.stopped {
		return nil, errors.New("the cluster is stopped")
	}
	p, err := startProcess(spec, c.LogFile(spec.Name), c.dir.path)
	if err != nil {
		return nil, err
	}

	c.running = append(c.running, p)
	if spec.component {
		go c.reportCrash(p)
	}

	return p, nil
}

// lastProcess returns the process of a name that was started last, nil if there is none.
func (c *Cluster) lastProcess(name string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range slices.Backward(c.running) {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// reportCrash reports at once that a component ended by itself: its clients soon fail in
// confusing ways.
func (c *Cluster) reportCrash(p *Process) {
	<-p.Done()
	if err := p.crashError(); err != nil {
		c.options.Log.Error(err, "component ended", "component", p.Name())
		c.crashOnce.Do(func() { close(c.crash) })
	}
}

// Crashed is closed when a component of the cluster has ended by itself.
func (c *Cluster) Crashed() <-chan struct{} { return c.crash }

// Config returns an administrator's client configuration, practically without a client-side
// rate limit. The caller may change the copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns an administrator's client.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Dir returns the folder of the cluster's state, certificates and logs.
func (c *Cluster) Dir() string { return c.dir.path }

// BinDir returns the folder of the control plane's binaries, for KUBEBUILDER_ASSETS and for
// Volcano's stock scheduler ("scheduler").
func (c *Cluster) BinDir() string { return c.options.BinDir }

// LogFile returns the log file of a component. Components are etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, volcano-controllers, volcano-admission and kwok; on
// the real node containerd, kubelet, kube-proxy and device-plugin-<resource>; and the names of
// ProcessSpecs.
func (c *Cluster) LogFile(component string) string {
	return filepath.Join(c.dir.logsDir(), component+".log")
}

// CABundle returns the cluster's certificate authority in PEM, for webhook configurations.
func (c *Cluster) CABundle() []byte { return append([]byte(nil), c.ca.pem...) }

// ServingCertificate issues a certificate of the cluster's authority for hosts (DNS names
// and IP addresses) and returns the files of the certificate and its key.
func (c *Cluster) ServingCertificate(name string, hosts ...string) (certFile, keyFile string, err error) {
	pair, err := c.ca.issueServingCert(name, hosts...)
	return pair.cert, pair.key, err
}

// binaryPath returns the path of a binary of the control plane.
func (c *Cluster) binaryPath(name string) string { return filepath.Join(c.options.BinDir, name) }

// writeFile writes a file into the cluster's folder.
func (c *Cluster) writeFile(name string, content []byte) (string, error) {
	path := filepath.Join(c.dir.path, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}

// Attach returns the cluster that another process runs in dir. Stop ends what this process
// started on it and leaves the cluster running.
func Attach(ctx context.Context, dir string) (*Cluster, error) {
	c, err := attachToRunning(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("attach to the cluster in %s: %w", dir, err)
	}
	return c, nil
}

func attachToRunning(ctx context.Context, dir string) (*Cluster, error) {
	var o Options
	if err := o.applyDefaults(); err != nil {
		return nil, err
	}

	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}

	d := stateDir{path: dir}
	err = waitUntilReady(ctx, "the start of the cluster", nil, func(context.Context) error {
		_, err := os.Stat(d.readyFile())
		if _, running := Owner(dir); !running {
			return nil // it ended, or never began
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, running := Owner(dir); !running {
		return nil, errors.New("no cluster runs there")
	}

	c := &Cluster{options: o, dir: d, ca: &authority{dir: d.pkiDir()}, crash: make(chan struct{})}
	c.ca.pem, err = os.ReadFile(c.caFile())
	if err != nil {
		return nil, err
	}
	if err := c.createClients(); err != nil {
		return nil, err
	}

	c.serverURL = c.config.Host
	return c, waitUntilReady(ctx, "the API server", nil, HTTPProbe(c.serverURL+"/readyz"))
}

// Owner returns the id of the process that runs a cluster in dir, and whether there is one.
func Owner(dir string) (pid int, running bool) {
	text, err := os.ReadFile(filepath.Join(dir, lockName))
	if err != nil {
		return 0, false
	}
	if lock, err := lockFile(filepath.Join(dir, lockName)); err == nil {
		_ = lock.Close() // its owner is gone
		return 0, false
	}
	_, err = fmt.Sscanf(string(text), "process %d", &pid)
	return pid, err == nil
}

// AwaitEnd waits until no process runs a cluster in dir.
func AwaitEnd(ctx context.Context, dir string) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		_, running := Owner(dir)
		return !running, nil
	})
	if err != nil {
		return fmt.Errorf("a cluster still runs in %s: %w", dir, err)
	}
	return nil
}
