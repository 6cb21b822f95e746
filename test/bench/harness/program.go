// Package harness is what the programs have in common that show or measure scheduling on a
// large local cluster: nodes with cards, pods that are watched, figures, and how they end.
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

// RunMain reads the flags and runs a program until it ends or is interrupted. An error ends it
// with 1, or with 2 when others are named that mean 1.
func RunMain(name string, run func(ctx context.Context) error, failures ...error) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// client-go goes on looking for the certificates of clusters that are gone, and
	// would log that in the middle of the report.
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

// Narrator tells a show in chapters: it explains, runs kubectl, and prints what kubectl says.
type Narrator struct {
	Cluster *cluster.Cluster
	chapter int
}

// Headline begins a chapter.
func (g *Narrator) Headline(title, text string) {
	g.chapter++
	title = fmt.Sprintf("%d. %s", g.chapter, title)
	fmt.Printf("\n%s\n%s\n%s\n", title, strings.Repeat("-", len(title)), text)
}

// ShowKubectl runs kubectl and prints the command as a user types it, and its output.
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

// ShowKubectlAs is Show with another text in the place of the arguments.
func (g *Narrator) ShowKubectlAs(ctx context.Context, said string, args ...string) error {
	fmt.Printf("\n$ kubectl %s\n", said)
	out, err := g.Cluster.Kubectl(ctx, args...)
	if out = strings.TrimRight(out, "\n"); out != "" {
		fmt.Print("  " + strings.ReplaceAll(out, "\n", "\n  ") + "\n")
	}
	return err
}
