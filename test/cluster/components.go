package cluster

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const serviceAccountIssuer = "https://kubernetes.default.svc.cluster.local"

// startAPIServer starts etcd and the apiserver at the same time; the apiserver waits for etcd.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	ports := make([]int, 3)
	for i := range ports {
		var err error
		ports[i], err = FreePort()
		if err != nil {
			return err
		}
	}

	serverSpec, err := c.apiServerSpec(ports[0], ports[2])
	if err != nil {
		return err
	}

	group, awaitCtx := errgroup.WithContext(ctx)
	// etcd is first, so that it is stopped last: it would wait for an apiserver that still
	// runs.
	for _, spec := range []ProcessSpec{c.etcdSpec(ports[0], ports[1]), serverSpec} {
		spec.component = true
		spec.Env = []string{rareGCEnv}
		if c.options.ManyObjects {
			spec.Env = []string{manyObjectsGCEnv}
		}

		p, err := c.launchProcess(ctx, spec)
		if err != nil {
			return err
		}
		group.Go(func() error { return c.awaitReady(awaitCtx, p) })
	}

	return group.Wait()
}

func (c *Cluster) etcdSpec(client, peer int) ProcessSpec {
	clientURL := fmt.Sprintf("http://127.0.0.1:%d", client)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peer)

	return ProcessSpec{
		Name: "etcd",
		Path: c.binaryPath("etcd"),
		Args: []string{
			"--name=local", "--data-dir=" + c.dir.etcdDir(),
			"--listen-client-urls=" + clientURL, "--advertise-client-urls=" + clientURL,
			"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL,
			"--initial-cluster=local=" + peerURL,
			"--unsafe-no-fsync", // a test's data need not survive a power cut
			"--quota-backend-bytes=4294967296",
			"--log-level=warn",
		},
		Ready: HTTPProbe(clientURL + "/health"),
	}
}

func (c *Cluster) apiServerSpec(etcd, port int) (ProcessSpec, error) {
	c.serverURL = fmt.Sprintf("https://127.0.0.1:%d", port)
	hosts := []string{"127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if c.realNode != nil {
		hosts = append(hosts, c.realNode.slot.hostAddress(), c.realNode.slot.apiServiceIP().String())
	}

	serving, err := c.ca.issueServingCert("apiserver", hosts...)
	if err != nil {
		return ProcessSpec{}, err
	}

	tokens, err := c.ca.issueClientCert("service-accounts", "service-accounts")
	if err != nil {
		return ProcessSpec{}, err
	}
	if _, err := c.componentKubeconfig(c.serverURL, adminKubeconfig, "admin", "system:masters"); err != nil {
		return ProcessSpec{}, err
	}

	disabled := "TaintNodesByCondition" // nodes of the fleet are created Ready; the taint would only delay the first pods
	if c.options.APIServerOnly {
		disabled += ",ServiceAccount" // no controller creates them
	}

	args := []string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", etcd),
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + serving.cert, "--tls-private-key-file=" + serving.key,
		"--client-ca-file=" + c.caFile(),
		"--service-account-key-file=" + tokens.cert, "--service-account-signing-key-file=" + tokens.key,
		"--service-account-issuer=" + serviceAccountIssuer,
		"--enable-aggregator-routing=true", // Services are reached by their EndpointSlices: no kube-proxy serves this machine
		"--disable-admission-plugins=" + disabled,
		// On shutdown it waits 2 s for connections instead of 60: watches and dead clients
		// would delay it.
		"--shutdown-send-retry-after=true",
		"--allow-privileged=true", "--profiling=false", "-v=1",
	}

	if c.realNode == nil {
		args = append(args, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
			"--endpoint-reconciler-type=none", // no pod calls it
			"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC")
	} else {
		more, err := c.apiServerFlagsForRealNode()
		if err != nil {
			return ProcessSpec{}, err
		}
		args = append(args, more...)
	}

	return ProcessSpec{
		Name: "kube-apiserver", Path: c.binaryPath("kube-apiserver"), Args: args,
		StopTimeout: 30 * time.Second, // requests under way are answered first; webhooks may let them wait 10 s
		Ready:       HTTPProbe(c.serverURL + "/readyz"),
	}, nil
}

