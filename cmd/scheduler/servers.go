package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/helpers"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	commonutil "volcano.sh/volcano/pkg/util"

	"cardquota.dev/operator/internal/boundedserver"
)

// startServers starts the health and metrics servers and returns when they listen. They run
// until ctx ends. Volcano's own health server is not used: it handles the process's signals and
// has no readiness.
//
// Like Volcano, it serves metrics and profiles over plain HTTP without authentication, unless
// readers is set, the configuration of the client that authenticates readers.
func startServers(ctx context.Context, opt *options.ServerOption, health http.Handler, readers *rest.Config) error {
	certificate, err := servingCertificate(opt)
	if err != nil {
		return err
	}

	if opt.EnableHealthz {
		if err := startServer(ctx, opt.HealthzBindAddress, health, certificate, boundedserver.ProbeLimits); err != nil {
			return err
		}
	}

	if !opt.EnableMetrics && !opt.EnablePprof {
		return nil
	}

	pages := metricsHandler(opt)
	if readers == nil {
		return startServer(ctx, opt.ListenAddress, pages, nil, metricsLimits)
	}

	pages, certificate, err = withAuthentication(readers, pages, certificate)
	if err != nil {
		return err
	}

	return startServer(ctx, opt.ListenAddress, pages, certificate, metricsLimits)
}

// healthHandler answers /healthz and /livez while the process runs, and /readyz with the state
// of the configuration. A replica that waits for a configuration or for its election is ready:
// an installation without a policy must be able to finish.
func healthHandler(state fmt.Stringer) http.Handler {
	mux := http.NewServeMux()
	alive := func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") }
	mux.HandleFunc("/healthz", alive)
	mux.HandleFunc("/livez", alive)
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, "ok\n%s\n", state) })
	return mux
}

// metricsHandler serves the metrics and profiles that the flags enable.
func metricsHandler(opt *options.ServerOption) http.Handler {
	mux := http.NewServeMux()
	if opt.EnableMetrics {
		mux.Handle("/metrics", commonutil.PromHandler())
	}

	if opt.EnablePprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}

	return mux
}

// metricsLimits bound the clients of metrics and profiles: any pod may reach the port until a
// NetworkPolicy closes it.
var metricsLimits = boundedserver.Limits{
	Connections: 64,
	Header:      helpers.DefaultReadHeaderTimeout,
	Request:     helpers.DefaultReadTimeout,
	Response:    helpers.DefaultWriteTimeout,
	Idle:        time.Minute,
}

// startServer starts one server, over TLS if config is set, and returns when it listens. It ends with ctx.
func startServer(ctx context.Context, address string, handler http.Handler, config *tls.Config, limits boundedserver.Limits) error {
	bounded := &boundedserver.Server{Address: address, Handler: handler, TLS: config, Limits: limits}
	listener, err := bounded.Listen(ctx)
	if err != nil {
		return err
	}

	server := bounded.HTTPServer()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "a server ended", "address", address)
		}
	}()

	return nil
}

// servingCertificate returns the TLS configuration of the servers. It is nil, for plain HTTP, unless all
// three files are set (flags --ca-cert-file, --tls-cert-file, --tls-private-key-file). As in Volcano, a
// client needs no certificate, but one that it shows must be of that authority.
func servingCertificate(opt *options.ServerOption) (*tls.Config, error) {
	if len(opt.CaCertData) == 0 || len(opt.CertData) == 0 || len(opt.KeyData) == 0 {
		return nil, nil
	}
	certificate, err := tls.X509KeyPair(opt.CertData, opt.KeyData)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}

	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(opt.CaCertData) {
		return nil, fmt.Errorf("no certificate in %s", opt.CaCertFile)
	}

	return &tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientCAs:    clients,
		ClientAuth:   tls.VerifyClientCertIfGiven,
		MinVersion:   tls.VersionTLS12,
	}, nil
}

// withAuthentication requires a token that the API server knows (TokenReview) and that may get
// the path (SubjectAccessReview on the nonResourceURL). It serves the certificate of
// --tls-cert-file, otherwise a self-signed one: that protects the token on its way, but does
// not prove the identity of the server.
func withAuthentication(config *rest.Config, handler http.Handler, certificate *tls.Config) (http.Handler, *tls.Config, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("API server: %w", err)
	}

	handler, err = boundedserver.Authenticate(config, client, klog.Background().WithName("metrics"), handler)
	if err != nil {
		return nil, nil, fmt.Errorf("authentication of readers: %w", err)
	}
	if certificate != nil {
		return handler, certificate, nil
	}

	certificate, err = boundedserver.NewSelfSigned("cardquota-scheduler")
	if err != nil {
		return nil, nil, fmt.Errorf("make a serving certificate: %w", err)
	}

	return handler, certificate, nil
}
