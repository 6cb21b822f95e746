package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"

	"cardquota.dev/operator/test/cluster"
)

// parentMode makes the test binary play the parent that is killed; see processes_test.go.
const parentMode = "CARDQUOTA_TEST_CLUSTER_PARENT"

// Most tests share one whole cluster, which the first of them starts.
var shared struct {
	sync.Once
	cluster *cluster.Cluster
	err     error
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentMode); dir != "" {
		beParent(dir)
		return
	}
	code := m.Run()
	if shared.cluster != nil {
		began := time.Now()
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the shared cluster:", err)
			code = 1
		}
		fmt.Printf("shared cluster stopped after %.2f s\n", time.Since(began).Seconds())
	}
	os.Exit(code)
}

// whole returns the shared cluster with the mixed fleet.
func whole(t *testing.T) *cluster.Cluster {
	t.Helper()
	shared.Do(func() {
		began := time.Now()
		shared.cluster, shared.err = cluster.Start(context.WithoutCancel(t.Context()), cluster.Options{
			Fleet: "fleets/mixed.yaml",
			Log:   logr.Discard(),
		})
		if shared.err == nil {
			fmt.Printf("shared cluster ready after %.2f s\n", time.Since(began).Seconds())
		}
	})
	skipUnbuilt(t, shared.err)
	return shared.cluster
}

// start starts a cluster of this test's own.
func start(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	o.Log = testr.NewWithOptions(t, testr.Options{Verbosity: 1, LogTimestamp: true})
	c, err := cluster.Start(t.Context(), o)
	skipUnbuilt(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return c
}

func skipUnbuilt(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, cluster.ErrNotBuilt) {
		t.Skipf("%s is skipped: %v", t.Name(), err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
