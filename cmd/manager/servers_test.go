package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// TestMetricsAreServedOverHTTP1Only: the page of metrics is served over HTTP/1.1 only, because one HTTP/2 connection
// could open many streams. With --secure-metrics it needs TLS and a token, which this client does not have, so the
// answer is 401.
func TestMetricsAreServedOverHTTP1Only(t *testing.T) {
	check.NoError(t, streamLists()) // as main does before its first client: client-go asks for it once
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "cardquota_ready 1") })
	for t, tc := range check.Cases(t, map[string]struct {
		isSecure   bool
		scheme     string
		wantStatus int
	}{
		"without --secure-metrics": {false, "http", http.StatusOK},
		"with --secure-metrics":    {true, "https", http.StatusUnauthorized},
	}) {
		address, stop := startManager(t, func(mgr ctrl.Manager, address string) error {
			return addMetricsServer(t.Context(), mgr, flags{metricsAddress: address, secureMetrics: tc.isSecure}, page)
		})

		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		response := check.Value(client.Get(tc.scheme + "://" + address + "/metrics"))(t)
		check.NoError(t, response.Body.Close())
		check.Equal(t, "status", tc.wantStatus, response.StatusCode)
		check.Equal(t, "protocol", "HTTP/1.1", response.Proto)
		client.CloseIdleConnections()
		stop()
	}
}

// startManager starts a manager with a server at a free address, and returns what stops it.
func startManager(t *testing.T, add func(mgr ctrl.Manager, address string) error) (address string, stop func()) {
	port := check.Value(cluster.FreePort())(t)

	mgr := check.Value(ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{Metrics: metricsserver.Options{BindAddress: noAddress}}))(t)

	address = fmt.Sprintf("127.0.0.1:%d", port)
	check.NoError(t, add(mgr, address))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()

	return address, func() {
		cancel()
		check.NoError(t, <-ended)
	}
}

// TestProbesAreServedWithinLimits: the kubelet probes /healthz and /readyz. Check "bad" fails, so /readyz does. Each
// check has a page of its own, and metrics are not served here. A client that connects and sends nothing loses its
// connection within 4 seconds, so that such clients cannot take all connections from the kubelet.
func TestProbesAreServedWithinLimits(t *testing.T) {
	check.NoError(t, streamLists())
	ready := map[string]healthz.Checker{"good": healthz.Ping, "bad": func(*http.Request) error { return errors.New("not yet") }}
	address, stop := startManager(t, func(mgr ctrl.Manager, address string) error {
		return addHealthServer(t.Context(), mgr, address, ready)
	})
	defer stop()

	idle := check.Value(net.Dial("tcp", address))(t)
	defer func() { _ = idle.Close() }()

	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 500, "/readyz/good": 200, "/readyz/bad": 500, "/metrics": 404} {
		response := check.Value(client.Get("http://" + address + path))(t)
		check.NoError(t, response.Body.Close())
		check.Equal(t, "status of "+path, status, response.StatusCode)
	}

	check.NoError(t, idle.SetReadDeadline(time.Now().Add(4*time.Second)))
	_, err := idle.Read(make([]byte, 1))
	check.That(t, errors.Is(err, io.EOF), "an idle connection stays: %v", err)
}

// TestAddressZeroStartsNoServer: address 0 switches a server off. The manager is nil, so adding a server to it would panic.
func TestAddressZeroStartsNoServer(t *testing.T) {
	check.NoError(t, addMetricsServer(t.Context(), nil, flags{metricsAddress: noAddress}, nil))
	check.NoError(t, addHealthServer(t.Context(), nil, noAddress, nil))
}
