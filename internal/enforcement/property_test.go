package enforcement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// drawFacts draws facts whose parts are in order more often than not, so that
// every verdict is reached.
func drawFacts(t *rapid.T) Observation {
	fine := func(label string) bool { return rapid.IntRange(0, 3).Draw(t, label) > 0 }
	age := func(label string) time.Duration {
		return rapid.SampledFrom([]time.Duration{
			0, time.Second, 20*time.Second - 1, 20 * time.Second, 20*time.Second + 1, time.Hour, -time.Second, -20 * time.Second, -time.Hour,
		}).Draw(t, label)
	}

	names := func(label string) []string {
		return rapid.SliceOfN(rapid.SampledFrom([]string{stock, "lab/a", "lab/b", "x/" + strings.Repeat("é", 200)}), 1, 8).Draw(t, label)
	}

	f := Observation{Now: noon, Namespace: "volcano-system", WantedHash: wanted}
	if !fine("written") {
		f.WantedHash = rapid.SampledFrom([]string{"", other}).Draw(t, "hash")
		f.WantedSince = noon.Add(-age("since"))
	}

	if !fine("configured") {
		f.NotConfigured = rapid.StringN(1, 2000, -1).Draw(t, "why")
	}

	if fine("reported") {
		f.Heartbeat = &Report{Identity: ours, Version: "v1", ConfigHash: wanted, At: noon.Add(-age("at"))}
		if fine("heard") {
			f.ReceivedAt = noon.Add(-age("arrived").Abs())
		}

		f.Heartbeat.Ended = !fine("works")
		if !fine("alone") {
			f.Heartbeat.SecondScheduler = names("second")
		}
		if !fine("loads") {
			f.Heartbeat.ConfigProblem = rapid.StringN(0, 1000, -1).Draw(t, "problem")
		}
	}

	if fine("led") {
		f.Leader = &Leader{Identity: rapid.SampledFrom([]string{ours, theirs}).Draw(t, "leader"), Acquired: noon.Add(-age("led since").Abs()), Expires: noon.Add(age("led until"))}
	}
	if !fine("nothing foreign") {
		otherPods(names("foreign")...)(&f)
	}

	if !fine("nothing past us") {
		for _, pod := range names("bypass") {
			f.Bypasses = append(f.Bypasses, bypass(pod, "team", card.Count(rapid.Int64Range(1, 1000).Draw(t, "cards"))))
		}
	}

	return f
}

// proven states condition Enforced in one sentence.
func proven(f Observation) bool {
	return f.NotConfigured == "" && f.WantedHash != "" && len(f.OtherSchedulers) == 0 && len(f.Bypasses) == 0 &&
		f.Heartbeat != nil && provenByHeartbeat(f)
}

// provenByHeartbeat states what the last heartbeat has to say, and when.
func provenByHeartbeat(f Observation) bool {
	isFresh := noon.Sub(f.Heartbeat.At).Abs() < StaleAfter
	isReceivedLately := f.ReceivedAt.IsZero() || noon.Sub(f.ReceivedAt) < StaleAfter
	mayBeTakenOver := !f.Heartbeat.Ended || !f.ReceivedAt.IsZero()

	return len(f.Heartbeat.SecondScheduler) == 0 && f.Heartbeat.ConfigHash == f.WantedHash &&
		isFresh && isReceivedLately && mayBeTakenOver
}

// TestTrueNeedsEveryProof states the condition once more, from the other side:
// it is True exactly when everything is proven.
func TestTrueNeedsEveryProof(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		got := Evaluate(f)
		proven := proven(f)
		check.Equal(t, fmt.Sprintf("%s/%s: %s although everything proven", got.Status, got.Reason, got.Message), proven, got.Status == metav1.ConditionTrue)
		check.Must(t, got.Message != "" && len(got.Message) <= conditions.MaxMessageLength && utf8.ValidString(got.Message),
			"message of %d bytes: %q", len(got.Message), got.Message)
		check.Must(t, f.NextCheck().IsZero() || f.NextCheck().After(f.Now), "is to look again at %s, now is %s", f.NextCheck(), f.Now)
	})
}

// TestNextCheckIsTheNextChange: between now and Until the verdict stays, so that
// no caller has to look more often.
func TestNextCheckIsTheNextChange(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		now := Evaluate(f)
		later := f

		ahead := time.Duration(rapid.Int64Range(1, int64(2*time.Hour)).Draw(t, "ahead"))
		later.Now = f.Now.Add(ahead)
		if until := f.NextCheck(); !until.IsZero() && !later.Now.Before(until) {
			later.Now = until.Add(-1)
		}

		then := Evaluate(later)
		check.Must(t, conditions.Same(then, now), "%s/%s: %s\nbecame, before %s, at %s\n%s/%s: %s", now.Status, now.Reason, now.Message, f.NextCheck(), later.Now, then.Status, then.Reason, then.Message)
	})
}

// TestRenewalsAreSilent: a heartbeat that only renews changes no verdict's
// words, or every renewal would be a write of every status.
func TestRenewalsAreSilent(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := working()
		f.Bypasses = drawFacts(t).Bypasses
		before := Evaluate(f)
		f.Now = f.Now.Add(time.Duration(rapid.IntRange(0, 100000).Draw(t, "seconds")) * time.Second)
		report := *f.Heartbeat
		report.At = f.Now.Add(-time.Second)

		f.ReceivedAt = f.Now
		f.Heartbeat = &report
		led(ours, time.Hour)(&f)
		after := Evaluate(f)
		check.Must(t, conditions.Same(after, before), "%s became %s", before.Message, after.Message)
	})
}

// TestEvaluateDoesNotChangeTheObservation: one set of facts serves all queues.
func TestEvaluateDoesNotChangeTheObservation(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		before := fmt.Sprintf("%+v %+v", f, f.Heartbeat)
		foreign := slices.Clone(f.OtherSchedulers)
		all := Evaluate(f)
		EvaluateQueue("team", &all, GroupByQueue(f.Bypasses))
		after := fmt.Sprintf("%+v %+v", f, f.Heartbeat)
		check.Must(t, after == before && slices.Equal(foreign, f.OtherSchedulers), "facts changed:\n%s\n%s", before, after)
	})
}
