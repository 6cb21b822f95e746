package enforcement

import (
	"testing"
	"time"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const (
	ourIdentity   = "cardquota-scheduler-7d9-x_6a1c"
	otherIdentity = "volcano-scheduler-5b-q_0f3e"
	wantedHash    = "0123456789abcdef0123"
	otherHash     = "fedcba98765432100123"
	stockPod      = "volcano-system/volcano-scheduler-5b-q"

	ourPod      = "volcano-system/cardquota-scheduler-7d9-x"
	ourOtherPod = "volcano-system/cardquota-scheduler-7d9-y"
)

// newObservation returns what the operator knows when all is in order, at noon: our scheduler has sent its heartbeat
// a second ago, with the wanted configuration, and its lead expires in 14 seconds.
func newObservation() Observation {
	return Observation{
		Now: noon, Namespace: "volcano-system", WantedHash: wantedHash,
		Heartbeat:  &Report{Identity: ourIdentity, Version: "v0.4.0", ConfigHash: wantedHash, At: noon.Add(-time.Second)},
		ReceivedAt: noon.Add(-time.Second),
		Leader:     &Leader{Identity: ourIdentity, Acquired: noon.Add(-time.Hour), Expires: noon.Add(14 * time.Second)},
	}
}

// change is what differs from newObservation.
type change func(*Observation)

// observe returns newObservation with changes.
func observe(changes ...change) Observation {
	observation := newObservation()
	for _, change := range changes {
		change(&observation)
	}
	return observation
}

func removeHeartbeat(observation *Observation)      { observation.Heartbeat = nil }
func receiveNever(observation *Observation)         { observation.ReceivedAt = time.Time{} }
func stopCleanly(observation *Observation)          { observation.Heartbeat.Ended = true }
func removeLeader(observation *Observation)         { observation.Leader = nil }
func writeNoConfiguration(observation *Observation) { observation.WantedHash = "" }

// setHeartbeatAge lets the last session and its arrival be that long ago.
func setHeartbeatAge(age time.Duration) change {
	return func(observation *Observation) {
		observation.Heartbeat.At = noon.Add(-age)
		observation.ReceivedAt = observation.Heartbeat.At
	}
}

func setReceivedAgo(ago time.Duration) change {
	return func(observation *Observation) { observation.ReceivedAt = noon.Add(-ago) }
}

func setClockAhead(by time.Duration) change {
	return func(observation *Observation) { observation.Heartbeat.At = noon.Add(by) }
}

// setLeader lets a program have the leader Lease since a while ago.
func setLeader(by string, ago time.Duration) change {
	return func(observation *Observation) {
		observation.Leader = &Leader{Identity: by, Acquired: noon.Add(-ago), Expires: noon.Add(10 * time.Second)}
	}
}

func setNotConfigured(why string) change {
	return func(observation *Observation) { observation.NotConfigured = why }
}

// loadConfiguration lets the scheduler have loaded another configuration than the wanted one.
func loadConfiguration(hash string) change {
	return func(observation *Observation) { observation.Heartbeat.ConfigHash = hash }
}

func setWrittenAgo(ago time.Duration) change {
	return func(observation *Observation) { observation.WantedSince = noon.Add(-ago) }
}

func addBoundByOthers(pods ...string) change {
	return func(observation *Observation) { observation.Heartbeat.SecondScheduler = pods }
}

func addBypasses(by ...Bypass) change {
	return func(observation *Observation) { observation.Bypasses = by }
}

func addOtherSchedulers(names ...string) change {
	return func(observation *Observation) {
		for _, name := range names {
			observation.OtherSchedulers = append(observation.OtherSchedulers, SchedulerPod{Name: name})
		}
	}
}

// setSchedulerPods sets other schedulers' pods and the templates that they were created of. Ours is of "template".
func setSchedulerPods(pods ...SchedulerPod) change {
	return func(observation *Observation) {
		observation.OtherSchedulers = pods
		observation.HeartbeatOwner = "template"
	}
}

func newBypass(pod, queue string, count card.Count) Bypass {
	return Bypass{Pod: pod, Queue: queue, Cards: []card.Amount{{Name: "NVIDIA-H200", Count: count}}, Reason: "schedulerName is default-scheduler"}
}

// TestEnforcedIsTrueOnlyIfProven: condition Enforced of the policy says whether quotas are proven to apply. The proof
// is the heartbeat, a Lease that our scheduler renews after each session with the hash of its configuration. It must
// be younger than 20 seconds (StaleAfter), by its own time and by its arrival. No other scheduler and no pod with
// cards that bypassed ours may be known. Reason StockScheduler is another scheduler in place of ours, SecondScheduler
// one beside ours. A leader counts as another scheduler if it sends no heartbeat for 20 seconds.
// wantNextCheck is the next time at which the answer can change without a new heartbeat. The leader's Lease expires
// in 14 seconds, with setLeader in 10. The heartbeat is a second old, and is stale 20 seconds after its time or
// arrival. A new configuration has 10 seconds to be loaded (configLoadTimeout).
func TestEnforcedIsTrueOnlyIfProven(t *testing.T) {
	const stale = 20 * time.Second

	for t, tc := range check.Cases(t, map[string]struct {
		changes       []change
		want          string // Status/Reason
		wantMessage   []string
		wantNextCheck time.Duration // 0 for never
	}{
		"everything in order": {
			want:          "True/Enforced",
			wantMessage:   []string{"the scheduler enforces the quotas"},
			wantNextCheck: 14 * time.Second,
		},

		"a pod of the stock scheduler, never a heartbeat": {
			changes:     []change{removeHeartbeat, addOtherSchedulers(stockPod), removeLeader},
			want:        "False/StockScheduler",
			wantMessage: []string{stockPod, "scale it to 0"},
		},
		"a pod of the stock scheduler, the heartbeat is stale": {
			changes:     []change{setHeartbeatAge(stale), addOtherSchedulers(stockPod), removeLeader},
			want:        "False/StockScheduler",
			wantMessage: []string{stockPod},
		},
		"another scheduler leads for a minute and sends no heartbeat": {
			changes:       []change{setHeartbeatAge(stale), setLeader(otherIdentity, time.Minute)},
			want:          "False/StockScheduler",
			wantMessage:   []string{otherIdentity, "since 2026-01-02T11:59:00Z", "put cardquota-scheduler in its place"},
			wantNextCheck: 10 * time.Second,
		},
		"another scheduler leads, there has never been a heartbeat": {
			changes:       []change{removeHeartbeat, receiveNever, setLeader(otherIdentity, stale)},
			want:          "False/StockScheduler",
			wantMessage:   []string{otherIdentity},
			wantNextCheck: 10 * time.Second,
		},
		"another leader was elected 19 seconds ago and sent no heartbeat: it may be ours for a second more": {
			changes:       []change{setHeartbeatAge(time.Minute), setLeader(otherIdentity, stale-time.Second)},
			want:          "False/NoHeartbeat",
			wantNextCheck: time.Second,
		},
		"the lead of another scheduler has expired": {
			changes: []change{setHeartbeatAge(time.Minute), func(observation *Observation) {
				observation.Leader = &Leader{Identity: otherIdentity, Acquired: noon.Add(-time.Hour), Expires: noon}
			}},
			want: "False/NoHeartbeat",
		},
		"our scheduler stopped cleanly a second ago: a replica has 20 seconds to take over": {
			changes:       []change{stopCleanly, removeLeader},
			want:          "True/Enforced",
			wantNextCheck: stale - time.Second,
		},
		"our scheduler stopped cleanly 20 seconds ago, no replica took over": {
			changes:     []change{setHeartbeatAge(stale), stopCleanly, removeLeader},
			want:        "False/NoHeartbeat",
			wantMessage: []string{ourIdentity + " stopped cleanly after its session of 2026-01-02T11:59:40Z, and none has taken over"},
		},
		"our scheduler stopped cleanly before the operator started: no time to take over": {
			changes:       []change{stopCleanly, receiveNever, removeLeader},
			want:          "False/NoHeartbeat",
			wantMessage:   []string{"stopped cleanly"},
			wantNextCheck: stale - time.Second,
		},
		"our scheduler stopped cleanly, and the stock scheduler came": {
			changes:       []change{stopCleanly, removeLeader, addOtherSchedulers(stockPod)},
			want:          "False/StockScheduler",
			wantMessage:   []string{stockPod},
			wantNextCheck: stale - time.Second,
		},
		"the stock scheduler, never a heartbeat, and an unwritten configuration: the first is the reason": {
			changes:       []change{removeHeartbeat, addOtherSchedulers(stockPod), setNotConfigured("key missing")},
			want:          "False/StockScheduler",
			wantNextCheck: 14 * time.Second,
		},

		"the configuration could not be written": {
			changes:       []change{setNotConfigured("ConfigMap x does not exist")},
			want:          "False/NotConfigured",
			wantMessage:   []string{"ConfigMap x does not exist"},
			wantNextCheck: 14 * time.Second,
		},
		"no configuration was written yet": {
			changes:       []change{writeNoConfiguration},
			want:          "False/NotConfigured",
			wantMessage:   []string{"no configuration was written yet"},
			wantNextCheck: 14 * time.Second,
		},
		"no configuration was written yet, and the scheduler has an empty hash": {
			changes:       []change{writeNoConfiguration, loadConfiguration("")},
			want:          "False/NotConfigured",
			wantNextCheck: 14 * time.Second,
		},
		"an unwritten configuration and a stale heartbeat: the former is the reason": {
			changes:       []change{setHeartbeatAge(time.Minute), setNotConfigured("refused")},
			want:          "False/NotConfigured",
			wantNextCheck: 14 * time.Second,
		},
		"a heartbeat, an unwritten configuration and a second scheduler: the configuration is the reason": {
			changes:       []change{addOtherSchedulers(stockPod), setNotConfigured("refused")},
			want:          "False/NotConfigured",
			wantNextCheck: 14 * time.Second,
		},

		"never a heartbeat": {
			changes: []change{removeHeartbeat, removeLeader},
			want:    "False/NoHeartbeat",
			wantMessage: []string{
				"no Cardquota scheduler has ever finished a session", "Lease cardquota-scheduler in namespace volcano-system", "/readyz",
			},
		},
		"the heartbeat cannot be read": {
			changes:       []change{removeHeartbeat, func(observation *Observation) { observation.Unreadable = "leases is forbidden" }},
			want:          "False/NoHeartbeat",
			wantMessage:   []string{"leases is forbidden"},
			wantNextCheck: 14 * time.Second,
		},
		"our scheduler leads, its heartbeat is a minute old": {
			changes:       []change{setHeartbeatAge(time.Minute)},
			want:          "False/NoHeartbeat",
			wantMessage:   []string{"since 2026-01-02T11:59:00Z", ourIdentity},
			wantNextCheck: 14 * time.Second,
		},
		"the heartbeat becomes stale in a microsecond": {
			changes:       []change{setHeartbeatAge(stale - time.Microsecond)},
			want:          "True/Enforced",
			wantNextCheck: time.Microsecond,
		},
		"the heartbeat is 20 seconds old": {
			changes:       []change{setHeartbeatAge(stale)},
			want:          "False/NoHeartbeat",
			wantNextCheck: 14 * time.Second,
		},
		"the heartbeat is older than the operator, so its arrival is not known: its time alone counts": {
			changes:       []change{receiveNever},
			want:          "True/Enforced",
			wantNextCheck: 14 * time.Second,
		},
		"the heartbeat is stale by its time, but arrived only 19 seconds ago": {
			changes:       []change{setHeartbeatAge(stale), setReceivedAgo(stale - time.Second)},
			want:          "False/NoHeartbeat",
			wantMessage:   []string{"has finished a session since 2026-01-02T11:59:40Z"},
			wantNextCheck: time.Second,
		},
		"a stale heartbeat and a second scheduler: the former is the reason": {
			changes:       []change{setHeartbeatAge(stale), addBoundByOthers("lab/a")},
			want:          "False/NoHeartbeat",
			wantNextCheck: 14 * time.Second,
		},

		"the scheduler's clock is 15 seconds ahead": {
			changes:       []change{setClockAhead(15 * time.Second)},
			want:          "True/Enforced",
			wantNextCheck: 14 * time.Second,
		},
		"the scheduler's clock is 15 seconds ahead, the last heartbeat arrived 20 seconds ago": {
			changes:       []change{setClockAhead(15 * time.Second), setReceivedAgo(stale), removeLeader},
			want:          "False/NoHeartbeat",
			wantNextCheck: 35 * time.Second,
		},
		"the scheduler's clock is an hour ahead": {
			changes:       []change{setClockAhead(time.Hour), removeLeader},
			want:          "False/NoHeartbeat",
			wantMessage:   []string{"has a time that is 20s or more in the future", "correct the clocks"},
			wantNextCheck: 19 * time.Second,
		},
		"the scheduler's clock is an hour behind": {
			changes:       []change{setClockAhead(-time.Hour), removeLeader},
			want:          "False/NoHeartbeat",
			wantMessage:   []string{"their time is 20s or more in the past", "correct the clocks"},
			wantNextCheck: 19 * time.Second,
		},

		"the stock scheduler beside ours": {
			changes:       []change{addOtherSchedulers(stockPod)},
			want:          "False/SecondScheduler",
			wantMessage:   []string{stockPod, ourIdentity},
			wantNextCheck: 14 * time.Second,
		},
		"our own pod has the label of the stock scheduler": {
			changes:       []change{addOtherSchedulers(ourPod)},
			want:          "True/Enforced",
			wantNextCheck: 14 * time.Second,
		},
		"our pod and a replica of the same template have the label of the stock scheduler": {
			changes:       []change{setSchedulerPods(SchedulerPod{ourPod, "template"}, SchedulerPod{ourOtherPod, "template"})},
			want:          "True/Enforced",
			wantNextCheck: 14 * time.Second,
		},
		"only a replica of our template is left, with the label of the stock scheduler": {
			changes:       []change{setSchedulerPods(SchedulerPod{ourOtherPod, "template"})},
			want:          "True/Enforced",
			wantNextCheck: 14 * time.Second,
		},
		"a pod with the label of the stock scheduler, of another template than ours": {
			changes:       []change{setSchedulerPods(SchedulerPod{stockPod, "theirs"})},
			want:          "False/SecondScheduler",
			wantMessage:   []string{stockPod},
			wantNextCheck: 14 * time.Second,
		},
		"a pod of the stock scheduler whose name is the beginning of ours": {
			changes:       []change{addOtherSchedulers("volcano-system/cardquota")},
			want:          "False/SecondScheduler",
			wantNextCheck: 14 * time.Second,
		},
		"another scheduler binds pods that name ours": {
			changes:       []change{addBoundByOthers("lab/a", "lab/b")},
			want:          "False/SecondScheduler",
			wantMessage:   []string{"pods lab/a, lab/b", "stop it"},
			wantNextCheck: 14 * time.Second,
		},
		"the heartbeat lists a pod that was created with its node: no second scheduler bound it": {
			changes:       []change{addBoundByOthers("lab/a"), addBypasses(newBypass("lab/a", "team", 2))},
			want:          "False/CardBypass",
			wantNextCheck: 14 * time.Second,
		},
		"a second scheduler and another configuration: the former is the reason": {
			changes:       []change{addOtherSchedulers(stockPod), loadConfiguration(otherHash)},
			want:          "False/SecondScheduler",
			wantNextCheck: 14 * time.Second,
		},

		"the configuration was written a second ago": {
			changes:       []change{loadConfiguration(otherHash), setWrittenAgo(time.Second)},
			want:          "False/ConfigNotLoaded",
			wantMessage:   []string{"fedcba987654", "0123456789ab", "is being loaded"},
			wantNextCheck: 9 * time.Second,
		},
		"the configuration was written 10 seconds ago and is not loaded": {
			changes:       []change{loadConfiguration(otherHash), setWrittenAgo(configLoadTimeout)},
			want:          "False/ConfigNotLoaded",
			wantMessage:   []string{"has not loaded", "--scheduler-configmap"},
			wantNextCheck: 14 * time.Second,
		},
		"the configuration was written before the operator started and is not loaded": {
			changes:       []change{loadConfiguration(otherHash)},
			want:          "False/ConfigNotLoaded",
			wantMessage:   []string{"has not loaded"},
			wantNextCheck: 14 * time.Second,
		},
		"the scheduler refuses the configuration": {
			changes: []change{
				loadConfiguration(otherHash), setWrittenAgo(0),
				func(observation *Observation) { observation.Heartbeat.ConfigProblem = "unknown action fly" },
			},
			want:          "False/ConfigNotLoaded",
			wantMessage:   []string{"refuses: unknown action fly"},
			wantNextCheck: 10 * time.Second,
		},
		"the scheduler has no configuration": {
			changes:       []change{loadConfiguration("")},
			want:          "False/ConfigNotLoaded",
			wantMessage:   []string{"configuration none"},
			wantNextCheck: 14 * time.Second,
		},
		"another configuration and a bypass: the former is the reason": {
			changes:       []change{loadConfiguration(otherHash), addBypasses(newBypass("lab/a", "team", 2))},
			want:          "False/ConfigNotLoaded",
			wantNextCheck: 14 * time.Second,
		},

		"one pod bypassed our scheduler": {
			changes:       []change{addBypasses(newBypass("lab/a", "team", 2))},
			want:          "False/CardBypass",
			wantMessage:   []string{"1 pod holds 2 NVIDIA-H200", "create again", "lab/a (2 NVIDIA-H200: schedulerName is default-scheduler)"},
			wantNextCheck: 14 * time.Second,
		},
		"five pods bypassed our scheduler: three are named": {
			changes: []change{addBypasses(
				newBypass("lab/a", "team", 2), newBypass("lab/b", "", 1), newBypass("lab/c", "x", 8),
				newBypass("lab/d", "x", 1), newBypass("lab/e", "x", 1),
			)},
			want:          "False/CardBypass",
			wantMessage:   []string{"5 pods hold 13 NVIDIA-H200", "lab/c (8", "and 2 more"},
			wantNextCheck: 14 * time.Second,
		},
	}) {
		observation := observe(tc.changes...)
		got := Evaluate(observation)
		check.Equal(t, "condition of "+got.Message, tc.want, string(got.Status)+"/"+got.Reason)
		check.Contains(t, "message", got.Message, tc.wantMessage...)

		var wantNextCheck time.Time
		if tc.wantNextCheck > 0 {
			wantNextCheck = noon.Add(tc.wantNextCheck)
		}
		check.Equal(t, "next check", wantNextCheck, observation.NextCheck().Round(time.Microsecond))
	}
}

// TestBypassCountsAgainstItsQueueOnly: pod lab/a of queue team, with 2 cards, and lab/b without a queue bypassed our
// scheduler. The heartbeat also lists both pods as bound by a second scheduler. Enforced of the policy is False
// because of them. Enforced of a CardQuota is False only because of pods in its own queue, and its message does not
// name lab/b. That condition is right even if a bypass began or ended after the policy was evaluated.
func TestBypassCountsAgainstItsQueueOnly(t *testing.T) {
	observation := newObservation()
	observation.Bypasses = []Bypass{newBypass("lab/a", "team", 2), newBypass("lab/b", "", 1)}
	observation.Heartbeat.SecondScheduler = []string{"lab/a", "lab/b"}

	ofPolicy := Evaluate(observation)
	check.Contains(t, "message of the policy", ofPolicy.Message, "2 pods hold 3 NVIDIA-H200")
	check.Equal(t, "bypasses and pods bound by others in the observation itself", [2]int{2, 2},
		[2]int{len(observation.Bypasses), len(observation.Heartbeat.SecondScheduler)})

	found := GroupByQueue(observation.Bypasses)
	for queue, want := range map[string]string{"team": "False/CardBypass", "other": "True/Enforced"} {
		got := EvaluateQueue(queue, &ofPolicy, found)
		check.Equal(t, "condition of queue "+queue, want, string(got.Status)+"/"+got.Reason)
		check.Text(t, "message of queue "+queue, got.Message).Lacks("lab/b")
	}

	withoutBypass := Evaluate(newObservation())
	check.Equal(t, "reason, the pod was found after the policy was evaluated", "CardBypass", EvaluateQueue("team", &withoutBypass, found).Reason)
	check.Equal(t, "reason, the pod was deleted after the policy was evaluated", "Enforced", EvaluateQueue("team", &ofPolicy, nil).Reason)
}

// TestOtherReasonsCountAgainstAllQueues: only a bypass counts against its own queue alone. Pod lab/c, which another
// scheduler has bound, proves that a second scheduler runs. That counts against every queue, also against queue
// other, which has neither this pod nor a bypass. Without a policy the condition of every queue is Unknown.
func TestOtherReasonsCountAgainstAllQueues(t *testing.T) {
	ofPolicy := Evaluate(observe(addBoundByOthers("lab/c")))
	got := EvaluateQueue("other", &ofPolicy, nil)
	check.Equal(t, "reason", "SecondScheduler", got.Reason)
	check.Contains(t, "message", got.Message, "lab/c")

	withoutPolicy := EvaluateQueue("team", nil, nil)
	check.Equal(t, "condition without a policy", "Unknown/NoPolicy", string(withoutPolicy.Status)+"/"+withoutPolicy.Reason)
	check.Contains(t, "message without a policy", withoutPolicy.Message, "create one named default")
}
