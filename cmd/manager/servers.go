package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"cardquota.dev/operator/internal/boundedserver"
	selfsigned "cardquota.dev/operator/internal/webhook/certificates"
)

// noAddress is the address of a server that does not run.
const noAddress = "0"

// Any pod may reach these ports until a NetworkPolicy closes them, so clients get little of the memory and
// none of it for long. An idle connection with TLS takes about 20 KiB.
var (
	// API servers open a connection for each request that is under way.
	webhookLimits = boundedserver.Limits{Connections: 1024, Header: 5 * time.Second, Request: 15 * time.Second, Response: 20 * time.Second, Idle: time.Minute}
	// A page of metrics may take as long as the longest scrape timeout in use. Until it is read it takes some
	// megabytes, so there are few connections.
	metricsLimits = boundedserver.Limits{Connections: 16, Header: 5 * time.Second, Request: 10 * time.Second, Response: 40 * time.Second, Idle: time.Minute}
)

// addMetricsServer serves the page of metrics. With --secure-metrics it is for readers whose token may
// get it. The certificate is self-signed, as that of Kubernetes' own programs.
func addMetricsServer(ctx context.Context, mgr ctrl.Manager, f flags, page http.Handler) error {
	if f.metricsAddress == noAddress {
		return nil
	}

	bounded := &boundedserver.Server{Address: f.metricsAddress, Limits: metricsLimits}
	if f.secureMetrics {
		var err error
		page, err = boundedserver.Authenticate(mgr.GetConfig(), mgr.GetHTTPClient(), ctrl.Log.WithName("metrics"), page)
		if err != nil {
			return fmt.Errorf("protect the metrics: %w", err)
		}

		bounded.TLS, err = boundedserver.NewSelfSigned("localhost", net.IP{127, 0, 0, 1})
		if err != nil {
			return fmt.Errorf("make a certificate for the metrics: %w", err)
		}
	}

	mux := http.NewServeMux()
	mux.Handle("/metrics", page)
	bounded.Handler = mux
	return addServer(ctx, mgr, "metrics", bounded)
}

// addHealthServer serves /healthz while the process runs, and /readyz with some checks.
func addHealthServer(ctx context.Context, mgr ctrl.Manager, address string, ready map[string]healthz.Checker) error {
	if address == noAddress {
		return nil
	}
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": nil, "/readyz": ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler) // one of its checks
	}
	return addServer(ctx, mgr, "health", &boundedserver.Server{Address: address, Handler: mux, Limits: boundedserver.ProbeLimits})
}

// addServer listens, and serves while the manager runs.
func addServer(ctx context.Context, mgr ctrl.Manager, name string, bounded *boundedserver.Server) error {
	listener, err := bounded.Listen(ctx)
	if err != nil {
		return fmt.Errorf("serve %s: %w", name, err)
	}
	if err := mgr.Add(&manager.Server{Name: name, Server: bounded.HTTPServer(), Listener: listener}); err != nil {
		return fmt.Errorf("serve %s: %w", name, err)
	}
	return nil
}

// webhookServer is the webhook server and the source of its certificate.
type webhookServer struct {
	flags
	// server is nil without webhooks, rotator is nil if the operator does not sign the certificate.
	server  ctrlwebhook.Server
	rotator *selfsigned.Rotator
}

// newWebhookServer returns the webhook server that the flags describe. With --webhook-certificates=Off its
// field server is nil. It reads the authorities of clients also then, so that a wrong file is found.
func newWebhookServer(f flags) (*webhookServer, error) {
	w := &webhookServer{flags: f}
	config := &tls.Config{MinVersion: tls.VersionTLS12}

	authorities, err := readAuthorities(f.webhookClientCA)
	if err != nil {
		return nil, err
	}
	if f.certificates == certificatesOff {
		return w, nil
	}

	if f.certificates == certificatesSelf {
		w.rotator = selfsigned.New(f.operatorNamespace)
		config.GetCertificate = w.rotator.GetCertificate
	}

	w.server = &boundedWebhooks{
		Server:  ctrlwebhook.NewServer(ctrlwebhook.Options{WebhookMux: http.NewServeMux()}),
		address: net.JoinHostPort("", strconv.Itoa(f.webhookPort)), folder: f.webhookCertDir, config: config, authorities: authorities,
	}
	return w, nil
}

