package deployment

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// metricsPage returns the metrics of a scheduler that closes a session at each scrape.
func metricsPage(closed, ready int64) string {
	return fmt.Sprintf(`# TYPE volcano_e2e_scheduling_latency_milliseconds histogram
volcano_e2e_scheduling_latency_milliseconds_bucket{le="+Inf"} %d
volcano_e2e_scheduling_latency_milliseconds_sum %d
volcano_e2e_scheduling_latency_milliseconds_count %d
# TYPE cardquota_ready gauge
cardquota_ready %d
`, closed, 20*closed, closed, ready)
}

// newDeploymentReading returns a deployment whose scheduler serves the pages, the next one at
// each scrape.
func newDeploymentReading(t *testing.T, pages func(scrape int64) string) (*Deployment, *atomic.Int64) {
	scrapes := &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, pages(scrapes.Add(1)))
	}))
	t.Cleanup(server.Close)
	d := &Deployment{}
	d.metricsSource.Store(&metricsEndpoint{process: 7, url: server.URL})
	return d, scrapes
}

func TestSessionsAreRead(t *testing.T) {
	d, _ := newDeploymentReading(t, func(int64) string { return metricsPage(5, 1) })
	got := check.Value(d.Sessions(t.Context()))(t)
	check.Equal(t, "sessions", SessionStats{PID: 7, Closed: 5, TotalDuration: 100 * time.Millisecond, Deciding: true}, got)
	_, err := (&Deployment{}).Sessions(t.Context())
	check.Says(t, err, "no scheduler was started")
}

func TestAwaitSessions(t *testing.T) {
	for t, test := range check.Cases(t, map[string]struct {
		pages func(scrape int64) string
		// scrapes is the number of scrapes until two sessions have opened and closed.
		scrapes int64
	}{
		"the session that was open does not count":   {func(n int64) string { return metricsPage(n, 1) }, 4},
		"sessions that hold back do not count":       {func(n int64) string { return metricsPage(n, min(1, n/11)) }, 14}, // from the 11th on it decides
		"a scheduler that begins again begins again": {func(n int64) string { return metricsPage((n+98)%100+1, 1) }, 5},  // 100, 1, 2 …
	}) {
		d, scrapes := newDeploymentReading(t, test.pages)

		err := d.AwaitSessions(t.Context(), 2)
		check.That(t, err == nil && scrapes.Load() == test.scrapes, "%d scrapes, %v, want %d", scrapes.Load(), err, test.scrapes)
	}
}

func TestAwaitSessionsEndsWithItsContext(t *testing.T) {
	d, _ := newDeploymentReading(t, func(int64) string { return metricsPage(3, 1) })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	check.That(t, d.AwaitSessions(ctx, 1) != nil, "no session has closed, and no error")
}
