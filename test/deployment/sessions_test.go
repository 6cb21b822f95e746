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

// TestSessionsAreRead: tests learn from the scheduler's metrics how many sessions (scheduling cycles of Volcano) it
// has closed, how long they took, and whether the plugin decides. Here the scheduler has process ID 7, has closed 5
// sessions of 20 ms each, and is ready (1). Without a scheduler there is an error.
func TestSessionsAreRead(t *testing.T) {
	d, _ := newDeploymentReading(t, func(int64) string { return metricsPage(5, 1) })
	got := check.Value(d.Sessions(t.Context()))(t)
	check.Equal(t, "sessions", SessionStats{PID: 7, Closed: 5, TotalDuration: 100 * time.Millisecond, Deciding: true}, got)
	_, err := (&Deployment{}).Sessions(t.Context())
	check.Says(t, err, "no scheduler was started")
}

// TestWaitingCountsWholeSessionsThatDecide: a test that waits for 2 sessions gets 2 that began after its call, so
// that both saw what it wrote before. A session that was open then does not count, and neither does one in which
// the plugin still keeps all pods back. The scheduler closes one session at each scrape here.
func TestWaitingCountsWholeSessionsThatDecide(t *testing.T) {
	for t, test := range check.Cases(t, map[string]struct {
		pages func(scrape int64) string
		// scrapes is the number of scrapes until two sessions have opened and closed.
		scrapes int64
	}{
		// The first scrape reads what was closed before, the second ends the open session.
		"the plugin decides all the time": {func(n int64) string { return metricsPage(n, 1) }, 4},
		// The 11th scrape takes the place of the first one.
		"the plugin holds pods back until the 11th scrape": {func(n int64) string { return metricsPage(n, min(1, n/11)) }, 14},
		// The scrapes read 100, 1, 2, 3, 4: the second one takes the place of the first one.
		"the scheduler restarts after 100 sessions": {func(n int64) string { return metricsPage((n+98)%100+1, 1) }, 5},
	}) {
		d, scrapes := newDeploymentReading(t, test.pages)

		err := d.AwaitSessions(t.Context(), 2)
		check.That(t, err == nil && scrapes.Load() == test.scrapes, "%d scrapes, %v, want %d", scrapes.Load(), err, test.scrapes)
	}
}

// TestWaitingForSessionsEndsWithItsContext: a test whose scheduler hangs fails in time. This scheduler has closed 3
// sessions and closes no other, so the wait ends with its context after 200 ms.
func TestWaitingForSessionsEndsWithItsContext(t *testing.T) {
	d, _ := newDeploymentReading(t, func(int64) string { return metricsPage(3, 1) })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	check.That(t, d.AwaitSessions(ctx, 1) != nil, "no session has closed, and no error")
}
