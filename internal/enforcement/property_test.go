package enforcement

import (
	"fmt"
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

// drawObservation draws an observation whose parts are in order more often than not, so that every condition occurs.
func drawObservation(t *rapid.T) Observation {
	fine := func(label string) bool { return rapid.IntRange(0, 3).Draw(t, label) > 0 }
	age := func(label string) time.Duration {
		return rapid.SampledFrom([]time.Duration{
			0, time.Second, 20*time.Second - 1, 20 * time.Second, 20*time.Second + 1, time.Hour, -time.Second, -20 * time.Second, -time.Hour,
		}).Draw(t, label)
	}

	names := func(label string) []string {
		return rapid.SliceOfN(rapid.SampledFrom([]string{stockPod, "lab/a", "lab/b", "x/" + strings.Repeat("é", 200)}), 1, 8).Draw(t, label)
	}

	f := Observation{Now: noon, Namespace: "volcano-system", WantedHash: wantedHash}
	if !fine("written") {
		f.WantedHash = rapid.SampledFrom([]string{"", otherHash}).Draw(t, "hash")
		f.WantedSince = noon.Add(-age("since"))
	}

	if !fine("configured") {
		f.NotConfigured = rapid.StringN(1, 2000, -1).Draw(t, "why")
	}

	if fine("reported") {
		f.Heartbeat = &Report{Identity: ourIdentity, Version: "v1", ConfigHash: wantedHash, At: noon.Add(-age("at"))}
		if fine("received") {
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
		f.Leader = &Leader{
			Identity: rapid.SampledFrom([]string{ourIdentity, otherIdentity}).Draw(t, "leader"),
			Acquired: noon.Add(-age("led since").Abs()),
			Expires:  noon.Add(age("led until")),
		}
	}
	if !fine("no other scheduler") {
		addOtherSchedulers(names("others")...)(&f)
	}

	if !fine("no bypass") {
		for _, pod := range names("bypass") {
			f.Bypasses = append(f.Bypasses, newBypass(pod, "team", card.Count(rapid.Int64Range(1, 1000).Draw(t, "cards"))))
		}
	}

	return f
}

// isProven states condition Enforced in one sentence.
func isProven(f Observation) bool {
	return f.NotConfigured == "" && f.WantedHash != "" && len(f.OtherSchedulers) == 0 && len(f.Bypasses) == 0 &&
		f.Heartbeat != nil && isProvenByHeartbeat(f)
}

// isProvenByHeartbeat states what the last heartbeat must have, and when.
func isProvenByHeartbeat(f Observation) bool {
	isFresh := noon.Sub(f.Heartbeat.At).Abs() < StaleAfter
	isReceivedLately := f.ReceivedAt.IsZero() || noon.Sub(f.ReceivedAt) < StaleAfter
	// A replica may take over from one that stopped, if the operator received that one's last heartbeat.
	mayBeTakenOver := !f.Heartbeat.Ended || !f.ReceivedAt.IsZero()

	return len(f.Heartbeat.SecondScheduler) == 0 && f.Heartbeat.ConfigHash == f.WantedHash &&
		isFresh && isReceivedLately && mayBeTakenOver
}

// TestTrueNeedsEveryProof: for a random observation, condition Enforced is True exactly if everything is proven,
// which isProven states once more in one sentence. The message is never empty, and fits a condition. The next check
// is later than now, if there is one.
func TestTrueNeedsEveryProof(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := drawObservation(t)
		got := Evaluate(f)
		check.Equal(t, fmt.Sprintf("proven, with %s/%s: %s", got.Status, got.Reason, got.Message), isProven(f), got.Status == metav1.ConditionTrue)
		check.Must(t, got.Message != "" && len(got.Message) <= conditions.MaxMessageLength && utf8.ValidString(got.Message),
			"message of %d bytes: %q", len(got.Message), got.Message)
		check.Must(t, f.NextCheck().IsZero() || f.NextCheck().After(f.Now), "the next check is at %s, now is %s", f.NextCheck(), f.Now)
	})
}

// TestNextCheckIsTheNextChange: the operator evaluates again at NextCheck, or with a new heartbeat. So before that
// moment the condition must not change by time alone. The observation is random, and so is the later moment, which is
// before NextCheck if there is one.
func TestNextCheckIsTheNextChange(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := drawObservation(t)
		now := Evaluate(f)
		later := f

		ahead := time.Duration(rapid.Int64Range(1, int64(2*time.Hour)).Draw(t, "ahead"))
		later.Now = f.Now.Add(ahead)
		if until := f.NextCheck(); !until.IsZero() && !later.Now.Before(until) {
			later.Now = until.Add(-1)
		}

		then := Evaluate(later)
		check.Must(t, conditions.Same(then, now), "%s/%s: %s\nbecame, before %s, at %s\n%s/%s: %s",
			now.Status, now.Reason, now.Message, f.NextCheck(), later.Now, then.Status, then.Reason, then.Message)
	})
}

// TestRenewedHeartbeatsChangeNoCondition: the scheduler renews its heartbeat after each session. If that changed the
// message, each renewal would be a write of the status of every CardQuota. Bypasses and the time between are random.
func TestRenewedHeartbeatsChangeNoCondition(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := newObservation()
		f.Bypasses = drawObservation(t).Bypasses
		before := Evaluate(f)
		f.Now = f.Now.Add(time.Duration(rapid.IntRange(0, 100000).Draw(t, "seconds")) * time.Second)
		report := *f.Heartbeat
		report.At = f.Now.Add(-time.Second)

		f.ReceivedAt = f.Now
		f.Heartbeat = &report
		setLeader(ourIdentity, time.Hour)(&f)
		after := Evaluate(f)
		check.Must(t, conditions.Same(after, before), "%s became %s", before.Message, after.Message)
	})
}

// TestEvaluateDoesNotChangeTheObservation: the operator evaluates one observation for the policy and for each queue,
// so none of these calls may change it. Observations are random.
func TestEvaluateDoesNotChangeTheObservation(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		f := drawObservation(t)
		before := fmt.Sprintf("%+v %+v", f, f.Heartbeat)

		ofPolicy := Evaluate(f)
		EvaluateQueue("team", &ofPolicy, GroupByQueue(f.Bypasses))
		check.Equal(t, "observation", before, fmt.Sprintf("%+v %+v", f, f.Heartbeat))
	})
}
