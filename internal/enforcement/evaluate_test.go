package enforcement

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const (
	ours   = "cardquota-scheduler-7d9-x_6a1c"
	theirs = "volcano-scheduler-5b-q_0f3e"
	wanted = "0123456789abcdef0123"
	other  = "fedcba98765432100123"
	stock  = "volcano-system/volcano-scheduler-5b-q"

	ourPod      = "volcano-system/cardquota-scheduler-7d9-x"
	ourOtherPod = "volcano-system/cardquota-scheduler-7d9-y"
)

// working are the facts of a cluster in which everything is in order: the last
// session was closed a second ago.
func working() Observation {
	return Observation{
		Now: noon, Namespace: "volcano-system", WantedHash: wanted,
		Heartbeat:  &Report{Identity: ours, Version: "v0.4.0", ConfigHash: wanted, At: noon.Add(-time.Second)},
		ReceivedAt: noon.Add(-time.Second),
		Leader:     &Leader{Identity: ours, Acquired: noon.Add(-time.Hour), Expires: noon.Add(14 * time.Second)},
	}
}

// change is what differs from a cluster in which everything is in order.
type change func(*Observation)

// observed are the facts of a working cluster after changes.
func observed(changes ...change) Observation {
	f := working()
	for _, change := range changes {
		change(&f)
	}
	return f
}

func noHeartbeat(f *Observation)   { f.Heartbeat = nil }
func neverReceived(f *Observation) { f.ReceivedAt = time.Time{} }
func ended(f *Observation)         { f.Heartbeat.Ended = true }
func noLeader(f *Observation)      { f.Leader = nil }
func noneWanted(f *Observation)    { f.WantedHash = "" }

// silent lets the last session and its arrival be that long ago.
func silent(age time.Duration) change {
	return func(f *Observation) {
		f.Heartbeat.At = noon.Add(-age)
		f.ReceivedAt = f.Heartbeat.At
	}
}

func clockAhead(by time.Duration) change {
	return func(f *Observation) { f.Heartbeat.At = noon.Add(by) }
}

// led lets a program hold the leader Lease since a while ago.
func led(by string, ago time.Duration) change {
	return func(f *Observation) {
		f.Leader = &Leader{Identity: by, Acquired: noon.Add(-ago), Expires: noon.Add(10 * time.Second)}
	}
}

func notConfigured(why string) change { return func(f *Observation) { f.NotConfigured = why } }

// loaded lets the scheduler have loaded another configuration than the wanted one.
func loaded(hash string) change { return func(f *Observation) { f.Heartbeat.ConfigHash = hash } }

func written(ago time.Duration) change {
	return func(f *Observation) { f.WantedSince = noon.Add(-ago) }
}

func boundByOthers(pods ...string) change {
	return func(f *Observation) { f.Heartbeat.SecondScheduler = pods }
}

func bypassed(by ...Bypass) change { return func(f *Observation) { f.Bypasses = by } }

func otherPods(names ...string) change {
	return func(f *Observation) {
		for _, name := range names {
			f.OtherSchedulers = append(f.OtherSchedulers, SchedulerPod{Name: name})
		}
	}
}

// templates are other schedulers' pods and the templates that they were created of. Ours is of "template".
func templates(pods ...SchedulerPod) change {
	return func(f *Observation) {
		f.OtherSchedulers = pods
		f.HeartbeatOwner = "template"
	}
}

func bypass(pod, queue string, count card.Count) Bypass {
	return Bypass{Pod: pod, Queue: queue, Cards: []card.Amount{{Name: "NVIDIA-H200", Count: count}}, Reason: "schedulerName is default-scheduler"}
}

