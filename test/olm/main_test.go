package olm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// suite is shared by the tests: one cluster with Volcano and OLM.
var suite struct {
	root    string // the project's
	cluster *cluster.Cluster
	tools   tools
	// this is the version of bundle/, previous the one before it, and next the one after it.
	previous, this, next version
	// noRealNode is why no container can run here, or nil.
	noRealNode error
	// images waits for the images of both versions, which are being built.
	images func() error
}

// node is the only node with containers. Only pods that ask for it run there.
var node = cluster.RealNode{
	Labels: map[string]string{"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068", "nvidia.com/gpu.count": "2"},
	Taints: []corev1.Taint{{Key: cluster.RealNodeLabel, Effect: corev1.TaintEffectNoSchedule}},
	Cards:  map[corev1.ResourceName]int{"nvidia.com/gpu": 2},
}

func TestMain(m *testing.M) { check.Main(m, "olm", setUp) }

func setUp(s *check.SetUp) {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctrl.SetLogger(funcr.New(func(prefix, args string) { fmt.Println("olm:", prefix, args) }, funcr.Options{}))

	suite.root = check.Value(cluster.ModuleRoot())(s)
	suite.tools = check.Value(findTools(filepath.Join(suite.root, "bin", "olm")))(s)
	suite.previous, suite.this, suite.next = loadVersions(s)
	options := cluster.Options{Fleet: "testdata/fleet.yaml", WithKubeScheduler: true}
	suite.noRealNode = cluster.CanRunRealNode()
	if suite.noRealNode == nil {
		options.RealNode = &node
	}

	suite.cluster = check.Value(cluster.Start(ctx, options))(s)
	s.Cleanup(suite.cluster.Stop)
	if suite.noRealNode == nil {
		suite.images = buildImages(ctx, suite.this, suite.next)
	}

	startOLM(ctx, s, suite.cluster, suite.tools)
}

// tools are the programs that hack/build-olm.sh builds.
type tools struct{ olm, catalog, opm, crds string }

func findTools(dir string) (tools, error) {
	t := tools{
		olm: filepath.Join(dir, "olm"), catalog: filepath.Join(dir, "catalog"),
		opm: filepath.Join(dir, "opm"), crds: filepath.Join(dir, "crds"),
	}
	for _, path := range []string{t.olm, t.catalog, t.opm, t.crds} {
		if _, err := os.Stat(path); err != nil {
			return tools{}, errors.Join(errors.New("OLM is not built, run make olm-tools"), err)
		}
	}
	return t, nil
}

// leaveTraces writes logs and objects of a failed test to dist/olm.
func (a *administrator) leaveTraces() {
	if !a.Failed() {
		return
	}

	ctx := context.WithoutCancel(a.ctx)
	dir := filepath.Join(suite.root, "dist", "olm", a.Name())
	problems := []error{os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(filepath.Dir(a.cluster.LogFile("olm-operator"))))}
	for name, args := range map[string][]string{
		"olm.yaml":   {"get", "csv,subscriptions.operators.coreos.com,installplans,catalogsources,operatorgroups", "-A", "-o", "yaml"},
		"pods.txt":   {"describe", "pods", "-n", namespace},
		"events.txt": {"get", "events", "-A", "--sort-by=.lastTimestamp"},
		"pods.log":   {"logs", "-n", namespace, "-l", ours, "--tail=-1", "--prefix"},
	} {
		out, err := a.cluster.Kubectl(ctx, args...)
		problems = append(problems, err, os.WriteFile(filepath.Join(dir, name), []byte(out), 0o600))
	}
	a.Logf("logs and objects are in %s (%v)", dir, errors.Join(problems...))
}
