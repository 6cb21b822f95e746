package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Attach returns the cluster that another process keeps running in dir. Stop ends what this
// process started on it and leaves the cluster running.
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
	if c.ca.pem, err = os.ReadFile(c.caFile()); err != nil {
		return nil, err
	}
	if err := c.createClients(); err != nil {
		return nil, err
	}
	c.serverURL = c.config.Host
	return c, waitUntilReady(ctx, "the API server", nil, HTTPProbe(c.serverURL+"/readyz"))
}

// Owner returns the id of the process that keeps a cluster running in dir, and whether one does.
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

// AwaitEnd waits until no process keeps a cluster running in dir.
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