func TestEvaluate(t *testing.T) {
	stale := StaleAfter
	cases := map[string]struct {
		changes []change
		// want is Status/Reason, says what the message must hold, and again how
		// long until the next look, 0 for never.
		want  string
		says  []string
		again time.Duration
	}{
		"everything in order": {nil, "True/Enforced", []string{"the scheduler enforces the quotas"}, 14 * time.Second},

		"stock scheduler's pod, never a heartbeat": {[]change{noHeartbeat, otherPods(stock), noLeader},
			"False/StockScheduler", []string{stock, "scale it to 0"}, 0},
		"stock scheduler's pod, heartbeat stale": {[]change{silent(stale), otherPods(stock), noLeader},
			"False/StockScheduler", []string{stock}, 0},
		"a scheduler leads for long and gives no heartbeat": {[]change{silent(stale), led(theirs, time.Minute)},
			"False/StockScheduler", []string{theirs, "since 2026-01-02T11:59:00Z", "put cardquota-scheduler in its place"}, 10 * time.Second},
		"a scheduler leads and there has never been a heartbeat": {[]change{noHeartbeat, neverReceived, led(theirs, stale)},
			"False/StockScheduler", []string{theirs}, 10 * time.Second},
		"a scheduler was elected a moment ago: it may be ours": {[]change{silent(time.Minute), led(theirs, stale-time.Second)},
			"False/NoHeartbeat", nil, time.Second},
		"a lead that has run out": {[]change{silent(time.Minute), func(f *Observation) {
			f.Leader = &Leader{Identity: theirs, Acquired: noon.Add(-time.Hour), Expires: noon}
		}}, "False/NoHeartbeat", nil, 0},
		"ended in order, and a replica may follow": {[]change{ended, noLeader}, "True/Enforced", nil, stale - time.Second},
		"ended in order, without a successor": {[]change{silent(stale), ended, noLeader},
			"False/NoHeartbeat", []string{ours + " stopped cleanly after its session of 2026-01-02T11:59:40Z, and none has taken over"}, 0},
		"ended in order before the operator looked": {[]change{ended, neverReceived, noLeader},
			"False/NoHeartbeat", []string{"stopped cleanly"}, stale - time.Second},
		"ended in order, and the stock scheduler came": {[]change{ended, noLeader, otherPods(stock)},
			"False/StockScheduler", []string{stock}, stale - time.Second},
		"stock goes before the configuration": {[]change{noHeartbeat, otherPods(stock), notConfigured("key missing")},
			"False/StockScheduler", nil, 14 * time.Second},

		"configuration not written": {[]change{notConfigured("ConfigMap x does not exist")},
			"False/NotConfigured", []string{"ConfigMap x does not exist"}, 14 * time.Second},
		"nothing written yet":                          {[]change{noneWanted}, "False/NotConfigured", []string{"no configuration was written yet"}, 14 * time.Second},
		"an empty hash is never the wanted one":        {[]change{noneWanted, loaded("")}, "False/NotConfigured", nil, 14 * time.Second},
		"configuration goes before the heartbeat":      {[]change{silent(time.Minute), notConfigured("refused")}, "False/NotConfigured", nil, 14 * time.Second},
		"configuration goes before a second scheduler": {[]change{otherPods(stock), notConfigured("refused")}, "False/NotConfigured", nil, 14 * time.Second},

		"never a heartbeat": {[]change{noHeartbeat, noLeader},
			"False/NoHeartbeat", []string{"ever", "Lease cardquota-scheduler in namespace volcano-system", "/readyz"}, 0},
		"heartbeat that cannot be read": {[]change{noHeartbeat, func(f *Observation) { f.Unreadable = "leases is forbidden" }}, "False/NoHeartbeat", []string{"leases is forbidden"}, 14 * time.Second},
		"heartbeat of an old scheduler that leads": {[]change{silent(time.Minute)},
			"False/NoHeartbeat", []string{"since 2026-01-02T11:59:00Z", ours}, 14 * time.Second},
		"just fresh":    {[]change{silent(stale - time.Microsecond)}, "True/Enforced", nil, time.Microsecond},
		"stale at 20 s": {[]change{silent(stale)}, "False/NoHeartbeat", nil, 14 * time.Second},
		"heartbeat that was there before the operator": {[]change{neverReceived}, "True/Enforced", nil, 14 * time.Second},
		"silent, and the last report took a moment to arrive": {[]change{silent(stale), func(f *Observation) { f.ReceivedAt = f.ReceivedAt.Add(time.Second) }},
			"False/NoHeartbeat", []string{"has finished a session since 2026-01-02T11:59:40Z"}, time.Second},
		"heartbeat goes before a second scheduler": {[]change{silent(stale), boundByOthers("lab/a")}, "False/NoHeartbeat", nil, 14 * time.Second},

		"the scheduler's clock is a little ahead": {[]change{clockAhead(15 * time.Second)}, "True/Enforced", nil, 14 * time.Second},
		"a clock ahead does not prolong the proof": {[]change{clockAhead(15 * time.Second), func(f *Observation) { f.ReceivedAt = noon.Add(-stale) }, noLeader},
			"False/NoHeartbeat", nil, 35 * time.Second},
		"the scheduler's clock is an hour ahead": {[]change{clockAhead(time.Hour), noLeader},
			"False/NoHeartbeat", []string{"future", "clocks"}, 19 * time.Second},
		"the scheduler's clock is an hour behind": {[]change{clockAhead(-time.Hour), noLeader},
			"False/NoHeartbeat", []string{"past", "clocks"}, 19 * time.Second},

		"stock scheduler beside ours, neither of a template":           {[]change{otherPods(stock)}, "False/SecondScheduler", []string{stock, ours}, 14 * time.Second},
		"our own pod with the stock scheduler's label":                 {[]change{otherPods(ourPod)}, "True/Enforced", nil, 14 * time.Second},
		"an equal of the pod that gives the heartbeat":                 {[]change{templates(SchedulerPod{ourPod, "template"}, SchedulerPod{ourOtherPod, "template"})}, "True/Enforced", nil, 14 * time.Second},
		"an equal that is left when the pod of the heartbeat has gone": {[]change{templates(SchedulerPod{ourOtherPod, "template"})}, "True/Enforced", nil, 14 * time.Second},
		"a pod of another template": {[]change{templates(SchedulerPod{stock, "theirs"})},
			"False/SecondScheduler", []string{stock}, 14 * time.Second},
		"a pod whose name ours begins with": {[]change{otherPods("volcano-system/cardquota")}, "False/SecondScheduler", nil, 14 * time.Second},
		"another scheduler binds pods of our name": {[]change{boundByOthers("lab/a", "lab/b")},
			"False/SecondScheduler", []string{"pods lab/a, lab/b", "stop it"}, 14 * time.Second},
		"a pod that brought its node name needs no second scheduler": {[]change{boundByOthers("lab/a"), bypassed(bypass("lab/a", "team", 2))}, "False/CardBypass", nil, 14 * time.Second},
		"second scheduler goes before the hash":                      {[]change{otherPods(stock), loaded(other)}, "False/SecondScheduler", nil, 14 * time.Second},

		"just written": {[]change{loaded(other), written(time.Second)},
			"False/ConfigNotLoaded", []string{"fedcba987654", "0123456789ab", "is being loaded"}, 9 * time.Second},
		"written long ago and not loaded": {[]change{loaded(other), written(configLoadTimeout)},
			"False/ConfigNotLoaded", []string{"has not loaded", "--scheduler-configmap"}, 14 * time.Second},
		"not loaded since before the operator": {[]change{loaded(other)}, "False/ConfigNotLoaded", []string{"has not loaded"}, 14 * time.Second},
		"refused by the scheduler":             {[]change{loaded(other), func(f *Observation) { f.Heartbeat.ConfigProblem = "unknown action fly" }, written(0)}, "False/ConfigNotLoaded", []string{"refuses: unknown action fly"}, 10 * time.Second},
		"no configuration at all":              {[]change{loaded("")}, "False/ConfigNotLoaded", []string{"configuration none"}, 14 * time.Second},
		"hash goes before bypass":              {[]change{loaded(other), bypassed(bypass("lab/a", "team", 2))}, "False/ConfigNotLoaded", nil, 14 * time.Second},

		"one pod past us": {[]change{bypassed(bypass("lab/a", "team", 2))}, "False/CardBypass",
			[]string{"1 pod holds 2 NVIDIA-H200", "create again", "lab/a (2 NVIDIA-H200: schedulerName is default-scheduler)"}, 14 * time.Second},
		"many pods past us": {[]change{bypassed(bypass("lab/a", "team", 2), bypass("lab/b", "", 1), bypass("lab/c", "x", 8), bypass("lab/d", "x", 1), bypass("lab/e", "x", 1))}, "False/CardBypass", []string{"5 pods hold 13 NVIDIA-H200", "lab/c (8", "and 2 more"}, 14 * time.Second},
	}

	for t, tc := range check.Cases(t, cases) {
		f := observed(tc.changes...)
		got := Evaluate(f)
		check.Equal(t, "condition of "+got.Message, tc.want, string(got.Status)+"/"+got.Reason)
		check.Contains(t, "message", got.Message, tc.says...)

		var again time.Duration
		if until := f.NextCheck(); !until.IsZero() {
			again = until.Sub(noon)
		}
		check.Equal(t, "next look", tc.again, again.Round(time.Microsecond))
	}
}

