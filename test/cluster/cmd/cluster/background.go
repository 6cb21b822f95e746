package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"cardquota.dev/operator/test/cluster"
)

// startInBackground ensures that a cluster with this fleet runs in the folder. It replaces a
// cluster that has crashed or has another fleet.
func startInBackground(ctx context.Context, o cluster.Options, out io.Writer) error {
	var fleet []byte
	if o.Fleet != "" {
		var err error
		fleet, err = os.ReadFile(o.Fleet)
		if err != nil {
			return err
		}
	}

	used := filepath.Join(o.Dir, "fleet.yaml") // by the cluster that runs
	if _, running := cluster.Owner(o.Dir); running {
		before, err := os.ReadFile(used)
		if err == nil && bytes.Equal(before, fleet) {
			_, err = cluster.Attach(ctx, o.Dir)
			if err == nil {
				return nil
			}
		}

		_, _ = fmt.Fprintf(out, "replacing the cluster in %s: it does not answer, or its fleet has changed\n", o.Dir)
		if err := stopInBackground(ctx, o.Dir); err != nil {
			return err
		}
	}

	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(used, fleet, 0o644); err != nil {
		return err
	}

	return startDetached(ctx, o, out)
}

// startDetached starts this program in a new session and waits for its cluster.
func startDetached(ctx context.Context, o cluster.Options, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}

	logFile := filepath.Join(o.Dir, "cluster.log")
	log, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor

	keeper := exec.Command(self, "up", "--dir", o.Dir, "--fleet", o.Fleet, "--bin", o.BinDir)
	keeper.Stdout = log
	keeper.Stderr = log
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := keeper.Start(); err != nil {
		return err
	}

	_, _ = fmt.Fprintf(out, "starting a cluster that stays up; its log is %s\n", logFile)
	ended := make(chan error, 1)
	go func() { ended <- keeper.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()

	for {
		select {
		case err := <-ended:
			text, _ := os.ReadFile(logFile)
			return fmt.Errorf("the cluster did not start: %w\n%s", err, text)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), keeper.Process.Signal(syscall.SIGTERM))
		case <-tick.C:
			if pid, running := cluster.Owner(o.Dir); running && pid == keeper.Process.Pid {
				_, err := cluster.Attach(ctx, o.Dir)
				return err
			}
		}
	}
}

// stopInBackground stops the cluster that runs in the folder, if any.
func stopInBackground(ctx context.Context, dir string) error {
	pid, running := cluster.Owner(dir)
	if !running {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return cluster.AwaitEnd(ctx, dir)
}
