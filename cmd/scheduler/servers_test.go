package main

import (
	"context"
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

func TestHealthPages(t *testing.T) {
	handler := healthHandler(fixedState("NotConfigured: ConfigMap a/b does not exist"))
	for path, want := range map[string]string{
		"/healthz": "ok\n",
		"/livez":   "ok\n",
		"/readyz":  "ok\nNotConfigured: ConfigMap a/b does not exist\n",
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))

		check.That(t, answer.Code == http.StatusOK && answer.Body.String() == want, "%s answers %d %q, want 200 %q", path, answer.Code, answer.Body.String(), want)
	}
}

func TestMetricsAndProfilesAreServedAsAsked(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		opt  options.ServerOption
		want map[string]int
	}{
		"metrics only":  {options.ServerOption{EnableMetrics: true}, map[string]int{"/metrics": 200, "/debug/pprof/": 404}},
		"profiles only": {options.ServerOption{EnablePprof: true}, map[string]int{"/metrics": 404, "/debug/pprof/": 200}},
	}) {
		handler := metricsHandler(&tc.opt)
		for path, want := range tc.want {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))

			check.Equal(t, fmt.Sprintf("%s answers", path), want, answer.Code)
		}
	}
}

func TestServersEndWithTheirContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	opt := &options.ServerOption{EnableHealthz: true, HealthzBindAddress: "127.0.0.1:0"}
	check.NoError(t, startServers(ctx, opt, healthHandler(fixedState("fine")), nil))
	stop()
	opt.HealthzBindAddress = "256.0.0.1:1"
	check.Says(t, startServers(t.Context(), opt, nil, nil), "listen at 256.0.0.1:1")
	opt = &options.ServerOption{EnableHealthz: true, HealthzBindAddress: "127.0.0.1:0", CaCertData: []byte("x"), CertData: []byte("x"), KeyData: []byte("x")}
	check.Says(t, startServers(t.Context(), opt, nil, nil), "serving certificate")
}

// TestAnIdleConnectionToTheProbesEnds: a client that sends nothing gives its connection back before the
// kubelet has asked in vain.
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
