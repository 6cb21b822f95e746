// Command cluster runs a local cluster for manual tests.
//
//	cluster up [--cardquota] [--fleet FILE] [--dir DIR] [--bin DIR]
//	cluster start --dir DIR [--fleet FILE] [--bin DIR]
//	cluster stop --dir DIR
//
// With --cardquota, up also starts the operator with its webhooks and the scheduler, both built before,
// and applies the policy of config/samples. Without --bin, up first builds what is missing or out of date. start runs up in the
// background unless such a cluster already runs in DIR. stop ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

const usage = `usage: cluster up [--cardquota] [--fleet FILE] [--dir DIR] [--bin DIR]
       cluster start --dir DIR [--fleet FILE] [--bin DIR]
       cluster stop --dir DIR

up starts a local cluster, prints how to talk to it, and stops it at Ctrl-C. With --cardquota
it runs Cardquota with a policy, otherwise only Kubernetes and Volcano's controllers. start runs it
in the background unless such a cluster runs in the folder already; stop stops that one.
`

var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run starts the cluster and returns after ctx has ended and everything is stopped.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("cluster up", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}

	var o cluster.Options
	flags.StringVar(&o.Fleet, "fleet", "", "YAML `file` with node profiles")
	flags.StringVar(&o.Dir, "dir", "", "`folder` for state and logs that is kept (default: a temporary one)")
	flags.StringVar(&o.BinDir, "bin", "", "`folder` of the control plane's binaries (default: bin/controlplane)")
	withCardquota := flags.Bool("cardquota", false, "also start the operator and the scheduler, with a policy (up only)")

	if len(args) == 0 || !slices.Contains([]string{"up", "start", "stop"}, args[0]) {
		flags.Usage()
		return errUsage
	}
	if err := flags.Parse(args[1:]); err != nil {
		return errUsage // Parse has shown the usage
	}
	if flags.NArg() > 0 || (args[0] != "up" && (o.Dir == "" || *withCardquota)) {
		flags.Usage()
		return errUsage
	}

	switch args[0] {
	case "start":
		return startInBackground(ctx, o, stderr)
	case "stop":
		return stopInBackground(ctx, o.Dir)
	}

	o.Log = progressLogger(stderr)
	return runInForeground(ctx, o, *withCardquota, stdout, stderr)
}

// runInForeground runs a cluster until ctx ends or a part of it crashes.
func runInForeground(ctx context.Context, o cluster.Options, withCardquota bool, stdout, stderr io.Writer) error {
	if o.BinDir == "" {
		if err := buildControlPlane(ctx, stderr); err != nil {
			return err
		}
	}

	began := time.Now()
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}

	try := "kubectl get nodes"
	if withCardquota {
		try = "kubectl cardquota doctor"
		err = startCardquota(ctx, c)
	}

	if err == nil {
		err = printAccess(stdout, c, time.Since(began), try)
	}
	if err != nil {
		return errors.Join(err, c.Stop())
	}

	select {
	case <-ctx.Done():
	case <-c.Crashed(): // the rest of it is no use; Stop says what ended
	}

	_, _ = fmt.Fprintln(stderr, "stopping …")
	return c.Stop()
}

// startCardquota starts the operator with its webhooks and the scheduler, applies the policy of the
// samples, and waits until quotas are enforced.
func startCardquota(ctx context.Context, c *cluster.Cluster) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	if _, err := deployment.StartAsShipped(ctx, c, deployment.Options{}); err != nil {
		return err
	}

	if err := c.ApplyFile(ctx, filepath.Join(root, "config", "samples", "policy.yaml")); err != nil {
		return err
	}
	if out, err := c.Kubectl(ctx, "wait", "stp", "default", "--for=condition=Enforced", "--timeout=2m"); err != nil {
		return fmt.Errorf("wait until quotas are enforced: %w: %s", err, out)
	}

	return nil
}

// printAccess prints how to talk to the cluster, with a command to try.
func printAccess(out io.Writer, c *cluster.Cluster, after time.Duration, try string) error {
	_, err := fmt.Fprintf(out, `
The cluster is ready after %.1f s.

  export KUBECONFIG=%s
  export PATH=%s:%s:$PATH
  %s

State and logs: %s
Ctrl-C stops it.
`, after.Seconds(), c.Kubeconfig(), filepath.Dir(c.BinDir()), c.BinDir(), try, c.Dir())
	return err
}

// buildControlPlane builds the control plane's binaries; it is quick when they are up to date.
func buildControlPlane(ctx context.Context, out io.Writer) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	script := exec.CommandContext(ctx, filepath.Join(root, "hack", "build-controlplane.sh"))
	script.Stdout = out
	script.Stderr = out
	if err := script.Run(); err != nil {
		return fmt.Errorf("build the control plane: %w", err)
	}
	return nil
}

// progressLogger logs for people: time since the start, message and values, without levels.
func progressLogger(out io.Writer) logr.Logger {
	began := time.Now()
	return logr.FromSlogHandler(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey:
			return slog.String("after", fmt.Sprintf("%.1fs", time.Since(began).Seconds()))
		case slog.LevelKey:
			return slog.Attr{}
		}
		return a
	}}))
}
