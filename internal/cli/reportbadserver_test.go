package cli

import (
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/internal/testing/check"
)

// badProxies are what report says about each of badServers, as the API server that passes the queries
// on, and as Prometheus itself. It honours --request-timeout in both.
var badProxies = map[string]struct{ service, direct string }{
	"silent":                  {"the API server does not answer in time", "does not answer in time. Select some of the series"},
	"refuses all credentials": {"the API server does not accept your credentials", "does not accept your credentials"},
	"is broken":               {"the API server does not reach Service monitoring/prometheus:9090: etcdserver: no leader", "etcdserver: no leader"},
	"is a login page":         {"Service monitoring/prometheus:9090 has no API of Prometheus", "has no API of Prometheus"},
	"ends in the middle":      {"cannot be read: unexpected EOF", "cannot be read: unexpected EOF"},
}

// TestReportOnABadServer: one plain sentence, and exit code 1.
func TestReportOnABadServer(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, os.WriteFile(empty, nil, 0o600))
	check.Equal(t, "bad servers", slices.Sorted(maps.Keys(badServers)), slices.Sorted(maps.Keys(badProxies)))
	for name, want := range badProxies {
		server := httptest.NewServer(badServers[name].handler)
		t.Cleanup(server.Close)
		for way, tc := range map[string]struct {
			args []string
			want string
		}{
			"service": {[]string{"--kubeconfig", empty, "--server", server.URL, "--service", "monitoring/prometheus:9090"}, want.service},
			"direct":  {[]string{"--prometheus", server.URL}, want.direct},
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				r := execute(t, nil, interceptor.Funcs{}, append([]string{"report", "--request-timeout", "200ms"}, tc.args...)...)
				check.That(t, r.code == exitError && r.out == "", "exit code %d: %s", r.code, r.out)
				text := strings.Join(strings.Fields(r.errOut), " ")
				check.Contains(t, "error", text, "error: ", tc.want)
				check.That(t, !strings.Contains(text, "goroutine") && len(text) < 400, "no plain sentence: %s", text)
			})
		}
	}
	r := execute(t, nil, interceptor.Funcs{}, "report", "--request-timeout", "soon", "--prometheus", "http://127.0.0.1:1")
	check.That(t, r.code == exitError, "exit code %d", r.code)
	check.Contains(t, "error", r.errOut, "--request-timeout: Invalid timeout value")
}
