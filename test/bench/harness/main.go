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
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
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
