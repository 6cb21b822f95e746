// Package harness is shared by the programs that demonstrate or measure scheduling on a large
// local cluster: nodes with cards, tracked pods, statistics, and the main function.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"cardquota.dev/operator/test/cluster"
)

// RunMain parses the flags and runs a program until it ends or is interrupted. An error exits
// with 1. When failures are given, those exit with 1 and any other error with 2.
func RunMain(name string, run func(ctx context.Context) error, failures ...error) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// client-go keeps looking for the certificates of stopped clusters, and would log that in
	// the middle of the report.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	err := run(ctx)
	if err == nil {
		return
	}

	fmt.Fprintln(os.Stderr, name+":", err)
	if len(failures) == 0 || slices.ContainsFunc(failures, func(failure error) bool { return errors.Is(err, failure) }) {
		os.Exit(1)
	}
	os.Exit(2)
}

// Narrator prints a demonstration in chapters: explanations, kubectl commands and their output.
type Narrator struct {
	Cluster *cluster.Cluster
	chapter int
}

// Headline starts a chapter.
func (g *Narrator) Headline(title, text string) {
	g.chapter++
	title = fmt.Sprintf("%d. %s", g.chapter, title)
	fmt.Printf("\n%s\n%s\n%s\n", title, strings.Repeat("-", len(title)), text)
}

// ShowKubectl runs kubectl and prints the command as a user would type it, and its output.
func (g *Narrator) ShowKubectl(ctx context.Context, args ...string) error {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = arg
		if strings.ContainsAny(arg, " {}[]'\"$*|<>") {
			quoted[i] = "'" + arg + "'"
		}
	}
	return g.ShowKubectlAs(ctx, strings.Join(quoted, " "), args...)
}

// ShowKubectlAs is ShowKubectl with another text in place of the arguments.
func (g *Narrator) ShowKubectlAs(ctx context.Context, said string, args ...string) error {
	fmt.Printf("\n$ kubectl %s\n", said)
	out, err := g.Cluster.Kubectl(ctx, args...)
	out = strings.TrimRight(out, "\n")
	if out != "" {
		fmt.Print("  " + strings.ReplaceAll(out, "\n", "\n  ") + "\n")
	}
	return err
}
