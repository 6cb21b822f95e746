package harness

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestWritesAreCountedByVerbAndResource: a report says how many writes a scheduler made. They are counted from the
// API server's metrics by verb and resource, also those that failed: 7 + 10 bindings. Reads do not count, nor
// Leases, which are renewed by the clock.
func TestWritesAreCountedByVerbAndResource(t *testing.T) {
	got := check.Value(parseAPIWrites([]byte(`# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 7
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 1e+01
apiserver_request_total{code="200",component="apiserver",dry_run="",group="scheduling.volcano.sh",resource="podgroups",scope="resource",subresource="",verb="PUT",version="v1beta1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 5
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 99
apiserver_request_duration_seconds_count{resource="pods",verb="POST"} 3
`)))(t)
	check.Equal(t, "writes", map[string]int{"POST pods/binding": 17, "PUT podgroups": 2}, got)
}
