package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net/http"
	"os"
	"sync/atomic"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"cardquota.dev/operator/internal/controller"
	"cardquota.dev/operator/internal/controller/admissionpolicy"
	"cardquota.dev/operator/internal/controller/cardquota"
	"cardquota.dev/operator/internal/controller/servicetypepolicy"
	"cardquota.dev/operator/internal/webhook"
	selfsigned "cardquota.dev/operator/internal/webhook/certificates"
)

// cacheOptions say what of the cluster is kept in memory.
func cacheOptions(f flags) cache.Options {
	options := cardquota.CacheOptions()
	maps.Copy(options.ByObject, admissionpolicy.CacheOptions())
	maps.Copy(options.ByObject, servicetypepolicy.CacheOptions(f.scheduler))
	maps.Copy(options.ByObject, webhook.CacheOptions())
	maps.Copy(options.ByObject, selfsigned.CacheOptions(f.electNamespace))
	return options
}

// metricsOptions say where metrics are served, and to whom.
func metricsOptions(f flags) metricsserver.Options {
	options := metricsserver.Options{BindAddress: f.metrics}
	if f.secureMetrics {
		options.SecureServing, options.FilterProvider = true, filters.WithAuthenticationAndAuthorization
	}
	return options
}

// hooks is the webhook server and where its certificate comes from.
type hooks struct {
	flags
	// server is nil when there are no webhooks, self when the operator does not
	// sign its certificate.
	server ctrlwebhook.Server
	self   *selfsigned.Self
}

func newHooks(f flags) (*hooks, error) {
	h := &hooks{flags: f}
	options := ctrlwebhook.Options{Port: f.webhookPort, CertDir: f.webhookCertDir}
	if f.webhookClientCA != "" {
		only, err := clientsOf(f.webhookClientCA)
		if err != nil {
			return nil, err
		}
		options.TLSOpts = append(options.TLSOpts, only)
	}
	switch f.certificates {
	case self:
		h.self = selfsigned.New(f.electNamespace)
		options.TLSOpts = append(options.TLSOpts, func(config *tls.Config) { config.GetCertificate = h.self.GetCertificate })
		h.server = ctrlwebhook.NewServer(options)
	case files:
		h.server = ctrlwebhook.NewServer(options)
	}
	return h, nil
}

// clientsOf has a server require certificates for clients that an authority in
// the file has signed.
func clientsOf(file string) (func(*tls.Config), error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read --webhook-client-ca-file: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read --webhook-client-ca-file: %s holds no certificate", file)
	}
	return func(config *tls.Config) {
		config.ClientCAs, config.ClientAuth = authorities, tls.RequireAndVerifyClientCert
	}, nil
}

// setup adds the webhooks to the manager, which is ready when they answer.
func (h *hooks) setup(ctx context.Context, mgr ctrl.Manager, nodes *controller.Nodes) error {
	if h.certificates == off {
		return nil
	}
	if err := webhook.Setup(ctx, mgr, nodes, h.volcano); err != nil {
		return err
	}
	checks := map[string]healthz.Checker{"cards": webhook.Ready(nodes), "webhooks": h.started()}
	if h.self != nil {
		if err := h.self.Setup(mgr, false); err != nil {
			return err
		}
		checks["certificate"] = h.self.Ready
	}
	for name, check := range checks {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("add readiness check %s: %w", name, err)
		}
	}
	return nil
}

// started is a readiness check: the server listens. It looks by connecting. A server that
// answers only clients with a certificate refuses that too, with a line in its log, so there
// the first time settles it: where it stops to listen, the program ends.
func (h *hooks) started() healthz.Checker {
	look := h.server.StartedChecker()
	if h.webhookClientCA == "" {
		return look
	}
	var once atomic.Bool
	return func(request *http.Request) error {
		if once.Load() {
			return nil
		}
		err := look(request)
		once.Store(err == nil)
		return err
	}
}
