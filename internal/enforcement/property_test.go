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

	observation := Observation{Now: noon, Namespace: "volcano-system", WantedHash: wantedHash}
	if !fine("written") {
		observation.WantedHash = rapid.SampledFrom([]string{"", otherHash}).Draw(t, "hash")
		observation.WantedSince = noon.Add(-age("since"))
	}

	if !fine("configured") {
		observation.NotConfigured = rapid.StringN(1, 2000, -1).Draw(t, "why")
	}

	if fine("reported") {
		observation.Heartbeat = &Report{Identity: ourIdentity, Version: "v1", ConfigHash: wantedHash, At: noon.Add(-age("at"))}
		if fine("received") {
			observation.ReceivedAt = noon.Add(-age("arrived").Abs())
		}

		observation.Heartbeat.Ended = !fine("works")
		if !fine("alone") {
			observation.Heartbeat.SecondScheduler = names("second")
		}
		if !fine("loads") {
			observation.Heartbeat.ConfigProblem = rapid.StringN(0, 1000, -1).Draw(t, "problem")
		}
	}

	if fine("led") {
		observation.Leader = &Leader{
			Identity: rapid.SampledFrom([]string{ourIdentity, otherIdentity}).Draw(t, "leader"),
			Acquired: noon.Add(-age("led since").Abs()),
			Expires:  noon.Add(age("led until")),
		}
	}
	if !fine("no other scheduler") {
		addOtherSchedulers(names("others")...)(&observation)
	}

	if !fine("no bypass") {
		for _, pod := range names("bypass") {
			observation.Bypasses = append(observation.Bypasses, newBypass(pod, "team", card.Count(rapid.Int64Range(1, 1000).Draw(t, "cards"))))
		}
	}

	return observation
}

// isProven states condition Enforced in one sentence.
func isProven(observation Observation) bool {
	return observation.NotConfigured == "" && observation.WantedHash != "" &&
		len(observation.OtherSchedulers) == 0 && len(observation.Bypasses) == 0 && observation.Heartbeat != nil && isProvenByHeartbeat(observation)
}

// isProvenByHeartbeat states what the last heartbeat must have, and when.
func isProvenByHeartbeat(observation Observation) bool {
	isFresh := noon.Sub(observation.Heartbeat.At).Abs() < StaleAfter
	isReceivedLately := observation.ReceivedAt.IsZero() || noon.Sub(observation.ReceivedAt) < StaleAfter
	// A replica may take over from one that stopped, if the operator received that one's last heartbeat.
	mayBeTakenOver := !observation.Heartbeat.Ended || !observation.ReceivedAt.IsZero()

	return len(observation.Heartbeat.SecondScheduler) == 0 && observation.Heartbeat.ConfigHash == observation.WantedHash &&
		isFresh && isReceivedLately && mayBeTakenOver
}

// TestTrueNeedsEveryProof: for a random observation, condition Enforced is True exactly if everything is proven.
// isProven states that once more, as one condition. The message is never empty, and fits a condition. The next check
// is later than now, if there is one.
func TestTrueNeedsEveryProof(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		observation := drawObservation(t)
		got := Evaluate(observation)
		check.Equal(t, fmt.Sprintf("proven, with %s/%s: %s", got.Status, got.Reason, got.Message), isProven(observation),
			got.Status == metav1.ConditionTrue)
		check.Must(t, got.Message != "" && len(got.Message) <= conditions.MaxMessageLength && utf8.ValidString(got.Message),
			"message of %d bytes: %q", len(got.Message), got.Message)
		check.Must(t, observation.NextCheck().IsZero() || observation.NextCheck().After(observation.Now),
			"the next check is at %s, now is %s", observation.NextCheck(), observation.Now)
	})
}

// TestNextCheckIsTheNextChange: the operator evaluates again at NextCheck, or with a new heartbeat. So before that
// moment the condition must not change by time alone. The observation is random, and so is the later moment, which is
// before NextCheck if there is one.
func TestNextCheckIsTheNextChange(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		observation := drawObservation(t)
		now := Evaluate(observation)
		later := observation

		ahead := time.Duration(rapid.Int64Range(1, int64(2*time.Hour)).Draw(t, "ahead"))
		later.Now = observation.Now.Add(ahead)
		if until := observation.NextCheck(); !until.IsZero() && !later.Now.Before(until) {
			later.Now = until.Add(-1)
		}

		then := Evaluate(later)
		check.Must(t, conditions.Same(then, now), "%s/%s: %s\nbecame, before %s, at %s\n%s/%s: %s",
			now.Status, now.Reason, now.Message, observation.NextCheck(), later.Now, then.Status, then.Reason, then.Message)
	})
}

// TestRenewedHeartbeatsChangeNoCondition: the scheduler renews its heartbeat after each session. If that changed the
// message, each renewal would be a write of the status of every CardQuota. Bypasses and the time between are random.
func TestRenewedHeartbeatsChangeNoCondition(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		observation := newObservation()
		observation.Bypasses = drawObservation(t).Bypasses
		before := Evaluate(observation)
		observation.Now = observation.Now.Add(time.Duration(rapid.IntRange(0, 100000).Draw(t, "seconds")) * time.Second)
		report := *observation.Heartbeat
		report.At = observation.Now.Add(-time.Second)

		observation.ReceivedAt = observation.Now
		observation.Heartbeat = &report
		setLeader(ourIdentity, time.Hour)(&observation)
		after := Evaluate(observation)
		check.Must(t, conditions.Same(after, before), "%s became %s", before.Message, after.Message)
	})
}

// TestEvaluateDoesNotChangeTheObservation: the operator evaluates one observation for the policy and for each queue,
// so none of these calls may change it. Observations are random.
func TestEvaluateDoesNotChangeTheObservation(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		observation := drawObservation(t)
		before := fmt.Sprintf("%+v %+v", observation, observation.Heartbeat)

		ofPolicy := Evaluate(observation)
		EvaluateQueue("team", &ofPolicy, GroupByQueue(observation.Bypasses))
		check.Equal(t, "observation", before, fmt.Sprintf("%+v %+v", observation, observation.Heartbeat))
	})
}
