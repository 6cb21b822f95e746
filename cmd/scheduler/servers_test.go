package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"volcano.sh/volcano/cmd/scheduler/app/options"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

type fixedState string

func (s fixedState) String() string { return string(s) }

// TestHealthPagesAreOKInAnyState: a replica that waits for a configuration must not be restarted, and must count as
// ready so that a rollout goes on. So each page answers 200, and /readyz says what the scheduler waits for.
func TestHealthPagesAreOKInAnyState(t *testing.T) {
	handler := healthHandler(fixedState("NotConfigured: ConfigMap a/b does not exist"))
	for path, want := range map[string]string{
		"/healthz": "ok\n",
		"/livez":   "ok\n",
		"/readyz":  "ok\nNotConfigured: ConfigMap a/b does not exist\n",
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))

		check.Equal(t, "status of "+path, http.StatusOK, answer.Code)
		check.Equal(t, "body of "+path, want, answer.Body.String())
	}
}

// TestMetricsAndProfilesAreServedByTheirFlags: --enable-metrics and --enable-pprof each switch on their own
// page alone.
func TestMetricsAndProfilesAreServedByTheirFlags(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		opt          options.ServerOption
		wantMetrics  int
		wantProfiles int
	}{
		"metrics without profiles": {options.ServerOption{EnableMetrics: true}, http.StatusOK, http.StatusNotFound},
		"profiles without metrics": {options.ServerOption{EnablePprof: true}, http.StatusNotFound, http.StatusOK},
	}) {
		for path, want := range map[string]int{"/metrics": tc.wantMetrics, "/debug/pprof/": tc.wantProfiles} {
			answer := httptest.NewRecorder()
			metricsHandler(&tc.opt).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))

			check.Equal(t, "status of "+path, want, answer.Code)
		}
	}
}

// TestServersThatCannotStartAreAnError: the page for probes starts at a free port. An address that does not exist, or a
// text "x" in place of the certificate, is an error, with which the scheduler ends.
func TestServersThatCannotStartAreAnError(t *testing.T) {
	start := func(opt options.ServerOption) error {
		opt.EnableHealthz = true
		return startServers(t.Context(), &opt, healthHandler(fixedState("fine")), nil)
	}
	noCertificate := []byte("x")

	check.NoError(t, start(options.ServerOption{HealthzBindAddress: "127.0.0.1:0"}))
	check.Says(t, start(options.ServerOption{HealthzBindAddress: "256.0.0.1:1"}), "listen at 256.0.0.1:1")
	check.Says(t, start(options.ServerOption{HealthzBindAddress: "127.0.0.1:0", CaCertData: noCertificate, CertData: noCertificate, KeyData: noCertificate}), "serving certificate")
}

// TestAnIdleConnectionToTheProbesEnds: a client that connects and sends nothing loses its connection within 4
// seconds, so that such clients cannot take all connections from the kubelet.
func TestAnIdleConnectionToTheProbesEnds(t *testing.T) {
	port := check.Value(cluster.FreePort())(t)
	opt := &options.ServerOption{EnableHealthz: true, HealthzBindAddress: fmt.Sprintf("127.0.0.1:%d", port)}
	check.NoError(t, startServers(t.Context(), opt, healthHandler(fixedState("fine")), nil))
	idle := check.Value(net.Dial("tcp", opt.HealthzBindAddress))(t)
	defer func() { _ = idle.Close() }()
	check.NoError(t, idle.SetReadDeadline(time.Now().Add(4*time.Second)))
	_, err := idle.Read(make([]byte, 1))
	check.That(t, errors.Is(err, io.EOF), "an idle connection stays: %v", err)
}

// get returns the body of a page, and its status.
func get(url string) (int, string, error) {
	response, err := http.Get(url) //nolint:noctx // short-lived test request
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(response.Body)
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	return response.StatusCode, string(body), err
}
