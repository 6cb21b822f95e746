// Command certmanager runs cert-manager's own controllers, out of its module, in one process: those
// that a chain of self-signed and CA Issuers needs, and the one that writes authorities into webhook
// configurations. cert-manager's programs are in modules of their own, which cannot be had from the
// Go module proxy; this does what they do.
//
//	certmanager KUBECONFIG
//
// There is no webhook of cert-manager: it refuses what is badly written and fills in who asks for a
// certificate, and what the project ships is well written and asked for by nobody. The CRDs must be
// there before.
package main

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: certmanager KUBECONFIG")
		os.Exit(2)
	}
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

// run returns when ctx is done, or when one of the two cannot go on.
func run(ctx context.Context, kubeconfig string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return runIssuers(ctx, kubeconfig) })
	group.Go(func() error { return runInjector(ctx, kubeconfig) })
	return group.Wait()
}