func (c *Cluster) startControllerManager(ctx context.Context) error {
	p, err := c.startKube(ctx, "kube-controller-manager",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+filepath.Join(c.dir.pkiDir(), "service-accounts.key"), "--root-ca-file="+c.caFile(),
		"--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20",
		"--concurrent-statefulset-syncs=20", "--concurrent-job-syncs=20",
		// A scene with an autoscaler must not wait 15 s for each of its steps.
		"--horizontal-pod-autoscaler-sync-period=1s",
		// A busy test machine must not make nodes look dead.
		"--node-monitor-grace-period=5m", "--profiling=false")
	if err != nil {
		return err
	}

	return waitUntilReady(ctx, "ServiceAccount default/default", p, func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// startKubeScheduler starts kube-scheduler.
func (c *Cluster) startKubeScheduler(ctx context.Context) error {
	_, err := c.startKube(ctx, "kube-scheduler")
	return err
}

// startKube starts a component of Kubernetes that is a client of the apiserver.
func (c *Cluster) startKube(ctx context.Context, name string, args ...string) (*Process, error) {
	kubeconfig, err := c.componentKubeconfig(c.serverURL, name, "system:"+name)
	if err != nil {
		return nil, err
	}

	port, err := FreePort()
	if err != nil {
		return nil, err
	}

	return c.StartProcess(ctx, ProcessSpec{
		Name: name, Path: c.binaryPath(name), component: true,
		Args: append([]string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
			"--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000", "-v=1",
		}, args...),
		Env:   []string{rareGCEnv},
		Ready: HTTPProbe(fmt.Sprintf("https://127.0.0.1:%d/healthz", port)),
	})
}

func (c *Cluster) caFile() string { return filepath.Join(c.dir.pkiDir(), "ca.crt") }

//go:embed stages/*.yaml
var builtInStages embed.FS

//go:embed kwok-rbac.yaml
var kwokRBAC []byte

// kwokConfiguration makes kwok fast enough for thousands of pods. It renews each node's lease
// four times in its duration; the controller manager waits five minutes for it.
const kwokConfiguration = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 32
  nodePlayStageParallelism: 8
  nodeLeaseParallelism: 8
  nodeLeaseDurationSeconds: 160
`

// kwokNodeSelection returns which nodes kwok manages.
func (c *Cluster) kwokNodeSelection() string {
	if c.realNode == nil {
		return "  manageAllNodes: true\n"
	}
	return "  manageNodesWithLabelSelector: \"!" + RealNodeLabel + "\"\n"
}

// startKwok grants kwok its rights and starts it. The files in the folder stages define how the
// fleet's kubelets behave.
func (c *Cluster) startKwok(ctx context.Context) error {
	if err := c.Apply(ctx, kwokRBAC); err != nil {
		return fmt.Errorf("rights of kwok: %w", err)
	}
	stages, err := fs.Glob(builtInStages, "stages/*.yaml")
	if err != nil {
		return fmt.Errorf("stages: %w", err)
	}

	config := kwokConfiguration + c.kwokNodeSelection()
	for _, name := range stages {
		text, err := builtInStages.ReadFile(name)
		if err != nil {
			return fmt.Errorf("stages: %w", err)
		}
		config += "---\n" + string(text) + "\n"
	}

	path, err := c.writeFile("kwok.yaml", []byte(config))
	if err != nil {
		return err
	}

	kubeconfig, err := c.componentKubeconfig(c.serverURL, "kwok", "kwok")
	if err != nil {
		return err
	}

	address, err := FreeAddress()
	if err != nil {
		return err
	}

	_, err = c.StartProcess(ctx, ProcessSpec{
		Name: "kwok", Path: c.binaryPath("kwok"), component: true,
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--config=" + path,
			"--enable-crds=", "--server-address=" + address, "--node-ip=10.0.0.1",
		},
		Env:   []string{rareGCEnv},
		Ready: HTTPProbe("http://" + address + "/healthz"),
	})

	return err
}