// readAuthorities reads the authorities whose clients the webhooks answer, nil for all clients. They follow
// the file while they run.
func readAuthorities(file string) (*dynamiccertificates.DynamicFileCAContent, error) {
	if file == "" {
		return nil, nil
	}

	authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("webhook-clients", file)
	var unread *fs.PathError
	switch {
	case errors.As(err, &unread):
		return nil, fmt.Errorf("read --webhook-client-ca-file: %w", err)
	case err != nil:
		return nil, fmt.Errorf("read --webhook-client-ca-file: %s holds no certificate: %w", file, err)
	}

	return authorities, nil
}

// startedCheck is a readiness check: it connects to the server. A server that requires client
// certificates refuses that with a line in its log, so there the check runs until it first
// succeeds: the program ends when the server stops.
func (w *webhookServer) startedCheck() healthz.Checker {
	look := w.server.StartedChecker()
	if w.webhookClientCA == "" {
		return look
	}

	var hasStarted atomic.Bool
	return func(request *http.Request) error {
		if hasStarted.Load() {
			return nil
		}
		err := look(request)
		hasStarted.Store(err == nil)
		return err
	}
}

// boundedWebhooks is the webhook server of controller-runtime, which counts requests, on a bounded port.
type boundedWebhooks struct {
	ctrlwebhook.Server
	address string
	// folder has the files of the certificate, unless config has a source of it.
	folder string
	config *tls.Config
	// authorities are those of clients, nil if the server answers every client.
	authorities *dynamiccertificates.DynamicFileCAContent
}

// Start serves the webhooks until ctx ends. The certificate comes from config where the operator signs it,
// else from the files of the folder.
func (w *boundedWebhooks) Start(ctx context.Context) error {
	config := w.config.Clone()
	if config.GetCertificate == nil {
		// cert-manager and OLM renew the files while the server runs.
		watcher, err := certwatcher.New(filepath.Join(w.folder, "tls.crt"), filepath.Join(w.folder, "tls.key"))
		if err != nil {
			return fmt.Errorf("read the certificate of the webhooks: %w", err)
		}

		config.GetCertificate = watcher.GetCertificate
		go func() {
			if err := watcher.Start(ctx); err != nil {
				ctrl.Log.Error(err, "watch the certificate of the webhooks")
			}
		}()
	}

	if w.authorities != nil {
		go w.authorities.Run(ctx, 1)
		config = w.requireClients(config)
	}

	bounded := &boundedserver.Server{Address: w.address, Handler: w.WebhookMux(), TLS: config, Limits: webhookLimits}
	return bounded.Start(ctx)
}

// requireClients returns a configuration that requires a certificate of the authorities, as they are when a
// client connects.
func (w *boundedWebhooks) requireClients(config *tls.Config) *tls.Config {
	required := config.Clone()
	required.ClientAuth = tls.RequireAndVerifyClientCert
	required.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		options, isKnown := w.authorities.VerifyOptions()
		if !isKnown {
			return nil, errors.New("the authorities of clients are not known")
		}
		current := config.Clone()
		current.ClientAuth = tls.RequireAndVerifyClientCert
		current.ClientCAs = options.Roots
		// The server sets this in its own configuration only, and this one replaces it.
		current.NextProtos = []string{"http/1.1"}
		return current, nil
	}

	return required
}

// StartedChecker returns a readiness check that connects to the server.
func (w *boundedWebhooks) StartedChecker() healthz.Checker {
	dialer := &net.Dialer{Timeout: 10 * time.Second}

	return func(*http.Request) error {
		// It only asks whether the server answers. The API server verifies the certificate.
		connection, err := tls.DialWithDialer(dialer, "tcp", w.address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
		if err != nil {
			return fmt.Errorf("webhook server is not reachable: %w", err)
		}
		if err := connection.Close(); err != nil {
			return fmt.Errorf("webhook server is not reachable: %w", err)
		}
		return nil
	}
}
