// Command certmanager runs cert-manager's controllers in one process: those for a chain of
// self-signed and CA Issuers, and the one that writes CAs into webhook configurations.
// cert-manager's programs are modules of their own, which the Go module proxy does not serve.
//
//	certmanager KUBECONFIG
//
// It does not run cert-manager's webhook. That webhook denies invalid objects and records who
// requests a certificate; the project's manifests are valid and need no record. The CRDs must
// be installed before.
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

// run returns when ctx is done, or when one of the two fails.
func run(ctx context.Context, kubeconfig string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return runIssuers(ctx, kubeconfig) })
	group.Go(func() error { return runInjector(ctx, kubeconfig) })
	return group.Wait()
}
