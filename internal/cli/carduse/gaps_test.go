package carduse

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/fakeprometheus"
	"cardquota.dev/operator/internal/testing/seed"
)

// growing is a series with a sample each minute of some hours, that grows by one card-second a second.
func growing(labels map[string]string, value float64, hours ...[2]float64) *fakeprometheus.Series {
	series := &fakeprometheus.Series{Labels: labels}
	for _, span := range hours {
		for at := start.Add(time.Duration(span[0] * float64(time.Hour))); !at.After(start.Add(time.Duration(span[1] * float64(time.Hour)))); at = at.Add(time.Minute) {
			series.Samples = append(series.Samples, fakeprometheus.Sample{At: at, Value: value + at.Sub(start).Seconds()})
		}
	}
	return series
}

func on(pod string, further ...string) map[string]string {
	labels := map[string]string{"tenant": "lab", "queue": "q", "card": "A", "pod": pod}
	for _, label := range further {
		name, value, _ := strings.Cut(label, "=")
		labels[name] = value
	}
	return labels
}

func hour(h float64) time.Time { return start.Add(time.Duration(h * float64(time.Hour))) }

func sumOf(t *testing.T, from, to float64, series ...*fakeprometheus.Series) (Use, error) {
	t.Helper()
	return Sum(t.Context(), &samples{fakeprometheus.Prometheus{Metric: Counter, Series: series}}, Window{hour(from), hour(to)})
}

func TestGaps(t *testing.T) {
	const card = 1000
	for name, tc := range map[string]struct {
		from, to float64
		series   []*fakeprometheus.Series
		// hours are the card-hours of the report.
		hours float64
		gaps  []Gap
		first time.Time
	}{
		"no gap":             {2, 6, []*fakeprometheus.Series{growing(on("a"), card, [2]float64{0, 8})}, 4, nil, time.Time{}},
		"in the window":      {2, 6, []*fakeprometheus.Series{growing(on("a"), card, [2]float64{0, 3}, [2]float64{5, 8})}, 4, []Gap{{hour(3), hour(5)}}, time.Time{}},
		"at the begin":       {2, 6, []*fakeprometheus.Series{growing(on("a"), card, [2]float64{0, 1}, [2]float64{3, 8})}, 5, []Gap{{hour(2), hour(3)}}, time.Time{}},
		"at the end":         {2, 6, []*fakeprometheus.Series{growing(on("a"), card, [2]float64{0, 4}, [2]float64{7, 8})}, 2, []Gap{{hour(4), hour(6)}}, time.Time{}},
		"six days before":    {150, 152, []*fakeprometheus.Series{growing(on("a"), card, [2]float64{0, 1}, [2]float64{151, 152})}, 151, []Gap{{hour(150), hour(151)}}, time.Time{}},
		"nothing before":     {2, 6, []*fakeprometheus.Series{growing(on("a"), card, [2]float64{3.5, 8})}, 2.5, []Gap{{hour(2), hour(3.5)}}, hour(3)},
		"change of leader":   {2, 6, []*fakeprometheus.Series{growing(on("a"), card, [2]float64{0, 3}), growing(on("b"), card, [2]float64{3.05, 8})}, 4, nil, time.Time{}},
		"replica hangs":      {2, 6, []*fakeprometheus.Series{growing(on("a"), card, [2]float64{0, 3.2}), growing(on("b"), card, [2]float64{3, 8})}, 4, nil, time.Time{}},
		"a queue begins":     {2, 6, []*fakeprometheus.Series{growing(on("a", "queue=old"), -2*3600, [2]float64{2, 2}), growing(on("a"), -3*3600, [2]float64{3, 8})}, 3, []Gap{{hour(2), hour(3)}}, time.Time{}},
		"ConfigMaps deleted": {2, 6, []*fakeprometheus.Series{growing(on("a"), 9*3600, [2]float64{0, 3}), growing(on("b"), -3*3600, [2]float64{3, 8})}, 4, nil, time.Time{}},
		// The hour before the window has no samples, and the hours before it have values of sums that
		// began at zero again since.
		"deleted a day before":    {12, 16, []*fakeprometheus.Series{growing(on("a"), 90*3600, [2]float64{0, 2}), growing(on("b"), -2*3600, [2]float64{2.5, 10}, [2]float64{12.5, 20})}, 6, []Gap{{hour(12), hour(12.5)}}, time.Time{}},
		"deleted six days before": {150, 152, []*fakeprometheus.Series{growing(on("a"), 900*3600, [2]float64{0, 2}), growing(on("b"), -2*3600, [2]float64{2.5, 110}, [2]float64{150.5, 152})}, 42, []Gap{{hour(150), hour(150.5)}}, time.Time{}},
		"half a minute":           {2, 2 + 1.0/120, []*fakeprometheus.Series{growing(on("a"), card, [2]float64{0, 8})}, 0, nil, time.Time{}},
	} {
		use, err := sumOf(t, tc.from, tc.to, tc.series...)
		check.NoError(t, err)
		check.Equal(t, name+": card-hours", tc.hours, float64(use.CardSeconds[cardseconds.Series{Tenant: "lab", Queue: "q", Card: "A"}])/3600/1000)
		check.Equal(t, name+": gaps", len(tc.gaps), len(use.Gaps))
		for i, gap := range use.Gaps {
			near := gap.From.Sub(tc.gaps[i].From).Abs() <= 2*gapStep && gap.To.Sub(tc.gaps[i].To).Abs() <= 2*gapStep
			check.That(t, near, "%s: gap %v, want about %v", name, gap, tc.gaps[i])
		}
		check.That(t, use.HasSamples && use.FirstSample.Equal(tc.first), "%s: first sample %v", name, use.FirstSample)
	}
	use, err := sumOf(t, 2, 6)
	check.That(t, err == nil && !use.HasSamples && len(use.CardSeconds) == 0, "without samples: %+v, %v", use, err)
}

