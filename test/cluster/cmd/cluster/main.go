// Command cluster keeps a local cluster up for trying things by hand.
//
//	cluster up [--fleet FILE] [--dir DIR] [--bin DIR]
//
// Without --bin it first builds what is missing or out of date.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"cardquota.dev/operator/test/cluster"
)

const usage = `usage: cluster up [--fleet FILE] [--dir DIR] [--bin DIR]

Starts a local cluster, prints how to talk to it, and stops it at Ctrl-C.
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
	if len(args) == 0 || args[0] != "up" {
		flags.Usage()
		return errUsage
	}
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 {
		return errUsage
	}
	o.Log = logr.New(progress{out: stderr, began: time.Now()})

	if o.BinDir == "" {
		if err := build(ctx, stderr); err != nil {
			return err
		}
	}
	began := time.Now()
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, `
The cluster is ready after %.1f s.

  export KUBECONFIG=%s
  %s/kubectl get nodes

State and logs: %s
Ctrl-C stops it.
`, time.Since(began).Seconds(), c.Kubeconfig(), c.BinDir(), c.Dir())
	if err != nil {
		return errors.Join(err, c.Stop())
	}
	<-ctx.Done()
	_, _ = fmt.Fprintln(stderr, "stopping …")
	return c.Stop()
}

// build brings the control plane's binaries up to date; it is quick when they are.
func build(ctx context.Context, out io.Writer) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	script := exec.CommandContext(ctx, filepath.Join(root, "hack", "build-controlplane.sh"))
	script.Stdout, script.Stderr = out, out
	if err := script.Run(); err != nil {
		return fmt.Errorf("build the control plane: %w", err)
	}
	return nil
}

// progress is a log sink for people: time, message and values, without levels.
type progress struct {
	out    io.Writer
	began  time.Time
	values []any
}

func (p progress) Init(logr.RuntimeInfo) {}

func (p progress) Enabled(level int) bool { return level == 0 }

func (p progress) Info(_ int, message string, values ...any) {
	line := fmt.Sprintf("%6.1fs  %s", time.Since(p.began).Seconds(), message)
	all := append(slices.Clone(p.values), values...)
	for i := 0; i+1 < len(all); i += 2 {
		line += fmt.Sprintf("  %v=%v", all[i], all[i+1])
	}
	_, _ = fmt.Fprintln(p.out, line)
}

func (p progress) Error(err error, message string, values ...any) {
	p.Info(0, message, append(slices.Clone(values), "error", err)...)
}

func (p progress) WithValues(values ...any) logr.LogSink {
	p.values = append(slices.Clone(p.values), values...)
	return p
}

func (p progress) WithName(string) logr.LogSink { return p }