// TestEvaluateQueue: pods of one queue are not held against the others, not even
// through the scheduler's list of pods that others bound.
func TestEvaluateQueue(t *testing.T) {
	f := working()
	f.Bypasses = []Bypass{bypass("lab/a", "team", 2), bypass("lab/b", "", 1)}
	f.Heartbeat.SecondScheduler = []string{"lab/a", "lab/b"}

	all := Evaluate(f)
	check.That(t, strings.Contains(all.Message, "2 pods hold 3 NVIDIA-H200"), "for all queues together: %s", all.Message)
	check.That(t, len(f.Bypasses) == 2 && len(f.Heartbeat.SecondScheduler) == 2, "the facts themselves were changed")
	for queue, want := range map[string]string{"team": "False/CardBypass", "other": "True/Enforced"} {
		got := EvaluateQueue(queue, &all, GroupByQueue(f.Bypasses))
		check.That(t, string(got.Status)+"/"+got.Reason == want && !strings.Contains(got.Message, "lab/b"),
			"queue %s: %s/%s: %s, want %s", queue, got.Status, got.Reason, got.Message, want)
	}

	fine := Evaluate(working())
	check.Equal(t, "of a pod that was found a moment ago", "CardBypass", EvaluateQueue("team", &fine, GroupByQueue(f.Bypasses)).Reason)
	check.Equal(t, "of a pod that went a moment ago", "Enforced", EvaluateQueue("team", &all, nil).Reason)
	check.Equal(t, "queues whose pods are others", []string{"team"}, ChangedQueues(GroupByQueue(f.Bypasses), nil))
	check.Equal(t, "queues whose pods stay", 0, len(ChangedQueues(GroupByQueue(f.Bypasses), GroupByQueue(f.Bypasses))))

	f.Heartbeat.SecondScheduler = []string{"lab/c"}
	all = Evaluate(f)
	got := EvaluateQueue("other", &all, GroupByQueue(f.Bypasses))
	check.That(t, got.Reason == "SecondScheduler" && strings.Contains(got.Message, "lab/c"),
		"a pod that another scheduler bound: %s/%s: %s", got.Status, got.Reason, got.Message)

	none := EvaluateQueue("team", nil, GroupByQueue(f.Bypasses))
	check.That(t, none.Status == metav1.ConditionUnknown && none.Reason == "NoPolicy" && strings.Contains(none.Message, "create one named default"),
		"without a policy: %s/%s: %s", none.Status, none.Reason, none.Message)
}