// TestTwoClustersAreRefused: the larger of two counters is no bill of either.
func TestTwoClustersAreRefused(t *testing.T) {
	east, west := growing(on("a", "cluster=east"), 5000, [2]float64{0, 8}), growing(on("b", "cluster=west"), 0, [2]float64{0, 8})
	_, err := sumOf(t, 2, 6, east, west)
	check.That(t, err != nil, "two clusters are taken for one")
	check.Contains(t, "error", err.Error(), `cluster="east"`, `cluster="west"`)
	_, err = sumOf(t, 2, 2.5, east, west)
	check.That(t, err != nil, "two clusters are taken for one in half an hour")
}

// drawExports returns programs that export at some instants.
func drawExports(t *rapid.T, steps int) []*export {
	var exports []*export
	for i := range rapid.IntRange(0, 4).Draw(t, "programs") {
		one := &export{map[string]string{"pod": fmt.Sprint(i)}, map[int]bool{}}
		for range rapid.IntRange(0, 3).Draw(t, "runs") {
			from := rapid.IntRange(0, steps).Draw(t, "from")
			for at := from; at <= min(steps, from+rapid.IntRange(0, 2*maxTogether).Draw(t, "length")); at++ {
				one.has[at] = true
			}
		}
		exports = append(exports, one)
	}
	return exports
}

// TestSeveralProgramsAreThoseOfAnyPair compares with a look at each pair of programs by itself.
func TestSeveralProgramsAreThoseOfAnyPair(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		steps := rapid.IntRange(0, 60).Draw(t, "steps")
		exports := drawExports(t, steps)
		limit, want := min(maxTogether, max(minMissing, steps/2)), false
		for i, one := range exports {
			for _, other := range exports[i+1:] {
				together := 0
				for at := 0; at <= steps; at++ {
					if together++; !one.has[at] || !other.has[at] {
						together = 0
					}
					want = want || together > limit
				}
			}
		}
		err := refuseSeveral(exports, steps)
		check.That(t, (err != nil) == want, "refused %t, want %t", err != nil, want)
	})
}

// TestManyPrograms: a year with a restart of the operator every two hours.
func TestManyPrograms(t *testing.T) {
	const programs, instants = 4380, 24
	var exports []*export
	for i := range programs {
		one := &export{map[string]string{"pod": fmt.Sprint(i)}, map[int]bool{}}
		for at := range instants {
			one.has[i*instants+at] = true
		}
		exports = append(exports, one)
	}
	check.NoError(t, refuseSeveral(exports, programs*instants-1))
}

