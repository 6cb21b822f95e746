package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// suite is the cluster that the tests share, with both programs on it.
var suite struct {
	root       string
	cluster    *cluster.Cluster
	deployment *deployment.Deployment
	client     client.Client
}

// programs run as shipped, but with leases that end soon after a crash.
var programs = deployment.Options{
	SchedulePeriod: 500 * time.Millisecond,
	SchedulerArgs: []string{
		"--leader-elect=true", "--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=500ms",
	},
	ManagerArgs: []string{"--leader-elect=true"},
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	log := funcr.New(func(prefix, args string) { fmt.Println("e2e:", prefix, args) }, funcr.Options{})
	ctrl.SetLogger(log)
	began := time.Now()
	if err := setUp(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		if suite.cluster != nil {
			_ = suite.cluster.Stop()
		}
		return 1
	}
	// The first Ctrl-C ends the tests and takes the cluster down.
	context.AfterFunc(ctx, func() {
		_ = suite.cluster.Stop()
		os.Exit(130)
	})
	fmt.Printf("e2e: cluster, operator and scheduler ready after %.1f s\n", time.Since(began).Seconds())
	code := m.Run()
	if err := suite.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: stop the cluster:", err)
		return 1
	}
	return code
}

func setUp(ctx context.Context) error {
	var err error
	if suite.root, err = cluster.ModuleRoot(); err != nil {
		return err
	}
	suite.cluster, err = cluster.Start(ctx, cluster.Options{Fleet: "testdata/fleet.yaml"})
	if err != nil {
		return err
	}
	if suite.client, err = newClient(suite.cluster); err != nil {
		return err
	}
	suite.deployment, err = deployment.Start(ctx, suite.cluster, programs)
	return err
}

func newClient(c *cluster.Cluster) (client.Client, error) {
	scheme, err := deployment.Scheme()
	if err != nil {
		return nil, err
	}
	return client.New(c.Config(), client.Options{Scheme: scheme})
}

// dumpDir is where a failed test leaves what the cluster looked like.
func dumpDir(t *testing.T) string {
	return filepath.Join(suite.root, "dist", "e2e", t.Name())
}
