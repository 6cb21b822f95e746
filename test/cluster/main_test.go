package cluster_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/missing"
	"cardquota.dev/operator/test/cluster"
)

// Most tests share one complete cluster, which the first of them starts.
var shared struct {
	sync.Once
	cluster *cluster.Cluster
	err     error
}

func TestMain(m *testing.M) {
	check.Main(m, "cluster", func(s *check.SetUp) {
		s.Cleanup(func() error {
			if shared.cluster == nil {
				return nil
			}
			return shared.cluster.Stop()
		})
	})
}

// sharedCluster returns the shared cluster with the mixed fleet.
func sharedCluster(t *testing.T) *cluster.Cluster {
	shared.Do(func() {
		shared.cluster, shared.err = cluster.Start(context.WithoutCancel(t.Context()), cluster.Options{
			Fleet: "fleets/mixed.yaml",
			Log:   logr.Discard(),
		})
	})

	skipUnbuilt(t, shared.err)
	return shared.cluster
}

// startCluster starts a cluster for one test.
func startCluster(t *testing.T, o cluster.Options) *cluster.Cluster {
	o.Log = testr.NewWithOptions(t, testr.Options{Verbosity: 1, LogTimestamp: true})
	c, err := cluster.Start(t.Context(), o)
	skipUnbuilt(t, err)
	t.Cleanup(func() { check.NoError(t, c.Stop()) })
	return c
}

func skipUnbuilt(t *testing.T, err error) {
	if errors.Is(err, cluster.ErrNotBuilt) {
		missing.Skip(t, err)
	}
	check.NoError(t, err)
}