// TestQueries compares with the file of queries, which hack/alerts runs with Prometheus' own engine.
func TestQueries(t *testing.T) {
	matchers := []string{`cluster="east"`, `job=~"a|b"`}
	queries := []string{LargestQuery(matchers, time.Hour), SmallestQuery(matchers, time.Hour), ExportersQuery(matchers), LargestQuery(nil, 24*time.Hour)}
	want, err := os.ReadFile("testdata/queries.golden")
	check.NoError(t, err)
	check.Equal(t, "queries", string(want), strings.Join(queries, "\n")+"\n")
}

func TestMatchers(t *testing.T) {
	for _, good := range []string{`cluster="east"`, `cluster=~"a|b"`, `job!="x\"y"`, `region!~""`} {
		check.NoError(t, CheckMatcher(good))
	}
	for bad, want := range map[string]string{
		`cluster=east`: "is no matcher", `cluster="a"} or up{x="b"`: "is no matcher", `="a"`: "is no matcher", `tenant="lab"`: "--tenant selects a tenant", `card=~"A"`: "not by card", "": "is no matcher",
	} {
		err := CheckMatcher(bad)
		check.That(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", bad, err)
	}
}

func TestWindows(t *testing.T) {
	zone := time.FixedZone("east", 2*3600)
	now := time.Date(2026, 11, 23, 12, 0, 0, 500, zone)
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		check.NoError(t, err)
		return parsed
	}
	for name, tc := range map[string]struct{ from, to, month, wantFrom, wantTo, wantErr string }{
		"this month":      {"", "", "", "2026-11-01T00:00:00+02:00", "2026-11-23T12:00:00+02:00", ""},
		"a month":         {"", "", "2026-10", "2026-10-01T00:00:00+02:00", "2026-11-01T00:00:00+02:00", ""},
		"the month":       {"", "", "2026-11", "2026-11-01T00:00:00+02:00", "2026-11-23T12:00:00+02:00", ""},
		"dates":           {"2026-10-05", "2026-10-06", "", "2026-10-05T00:00:00+02:00", "2026-10-06T00:00:00+02:00", ""},
		"a time":          {"2026-10-05T01:02:03Z", "", "", "2026-10-05T03:02:03+02:00", "2026-11-23T12:00:00+02:00", ""},
		"days":            {"30d", "-24h", "", "2026-10-24T12:00:00+02:00", "2026-11-22T12:00:00+02:00", ""},
		"weeks and now":   {"1w", "now", "", "2026-11-16T12:00:00+02:00", "2026-11-23T12:00:00+02:00", ""},
		"the end to come": {"1h", "2027-01-01", "", "2026-11-23T11:00:00+02:00", "2026-11-23T12:00:00+02:00", ""},
		"both":            {"30d", "", "2026-10", "", "", "but not both"},
		"no month":        {"", "", "October", "", "", "write 2026-11"},
		"no time":         {"yesterday", "", "", "", "", `--from: "yesterday" is no time`},
		"no end":          {"", "x", "", "", "", `--to: "x" is no time`},
		"backwards":       {"1h", "2h", "", "", "", "the time is empty"},
		"empty":           {"1h", "1h", "", "", "", "the time is empty"},
		"to come":         {"2027-01-01", "", "", "", "", "lies in the future"},
		"a month to come": {"", "", "2026-12", "", "", "lies in the future"},
		"years":           {"2020-01-01", "", "", "", "", "more than 400 days"},
	} {
		window, err := ParseWindow(tc.from, tc.to, tc.month, now)
		if tc.wantErr != "" {
			check.That(t, err != nil && strings.Contains(err.Error(), tc.wantErr), "%s: %v", name, err)
			continue
		}
		check.NoError(t, err)
		check.That(t, window.From.Equal(at(tc.wantFrom)) && window.To.Equal(at(tc.wantTo)), "%s: %v", name, window)
	}
	check.Equal(t, "the month before", "2026-10", FormatMonth(now, 1))
	check.Equal(t, "a year before", "2025-11", FormatMonth(now, 12))
}
