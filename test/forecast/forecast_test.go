package forecast

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"cardquota.dev/operator/internal/testing/check"
)

// quotaPercent is the quota of each tenant. The lower it is, the more workloads wait.
var quotaPercent = flag.Int("quota-percent", 80, "the quota of each tenant, in percent of the most cards that its workloads use at once")

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // the heap is small, so it may grow
	os.Exit(m.Run())
}

// TestTheForecastNamesWhatThenWaits: a recorded week of 959 workloads of 7 tenants is played twice, with the same
// arrivals and durations. First quotas are only observed, and forecasts name the workloads that would wait. Then the
// scheduler enforces the quotas, and some workloads start late: at most a fifth, and not so few that they prove nothing.
// Each workload counts once. At least 90 % of those that waited must have been named, and at least 90 % of those that
// were named must have waited.
func TestTheForecastNamesWhatThenWaits(t *testing.T) {
	week := readWeek(t)
	quotas := quotasFor(week, *quotaPercent)
	enforced := newEnforcedWeek(t, quotas)

	synctest.Test(t, func(t *testing.T) {
		time.Sleep(50 * 365 * 24 * time.Hour) // a bubble starts in the year 2000, before the first session
		named := newObservedWeek(quotas, time.Now()).play(t, week)
		waited := enforced.play(t, week, synctest.Wait)

		percent := percentOf(len(waited), len(week))
		check.That(t, 2 <= percent && percent <= 20, "%.1f %% of the workloads waited, want 2 to 20 %%", percent)
		compareWorkloads(t, named, waited)
	})
}

// compareWorkloads compares the workloads that were named in mode Observe with those that waited in mode Enforce.
func compareWorkloads(t *testing.T, named, waited map[string]bool) {
	both := 0
	for name := range waited {
		if named[name] {
			both++
		}
	}

	waitedNamed := percentOf(both, len(waited))
	namedWaited := percentOf(both, len(named))
	t.Logf("%.1f %% of %d workloads that waited were named, and %.1f %% of %d named ones waited", waitedNamed, len(waited), namedWaited, len(named))
	check.That(t, waitedNamed >= 90, "%.1f %% of the %d workloads that waited were named, want 90 %%", waitedNamed, len(waited))
	check.That(t, namedWaited >= 90, "%.1f %% of the %d named workloads waited, want 90 %%", namedWaited, len(named))
}

// percentOf returns how many percent a part is of all.
func percentOf(part, all int) float64 { return 100 * float64(part) / float64(all) }
