package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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
	var d Dispute
	const s = time.Second
	want := []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 23 * s, 31 * s, 39 * s, 47 * s, 55 * s}
	if diff := cmp.Diff(want, fight(&d, []string{"argocd"}, noon, time.Minute)); diff != "" {
		t.Errorf("put back at (-want +got):\n%s", diff)
	}
}

func TestTheLongestPauseIsAChoice(t *testing.T) {
	d := Dispute{Longest: time.Minute}
	const s = time.Second
	want := []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 31 * s, 63 * s, 123 * s, 183 * s}
	if diff := cmp.Diff(want, fight(&d, []string{"argocd"}, noon, 4*time.Minute)); diff != "" {
		t.Errorf("put back at (-want +got):\n%s", diff)
	}
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
		if got := d.Rounds(step.writer, noon.Add(step.after)); got != step.want {
			t.Errorf("%s after %s: %d rounds, want %d", step.writer, step.after, got, step.want)
		}
	}
}

func TestWait(t *testing.T) {
	const war = 10 * time.Minute // put back last after 9 min 59 s
	cases := map[string]struct {
		writers []string
		after   time.Duration
		want    time.Duration
	}{
		"the one who goes on waits":                               {writers: []string{"argocd"}, after: war, want: 7 * time.Second},
		"who is new waits for nobody":                             {writers: []string{"kubectl-edit"}, after: war},
		"nor when another one fights":                             {writers: []string{"argocd", "kubectl-edit"}, after: war},
		"nobody is no reason to wait":                             {after: war},
		"a little less than five quiet minutes are forgotten not": {writers: []string{"argocd"}, after: war + 3*time.Second + 4*time.Minute},
		"after five quiet minutes it is put back at once":         {writers: []string{"argocd"}, after: war + 6*time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var d Dispute
			fight(&d, []string{"argocd"}, noon, war)
			if got := d.Wait(tc.writers, noon.Add(tc.after)); got != tc.want {
				t.Errorf("waits %s, want %s", got, tc.want)
			}
		})
	}
	t.Run("five quiet minutes begin the count anew", func(t *testing.T) {
		var d Dispute
		fight(&d, []string{"argocd"}, noon, war)
		if got := d.Replaced([]string{"argocd"}, noon.Add(war+6*time.Minute)); got != time.Second {
			t.Errorf("the next pause is %s, want 1s", got)
		}
	})
}

func TestEditsByHandNowAndThenArePutBackAtOnce(t *testing.T) {
	var d Dispute
	for i := range 5 {
		now := noon.Add(time.Duration(i) * 20 * time.Second)
		if got := d.Wait([]string{"kubectl-edit"}, now); got != 0 {
			t.Errorf("edit %d waits %s", i, got)
		}
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
		if got := d.News(step.text, noon.Add(step.after)); got != step.want {
			t.Errorf("%q after %s: news = %v, want %v", step.text, step.after, got, step.want)
		}
	}
}

func TestNoWaitIsLongerThanTheLongestPause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Dispute
		now := noon
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			writers := slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "c"}), 1, 3).Draw(t, "writers"))))
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(7*time.Minute)).Draw(t, "after")))
			wait := d.Wait(writers, now)
			if wait < 0 || wait > longestPause {
				t.Fatalf("%q wait %s", writers, wait)
			}
			if next := d.Replaced(writers, now); next < time.Second || next > longestPause || d.Wait(writers, now) != next {
				t.Fatalf("%q: the next pause is %s, and waits %s", writers, next, d.Wait(writers, now))
			}
		}
	})
}
