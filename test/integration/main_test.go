// Package integration runs the operator against a real API server and tests every rule of the
// API, Queues and statuses. The operator runs with the rights of the shipped ServiceAccount.
// There is no scheduler and no Volcano controller; tests simulate them.
package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/controller/admissionpolicy"
	"cardquota.dev/operator/internal/controller/cardinventory"
	"cardquota.dev/operator/internal/controller/cardquota"
	"cardquota.dev/operator/internal/controller/cardseconds"
	"cardquota.dev/operator/internal/controller/enforcerights"
	"cardquota.dev/operator/internal/controller/localquota"
	"cardquota.dev/operator/internal/controller/servicetypepolicy"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/framework"
)

const (
	systemNamespace = "volcano-system"
	// labNamespace is the namespace of the tests' pods.
	labNamespace = "lab"
	operatorUser = "system:serviceaccount:volcano-system:cardquota-manager"
	// rightsRetry and rightsRefresh are how often the operator looks for its rights to enforce, while some are missing and
	// otherwise. Tests take rights away and wait.
	rightsRetry   = time.Second
	rightsRefresh = 4 * time.Second
)

var (
	// admin has all rights and acts as users, Volcano and kubelets. It is nil without a control
	// plane.
	admin framework.Framework
	// unbuilt is why there is none.
	unbuilt error
	// metrics are the metrics of the tested operator.
	metrics = prometheus.NewPedanticRegistry()
	// root is the folder of the project.
	root string
)

func TestMain(m *testing.M) { check.Main(m, "integration", setUp) }

// requireControlPlane skips a test when there is no control plane.
func requireControlPlane(t *testing.T) *gomega.WithT {
	if admin.WithWatch == nil {
		missing.Skip(t, unbuilt)
	}
	return framework.NewGomega(t)
}

// startParallelTest starts a test that runs beside others. It returns a name for its objects.
func startParallelTest(t *testing.T) (g *gomega.WithT, name string) {
	t.Parallel()
	return requireControlPlane(t), uniqueName(t, "")
}

func setUp(s *check.SetUp) {
	root = check.Value(cluster.ModuleRoot())(s)
	check.NoError(s, runMany())
	ctrl.SetLogger(testLogger())
	server, err := cluster.Start(context.Background(), cluster.Options{APIServerOnly: true})
	if errors.Is(err, cluster.ErrNotBuilt) {
		unbuilt = err
		return
	}

	check.NoError(s, err)
	s.Cleanup(server.Stop)
	admin = check.Value(framework.New(server.Config()))(s)
	installPrerequisites(context.Background(), s, server, admin)

	ctx, stop := context.WithCancel(context.Background())
	mgr := newOperator(ctx, s, admin, metrics)
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	s.Cleanup(func() error {
		stop()
		return <-stopped
	})
}

// runMany lets more tests run at once than there are cores: they mostly wait. A number on the
// command line has precedence.
func runMany() error {
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		return p.Value.Set("12")
	}
	return nil
}

// testLogger is silent unless LOG is set: failures contain what a test needs.
func testLogger() logr.Logger {
	if os.Getenv("LOG") == "" {
		return logr.Discard()
	}
	return zap.New(zap.UseDevMode(true))
}

// installPrerequisites creates the namespaces, the CRDs and the shipped rights of the operator, which it may enforce with,
// and waits until the API server serves the CRDs.
func installPrerequisites(ctx context.Context, t check.T, server *cluster.Cluster, admin framework.Framework) {
	for _, name := range []string{systemNamespace, labNamespace} {
		check.NoError(t, client.IgnoreAlreadyExists(admin.Create(ctx, builder.Namespace(name))))
	}

	files := check.Value(filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml")))(t)
	check.Must(t, len(files) > 0, "no CRDs")
	for _, file := range []string{"manager_serviceaccount.yaml", "manager_role.yaml", "manager_enforce_role.yaml", "manager_rolebinding.yaml"} {
		files = append(files, filepath.Join(root, "config", "rbac", file))
	}

	for _, file := range files {
		check.NoError(t, server.ApplyFile(ctx, file))
	}
	check.NoError(t, client.IgnoreAlreadyExists(admin.Create(ctx, builder.EnforceBinding(systemNamespace))))

	served := func(ctx context.Context) (bool, error) {
		for _, list := range []client.ObjectList{&v1alpha1.CardQuotaList{}, &v1alpha1.ServiceTypePolicyList{}, &v1alpha1.CardInventoryList{}} {
			if err := admin.List(ctx, list); err != nil {
				return false, nil //nolint:nilerr // it is not served yet
			}
		}
		return true, nil
	}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, framework.Timeout, true, served)
	check.Must(t, err == nil, "wait for the CRDs: %v", err)
}

// newOperator returns the manager as cmd/manager creates it, with the shipped ServiceAccount.
func newOperator(ctx context.Context, t check.T, admin framework.Framework, metrics *prometheus.Registry) ctrl.Manager {
	config := rest.CopyConfig(admin.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser, Groups: []string{
		"system:serviceaccounts", "system:serviceaccounts:" + systemNamespace, "system:authenticated",
	}}
	config.QPS = 500
	config.Burst = 1000

	options := cardquota.CacheOptions()
	maps.Copy(options.ByObject, admissionpolicy.CacheOptions())
	maps.Copy(options.ByObject, servicetypepolicy.CacheOptions(systemNamespace))
	mgr := check.Value(ctrl.NewManager(config, ctrl.Options{
		Scheme:                        admin.Scheme(),
		Cache:                         controller.TransformWatches(options), // as the manager does
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "cardquota-manager",
		LeaderElectionNamespace:       systemNamespace,
		LeaderElectionReleaseOnCancel: true,
		// No test needs it to lose its lease, and without it all other tests fail.
		LeaseDuration: ptr.To(time.Minute),
		RenewDeadline: ptr.To(50 * time.Second),
	}))(t)

	nodes := controller.NewNodeInventory(mgr.GetCache())
	check.NoError(t, mgr.Add(nodes))
	check.NoError(t, nodes.RestorePolicy(ctx, mgr.GetAPIReader(), systemNamespace))

	rights := enforcerights.New(enforcerights.Options{Client: mgr.GetClient(), Namespace: systemNamespace, Retry: rightsRetry, Refresh: rightsRefresh})
	usageCollector := check.Value(cardquota.Setup(ctx, mgr, cardquota.Options{SkipNameValidation: true, Metrics: metrics, Inventory: nodes, Rights: rights}))(t)
	check.NoError(t, cardinventory.Setup(mgr, cardinventory.Options{SkipNameValidation: true, Metrics: metrics, Nodes: nodes, Counts: usageCollector}))
	check.Value(cardseconds.Setup(mgr, cardseconds.Options{Namespace: systemNamespace, Metrics: metrics, Counts: usageCollector}))(t)
	check.NoError(t, localquota.Setup(ctx, mgr, localquota.Options{SkipNameValidation: true, Usage: usageCollector}))
	check.NoError(t, servicetypepolicy.Setup(ctx, mgr, servicetypepolicy.Options{
		SchedulerNamespace: systemNamespace, VolcanoNamespace: systemNamespace, SkipNameValidation: true, Metrics: metrics,
		Bypasses: usageCollector, Rights: rights, InForce: nodes.PolicyInForce,
	}))
	return mgr
}

// readObjects reads the documents of a YAML file.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return cluster.Decode(content)
}
