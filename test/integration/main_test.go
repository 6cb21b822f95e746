// Package integration runs the operator against a real API server: every rule
// of the API, and what becomes of Queues and statuses. The operator runs as
// the ServiceAccount that the project ships, with no other right than its
// roles. There is no scheduler and no Volcano controller; tests play them.
package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"cardquota.dev/operator/internal/controller/cardquota"
	"cardquota.dev/operator/internal/controller/enforced"
	"cardquota.dev/operator/internal/controller/servicetypepolicy"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
	"cardquota.dev/operator/test/testenv"
)

const (
	systemNamespace = "volcano-system"
	// labNamespace is where tests run their pods.
	labNamespace = "lab"
	operatorUser = "system:serviceaccount:volcano-system:cardquota-manager"
)

var (
	// admin may do everything and plays users, Volcano and kubelets. It is nil
	// when there is no control plane.
	admin       client.WithWatch
	adminConfig *rest.Config
	// metrics is what the operator under test exports.
	metrics = prometheus.NewPedanticRegistry()
	// root is the folder of the project.
	root string
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// need skips a test, by name, when there is no control plane to run it on.
func need(t *testing.T) *gomega.WithT {
	t.Helper()
	if admin == nil {
		t.Skip("no control plane: bin/controlplane/etcd and kube-apiserver have not been built")
	}
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitLong)
	g.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	g.SetDefaultConsistentlyDuration(1500 * time.Millisecond)
	return g
}

func run(m *testing.M) (code int, err error) {
	if root, err = cluster.ModuleRoot(); err != nil {
		return 1, err
	}
	assets := filepath.Join(root, "bin", "controlplane")
	for _, binary := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(assets, binary)); errors.Is(err, fs.ErrNotExist) {
			return m.Run(), nil
		}
	}
	ctrl.SetLogger(logger())
	volcano, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "volcano.sh/volcano").Output()
	if err != nil {
		return 1, fmt.Errorf("find Volcano's CRDs: %w", err)
	}
	environment := testenv.New(assets,
		filepath.Join(root, "config", "crd", "bases"),
		filepath.Join(string(bytes.TrimSpace(volcano)), "config", "crd", "volcano", "bases"))
	if adminConfig, err = environment.Start(); err != nil {
		return 1, fmt.Errorf("start control plane: %w", err)
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	adminConfig.QPS, adminConfig.Burst = 1000, 2000

	scheme, err := deployment.Scheme()
	if err != nil {
		return 1, err
	}
	if admin, err = client.NewWithWatch(adminConfig, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	if err := install(ctx); err != nil {
		stop()
		return 1, err
	}
	mgr, err := operator(ctx, scheme)
	if err != nil {
		stop()
		return 1, err
	}
	go func() { stopped <- mgr.Start(ctx) }()
	code = m.Run()
	stop()
	return code, <-stopped
}

// logger is silent unless LOG is set: what a test needs is in its failure.
func logger() logr.Logger {
	if os.Getenv("LOG") == "" {
		return logr.Discard()
	}
	return zap.New(zap.UseDevMode(true))
}

// install makes the namespaces and the operator's rights as they are shipped.
func install(ctx context.Context) error {
	for _, name := range []string{systemNamespace, labNamespace} {
		if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	for _, file := range []string{"manager_serviceaccount.yaml", "manager_role.yaml", "manager_rolebinding.yaml"} {
		objects, err := readObjects(filepath.Join(root, "config", "rbac", file))
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := admin.Create(ctx, object); err != nil {
				return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}

// operator is the manager as cmd/manager makes it, as the shipped
// ServiceAccount.
func operator(ctx context.Context, scheme *runtime.Scheme) (ctrl.Manager, error) {
	config := rest.CopyConfig(adminConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser, Groups: []string{
		"system:serviceaccounts", "system:serviceaccounts:" + systemNamespace, "system:authenticated",
	}}
	config.QPS, config.Burst = 500, 1000
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cardquota.CacheOptions(),
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "cardquota-manager",
		LeaderElectionNamespace:       systemNamespace,
		LeaderElectionReleaseOnCancel: true,
		// Nobody waits for it to lose its lease, and without it all other tests fail.
		LeaseDuration: ptr.To(time.Minute),
		RenewDeadline: ptr.To(50 * time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	watch, err := enforced.Setup(mgr, metrics, systemNamespace, systemNamespace)
	if err != nil {
		return nil, err
	}
	options := cardquota.DefaultOptions()
	options.Metrics, options.Enforced = metrics, watch
	if err := cardquota.Setup(ctx, mgr, options); err != nil {
		return nil, err
	}
	policyOptions := servicetypepolicy.DefaultOptions()
	policyOptions.Metrics, policyOptions.Home = metrics, systemNamespace
	policyOptions.Enforcement, policyOptions.Woken = watch.Policy, watch.WakePolicy()
	return mgr, servicetypepolicy.Setup(ctx, mgr, policyOptions)
}

// readObjects reads the documents of a YAML file.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); err != nil {
			if errors.Is(err, io.EOF) {
				return objects, nil
			}
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
