package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const serviceAccountIssuer = "https://kubernetes.default.svc.cluster.local"

// identities are the key pairs of the control plane's own components.
type identities struct {
	apiserver, tokens, admin, controllerManager, kwok, webhooks keyPair
}

// newIdentities issues them; hosts are further addresses of the apiserver.
func newIdentities(ca *authority, hosts ...string) (identities, error) {
	var (
		id   identities
		errs [6]error
	)
	id.apiserver, errs[0] = ca.server("apiserver", append(hosts, "127.0.0.1", "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")...)
	id.tokens, errs[1] = ca.signingKey("service-accounts")
	id.admin, errs[2] = ca.client("admin", "admin", "system:masters")
	id.controllerManager, errs[3] = ca.client("kube-controller-manager", "system:kube-controller-manager")
	id.kwok, errs[4] = ca.client("kwok", "kwok")
	id.webhooks, errs[5] = ca.server("volcano-admission", "127.0.0.1")
	return id, errors.Join(errs[:]...)
}

// startAPIServer starts etcd and, at the same time, the apiserver, which waits for it.
// Both know etcd's port: when it is taken, both start again.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		err := c.tryAPIServer(ctx)
		if !errors.Is(err, errPortTaken) || attempt == portAttempts {
			return err
		}
	}
}

func (c *Cluster) tryAPIServer(ctx context.Context) error {
	ports := make([]int, 3)
	for i := range ports {
		var err error
		if ports[i], err = FreePort(); err != nil {
			return err
		}
	}
	// etcd first: it is stopped last, and would wait for an apiserver that still runs.
	etcdSpec, etcdReady := c.etcd(ports[0], ports[1])
	etcd, err := c.launch(ctx, etcdSpec)
	if err != nil {
		return err
	}
	serverSpec, serverReady, err := c.apiServer(ports[0], ports[2])
	if err != nil {
		return err
	}
	server, err := c.launch(ctx, serverSpec)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.await(ctx, etcd, etcdReady) })
	group.Go(func() error { return c.await(ctx, server, serverReady) })
	err = group.Wait()
	if err == nil {
		return nil
	}
	for _, p := range c.processes() {
		err = errors.Join(err, p.Stop())
		c.forget(p)
	}
	return err
}

func (c *Cluster) etcd(client, peer int) (ProcessSpec, probe) {
	clientURL := fmt.Sprintf("http://127.0.0.1:%d", client)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peer)
	return ProcessSpec{
		Name: "etcd",
		Path: c.binary("etcd"),
		Args: []string{
			"--name=local", "--data-dir=" + c.dir.etcd(),
			"--listen-client-urls=" + clientURL, "--advertise-client-urls=" + clientURL,
			"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL,
			"--initial-cluster=local=" + peerURL,
			"--unsafe-no-fsync", // a test's data need not survive a power cut
			"--quota-backend-bytes=4294967296",
			"--log-level=warn",
		},
	}, answers(clientURL + "/health")
}

func (c *Cluster) apiServer(etcd, port int) (ProcessSpec, probe, error) {
	c.server = fmt.Sprintf("https://127.0.0.1:%d", port)
	if _, err := c.writeKubeconfig("kubeconfig", clientCertificate(c.pki.admin)); err != nil {
		return ProcessSpec{}, nil, err
	}
	args := []string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", etcd),
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + c.pki.apiserver.cert, "--tls-private-key-file=" + c.pki.apiserver.key,
		"--client-ca-file=" + c.caFile(),
		"--service-account-key-file=" + c.pki.tokens.cert,
		"--service-account-signing-key-file=" + c.pki.tokens.key,
		"--service-account-issuer=" + serviceAccountIssuer,
		"--enable-aggregator-routing=true", // Services are reached by their EndpointSlices: no kube-proxy serves this machine
		// Nodes of the fleet are created Ready; the taint would only delay the first pods.
		"--disable-admission-plugins=TaintNodesByCondition",
		// When it stops, it waits 2 s for connections instead of 60: who watches, or has died
		// without a word, would hold it up.
		"--shutdown-send-retry-after=true",
		"--allow-privileged=true", "--profiling=false", "-v=1",
	}
	if c.node == nil {
		args = append(args, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
			"--endpoint-reconciler-type=none", // no pod calls it
			"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC")
	} else {
		more, err := c.apiServerForRealNode()
		if err != nil {
			return ProcessSpec{}, nil, err
		}
		args = append(args, more...)
	}
	return ProcessSpec{
		Name: "kube-apiserver", Path: c.binary("kube-apiserver"), Args: args,
		StopTimeout: 30 * time.Second, // requests under way are answered first; webhooks may let them wait 10 s
	}, answers(c.server + "/readyz"), nil
}

func (c *Cluster) startControllerManager(ctx context.Context) error {
	kubeconfig, err := c.writeKubeconfig("kube-controller-manager.kubeconfig", clientCertificate(c.pki.controllerManager))
	if err != nil {
		return err
	}
	p, err := c.startReady(ctx, 1, func(ports []int) (ProcessSpec, probe, error) {
		return ProcessSpec{
			Name: "kube-controller-manager",
			Path: c.binary("kube-controller-manager"),
			Args: []string{
				"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
				"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]),
				"--leader-elect=false", "--use-service-account-credentials=true",
				"--service-account-private-key-file=" + c.pki.tokens.key, "--root-ca-file=" + c.caFile(),
				"--kube-api-qps=500", "--kube-api-burst=1000",
				"--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20",
				"--concurrent-statefulset-syncs=20", "--concurrent-job-syncs=20",
				// A busy test machine must not make nodes look dead.
				"--node-monitor-grace-period=5m",
				"--profiling=false", "-v=1",
			},
		}, answers(fmt.Sprintf("https://127.0.0.1:%d/healthz", ports[0])), nil
	})
	if err != nil {
		return err
	}
	return until(ctx, "ServiceAccount default/default", p, func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *Cluster) caFile() string { return filepath.Join(c.dir.pki(), "ca.crt") }
