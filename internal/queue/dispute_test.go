package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fight puts back as soon as it is allowed to, for a time during which the
// writers write all the time, and returns when it did.
func fight(d *Dispute, writers []string, from time.Time, length time.Duration) []time.Duration {
	var at []time.Duration
	for now := from; now.Sub(from) < length; now = now.Add(100 * time.Millisecond) {
		if d.Wait(writers, now) == 0 {
			d.Replaced(writers, now)
			at = append(at, now.Sub(from))
		}
	}
	return at
}

func TestAWriteWarSlowsDown(t *testing.T) {
	const s = time.Second
	want := []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 23 * s, 31 * s, 39 * s, 47 * s, 55 * s}
	check.Equal(t, "put back at", want, fight(&Dispute{}, []string{"argocd"}, noon, time.Minute))
	want = []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 31 * s, 63 * s, 123 * s, 183 * s}
	check.Equal(t, "with pauses of a minute put back at", want, fight(&Dispute{Longest: time.Minute}, []string{"argocd"}, noon, 4*time.Minute))
}

func TestRoundsAreCountedUntilItIsQuiet(t *testing.T) {
	var d Dispute
	fight(&d, []string{"argocd"}, noon, 10*time.Second) // put back at 0, 1, 3 and 7 s
	for _, step := range []struct {
		writer string
		after  time.Duration
		want   int
	}{
		{"argocd", 10 * time.Second, 4},
		{"argocd", 5 * time.Minute, 4},
		{"argocd", 5*time.Minute + 7*time.Second, 0},
		{"helm", 10 * time.Second, 0},
	} {
		check.Equal(t, fmt.Sprintf("%s after %s: rounds", step.writer, step.after), step.want, d.Rounds(step.writer, noon.Add(step.after)))
	}
}

func TestWait(t *testing.T) {
	const war = 10 * time.Minute // put back last after 9 min 59 s
	for t, tc := range check.Cases(t, map[string]struct {
		writers     []string
		after, want time.Duration
	}{
		"the one who goes on waits":                               {writers: []string{"argocd"}, after: war, want: 7 * time.Second},
		"who is new waits for nobody":                             {writers: []string{"kubectl-edit"}, after: war},
		"nor when another one fights":                             {writers: []string{"argocd", "kubectl-edit"}, after: war},
		"nobody is no reason to wait":                             {after: war},
		"a little less than five quiet minutes are forgotten not": {writers: []string{"argocd"}, after: war + 3*time.Second + 4*time.Minute},
		"after five quiet minutes it is put back at once":         {writers: []string{"argocd"}, after: war + 6*time.Minute},
	}) {
		var d Dispute
		fight(&d, []string{"argocd"}, noon, war)
		check.Equal(t, "waits", tc.want, d.Wait(tc.writers, noon.Add(tc.after)))
	}
	t.Run("five quiet minutes begin the count anew", func(t *testing.T) {
		var d Dispute
		fight(&d, []string{"argocd"}, noon, war)
		check.Equal(t, "the next pause", time.Second, d.Replaced([]string{"argocd"}, noon.Add(war+6*time.Minute)))
	})
}

func TestEditsByHandNowAndThenArePutBackAtOnce(t *testing.T) {
	var d Dispute
	for i := range 5 {
		now := noon.Add(time.Duration(i) * 20 * time.Second)
		check.Equal(t, fmt.Sprintf("edit %d waits", i), 0, d.Wait([]string{"kubectl-edit"}, now))
		d.Replaced([]string{"kubectl-edit"}, now)
	}
}

func TestNews(t *testing.T) {
	var d Dispute
	for _, step := range []struct {
		text  string
		after time.Duration
		want  bool
	}{
		{"argocd wrote spec.priority", 0, true},
		{"argocd wrote spec.priority", time.Minute, false},
		{"argocd wrote spec.priority", 5 * time.Minute, false}, // four minutes after the last
		{"helm wrote spec.priority", 5 * time.Minute, true},
		{"helm wrote spec.priority", 10 * time.Minute, true},
	} {
		check.Equal(t, fmt.Sprintf("%q after %s: news", step.text, step.after), step.want, d.News(step.text, noon.Add(step.after)))
	}
}

func TestNoWaitIsLongerThanTheLongestPause(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var d Dispute
		now := noon
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			writers := slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "c"}), 1, 3).Draw(t, "writers"))))
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(7*time.Minute)).Draw(t, "after")))
			wait := d.Wait(writers, now)
			check.Must(t, wait >= 0 && wait <= longestPause, "%q wait %s", writers, wait)
			if next := d.Replaced(writers, now); next < time.Second || next > longestPause || d.Wait(writers, now) != next {
				t.Fatalf("%q: the next pause is %s, and waits %s", writers, next, d.Wait(writers, now))
			}
		}
	})
}
