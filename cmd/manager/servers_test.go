package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// TestMetricsAreServedWithinLimits: over HTTP/1.1 only, and with --secure-metrics to no reader without a
// token.
func TestMetricsAreServedWithinLimits(t *testing.T) {
	check.NoError(t, streamLists()) // as main does before its first client: client-go asks for it once
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "cardquota_ready 1") })
	for t, tc := range check.Cases(t, map[string]struct {
		isSecure bool
		scheme   string
		status   int
	}{
		"plain":  {false, "http", http.StatusOK},
		"secure": {true, "https", http.StatusUnauthorized},
	}) {
		port, err := cluster.FreePort()
		check.NoError(t, err)
		mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{Metrics: metricsserver.Options{BindAddress: noAddress}})
		check.NoError(t, err)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		check.NoError(t, addMetricsServer(t.Context(), mgr, flags{metricsAddress: address, secureMetrics: tc.isSecure}, page))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()

		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		response, err := client.Get(tc.scheme + "://" + address + "/metrics")
		check.NoError(t, err)
		check.NoError(t, response.Body.Close())
		check.Equal(t, "status", tc.status, response.StatusCode)
		check.Equal(t, "protocol", "HTTP/1.1", response.Proto)
		client.CloseIdleConnections()
		stop()
		check.NoError(t, <-ended)
	}
}

// TestNoMetricsServer: with address 0 there is none.
func TestNoMetricsServer(t *testing.T) {
	check.NoError(t, addMetricsServer(t.Context(), nil, flags{metricsAddress: noAddress}, nil))
}
