package main

import (
	"context"
	"fmt"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"golang.org/x/sync/errgroup"

	// Each of these registers a controller, or an issuer of the controller of Issuers.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

// workers is the number of objects that each controller handles at the same time, as in
// cert-manager's own program. The request limits are higher than there.
const (
	workers = 5
	qps     = 100
	burst   = 200
)

// runIssuers runs the controllers of Issuers, Certificates and CertificateRequests.
func runIssuers(ctx context.Context, kubeconfig string) error {
	group, ctx := errgroup.WithContext(ctx)
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: kubeconfig, KubernetesAPIQPS: qps, KubernetesAPIBurst: burst,
	})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}

	shared, err := factory.Build()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}

	controllers := map[string]controller.Interface{}
	for name, construct := range controller.Known() {
		controllers[name], err = construct(factory)
		if err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
	}

	// Every controller has registered its informers by now.
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	for name, controller := range controllers {
		group.Go(func() error {
			if err := controller.Run(workers, ctx); err != nil {
				return fmt.Errorf("controller %s: %w", name, err)
			}
			return nil
		})
	}

	return group.Wait()
}
