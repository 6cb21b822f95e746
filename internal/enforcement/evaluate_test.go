package enforcement

import (
	"fmt"
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

// silentFor lets the last session and its arrival be that long ago.
func silentFor(f *Observation, age time.Duration) {
	f.Heartbeat.At = noon.Add(-age)
	f.ReceivedAt = noon.Add(-age)
}

// led returns a leader that has held the Lease for a while.
func led(by string, ago time.Duration) *Leader {
	return &Leader{Identity: by, Acquired: noon.Add(-ago), Expires: noon.Add(10 * time.Second)}
}

func bypass(pod, queue string, count card.Count) Bypass {
	return Bypass{Pod: pod, Queue: queue, Cards: []card.Amount{{Name: "NVIDIA-H200", Count: count}}, Reason: "schedulerName is default-scheduler"}
}

func foreign(names ...string) []SchedulerPod {
	pods := make([]SchedulerPod, len(names))
	for i, name := range names {
		pods[i].Name = name
	}
	return pods
}

func TestEvaluate(t *testing.T) {
	stale := StaleAfter
	cases := []struct {
		name   string
		change func(*Observation)
		// want is Status/Reason, says what the message must hold, and again how
		// long until the next look, 0 for never.
		want  string
		says  []string
		again time.Duration
	}{
		{"everything in order", func(*Observation) {}, "True/Enforced", []string{"the scheduler enforces the quotas"}, 14 * time.Second},

		{"stock scheduler's pod, never a heartbeat", func(f *Observation) {
			f.Heartbeat = nil
			f.OtherSchedulers = foreign(stock)
			f.Leader = nil
		},
			"False/StockScheduler", []string{stock, "scale it to 0"}, 0},
		{"stock scheduler's pod, heartbeat stale", func(f *Observation) {
			silentFor(f, stale)
			f.OtherSchedulers = foreign(stock)
			f.Leader = nil
		},
			"False/StockScheduler", []string{stock}, 0},
		{"a scheduler leads for long and gives no heartbeat", func(f *Observation) { silentFor(f, stale); f.Leader = led(theirs, time.Minute) },
			"False/StockScheduler", []string{theirs, "since 2026-01-02T11:59:00Z", "put cardquota-scheduler in its place"}, 10 * time.Second},
		{"a scheduler leads and there has never been a heartbeat", func(f *Observation) {
			f.Heartbeat = nil
			f.ReceivedAt = time.Time{}
			f.Leader = led(theirs, stale)
		},
			"False/StockScheduler", []string{theirs}, 10 * time.Second},
		{"a scheduler was elected a moment ago: it may be ours", func(f *Observation) { silentFor(f, time.Minute); f.Leader = led(theirs, stale-time.Second) },
			"False/NoHeartbeat", nil, time.Second},
		{"a lead that has run out", func(f *Observation) {
			silentFor(f, time.Minute)
			f.Leader = &Leader{Identity: theirs, Acquired: noon.Add(-time.Hour), Expires: noon}
		}, "False/NoHeartbeat", nil, 0},
		{"ended in order, and a replica may follow", func(f *Observation) {
			f.Heartbeat.Ended = true
			f.Leader = nil
		}, "True/Enforced", nil, stale - time.Second},
		{"ended in order, without a successor", func(f *Observation) {
			silentFor(f, stale)
			f.Heartbeat.Ended = true
			f.Leader = nil
		},
			"False/NoHeartbeat", []string{ours + " stopped cleanly after its session of 2026-01-02T11:59:40Z, and none has taken over"}, 0},
		{"ended in order before the operator looked", func(f *Observation) {
			f.Heartbeat.Ended = true
			f.ReceivedAt = time.Time{}
			f.Leader = nil
		},
			"False/NoHeartbeat", []string{"stopped cleanly"}, stale - time.Second},
		{"ended in order, and the stock scheduler came", func(f *Observation) {
			f.Heartbeat.Ended = true
			f.Leader = nil
			f.OtherSchedulers = foreign(stock)
		},
			"False/StockScheduler", []string{stock}, stale - time.Second},
		{"stock goes before the configuration", func(f *Observation) {
			f.Heartbeat = nil
			f.OtherSchedulers = foreign(stock)
			f.NotConfigured = "key missing"
		},
			"False/StockScheduler", nil, 14 * time.Second},

		{"configuration not written", func(f *Observation) { f.NotConfigured = "ConfigMap x does not exist" },
			"False/NotConfigured", []string{"ConfigMap x does not exist"}, 14 * time.Second},
		{"nothing written yet", func(f *Observation) { f.WantedHash = "" }, "False/NotConfigured", []string{"no configuration was written yet"}, 14 * time.Second},
		{"an empty hash is never the wanted one", func(f *Observation) {
			f.WantedHash = ""
			f.Heartbeat.ConfigHash = ""
		}, "False/NotConfigured", nil, 14 * time.Second},
		{"configuration goes before the heartbeat", func(f *Observation) { silentFor(f, time.Minute); f.NotConfigured = "refused" }, "False/NotConfigured", nil, 14 * time.Second},
		{"configuration goes before a second scheduler", func(f *Observation) {
			f.OtherSchedulers = foreign(stock)
			f.NotConfigured = "refused"
		}, "False/NotConfigured", nil, 14 * time.Second},

		{"never a heartbeat", func(f *Observation) {
			f.Heartbeat = nil
			f.Leader = nil
		},
			"False/NoHeartbeat", []string{"ever", "Lease cardquota-scheduler in namespace volcano-system", "/readyz"}, 0},
		{"heartbeat that cannot be read", func(f *Observation) {
			f.Heartbeat = nil
			f.Unreadable = "leases is forbidden"
		}, "False/NoHeartbeat", []string{"leases is forbidden"}, 14 * time.Second},
		{"heartbeat of an old scheduler that leads", func(f *Observation) { silentFor(f, time.Minute) },
			"False/NoHeartbeat", []string{"since 2026-01-02T11:59:00Z", ours}, 14 * time.Second},
		{"just fresh", func(f *Observation) { silentFor(f, stale-time.Microsecond) }, "True/Enforced", nil, time.Microsecond},
		{"stale at 20 s", func(f *Observation) { silentFor(f, stale) }, "False/NoHeartbeat", nil, 14 * time.Second},
		{"heartbeat that was there before the operator", func(f *Observation) { f.ReceivedAt = time.Time{} }, "True/Enforced", nil, 14 * time.Second},
		{"silent, and the last report took a moment to arrive", func(f *Observation) { silentFor(f, stale); f.ReceivedAt = f.ReceivedAt.Add(time.Second) },
			"False/NoHeartbeat", []string{"has finished a session since 2026-01-02T11:59:40Z"}, time.Second},
		{"heartbeat goes before a second scheduler", func(f *Observation) { silentFor(f, stale); f.Heartbeat.SecondScheduler = []string{"lab/a"} }, "False/NoHeartbeat", nil, 14 * time.Second},

		{"the scheduler's clock is a little ahead", func(f *Observation) { f.Heartbeat.At = noon.Add(15 * time.Second) }, "True/Enforced", nil, 14 * time.Second},
		{"a clock ahead does not prolong the proof", func(f *Observation) {
			f.Heartbeat.At = noon.Add(15 * time.Second)
			f.ReceivedAt = noon.Add(-stale)
			f.Leader = nil
		},
			"False/NoHeartbeat", nil, 35 * time.Second},
		{"the scheduler's clock is an hour ahead", func(f *Observation) {
			f.Heartbeat.At = noon.Add(time.Hour)
			f.Leader = nil
		},
			"False/NoHeartbeat", []string{"future", "clocks"}, 19 * time.Second},
		{"the scheduler's clock is an hour behind", func(f *Observation) {
			f.Heartbeat.At = noon.Add(-time.Hour)
			f.Leader = nil
		},
			"False/NoHeartbeat", []string{"past", "clocks"}, 19 * time.Second},

		{"stock scheduler beside ours", func(f *Observation) { f.OtherSchedulers = foreign(stock) }, "False/SecondScheduler", []string{stock, ours}, 14 * time.Second},
		{"our own pod with the stock scheduler's label", func(f *Observation) { f.OtherSchedulers = foreign("volcano-system/cardquota-scheduler-7d9-x") }, "True/Enforced", nil, 14 * time.Second},
		{"an equal of the pod that gives the heartbeat", func(f *Observation) {
			f.OtherSchedulers = []SchedulerPod{{"volcano-system/cardquota-scheduler-7d9-x", "template"}, {"volcano-system/cardquota-scheduler-7d9-y", "template"}}
			f.HeartbeatOwner = "template"
		}, "True/Enforced", nil, 14 * time.Second},
		{"an equal that is left when the pod of the heartbeat has gone", func(f *Observation) {
			f.OtherSchedulers = []SchedulerPod{{"volcano-system/cardquota-scheduler-7d9-y", "template"}}
			f.HeartbeatOwner = "template"
		}, "True/Enforced", nil, 14 * time.Second},
		{"a pod of another template", func(f *Observation) {
			f.OtherSchedulers = []SchedulerPod{{stock, "theirs"}}
			f.HeartbeatOwner = "template"
		},
			"False/SecondScheduler", []string{stock}, 14 * time.Second},
		{"a pod of no template, and neither has ours one", func(f *Observation) { f.OtherSchedulers = foreign(stock) },
			"False/SecondScheduler", []string{stock}, 14 * time.Second},
		{"a pod whose name ours begins with", func(f *Observation) { f.OtherSchedulers = foreign("volcano-system/cardquota") }, "False/SecondScheduler", nil, 14 * time.Second},
		{"another scheduler binds pods of our name", func(f *Observation) { f.Heartbeat.SecondScheduler = []string{"lab/a", "lab/b"} },
			"False/SecondScheduler", []string{"pods lab/a, lab/b", "stop it"}, 14 * time.Second},
		{"a pod that brought its node name needs no second scheduler", func(f *Observation) {
			f.Heartbeat.SecondScheduler = []string{"lab/a"}
			f.Bypasses = []Bypass{bypass("lab/a", "team", 2)}
		}, "False/CardBypass", nil, 14 * time.Second},
		{"second scheduler goes before the hash", func(f *Observation) {
			f.OtherSchedulers = foreign(stock)
			f.Heartbeat.ConfigHash = other
		}, "False/SecondScheduler", nil, 14 * time.Second},

		{"just written", func(f *Observation) {
			f.Heartbeat.ConfigHash = other
			f.WantedSince = noon.Add(-time.Second)
		},
			"False/ConfigNotLoaded", []string{"fedcba987654", "0123456789ab", "is being loaded"}, 9 * time.Second},
		{"written long ago and not loaded", func(f *Observation) {
			f.Heartbeat.ConfigHash = other
			f.WantedSince = noon.Add(-configLoadTimeout)
		},
			"False/ConfigNotLoaded", []string{"has not loaded", "--scheduler-configmap"}, 14 * time.Second},
		{"not loaded since before the operator", func(f *Observation) { f.Heartbeat.ConfigHash = other }, "False/ConfigNotLoaded", []string{"has not loaded"}, 14 * time.Second},
		{"refused by the scheduler", func(f *Observation) {
			f.Heartbeat.ConfigHash = other
			f.Heartbeat.ConfigProblem = "unknown action fly"
			f.WantedSince = noon
		}, "False/ConfigNotLoaded", []string{"refuses: unknown action fly"}, 10 * time.Second},
		{"no configuration at all", func(f *Observation) { f.Heartbeat.ConfigHash = "" }, "False/ConfigNotLoaded", []string{"configuration none"}, 14 * time.Second},
		{"hash goes before bypass", func(f *Observation) {
			f.Heartbeat.ConfigHash = other
			f.Bypasses = []Bypass{bypass("lab/a", "team", 2)}
		}, "False/ConfigNotLoaded", nil, 14 * time.Second},

		{"one pod past us", func(f *Observation) { f.Bypasses = []Bypass{bypass("lab/a", "team", 2)} }, "False/CardBypass",
			[]string{"1 pod holds 2 NVIDIA-H200", "create again", "lab/a (2 NVIDIA-H200: schedulerName is default-scheduler)"}, 14 * time.Second},
		{"many pods past us", func(f *Observation) {
			f.Bypasses = []Bypass{bypass("lab/a", "team", 2), bypass("lab/b", "", 1), bypass("lab/c", "x", 8), bypass("lab/d", "x", 1), bypass("lab/e", "x", 1)}
		}, "False/CardBypass", []string{"5 pods hold 13 NVIDIA-H200", "lab/c (8", "and 2 more"}, 14 * time.Second},
	}

	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			f := working()
			tc.change(&f)
			got := Evaluate(f)
			status := string(got.Status) + "/" + got.Reason
			check.Must(t, status == tc.want, "verdict %s, want %s: %s", status, tc.want, got.Message)
			check.Contains(t, "message", got.Message, tc.says...)
			var again time.Duration
			if until := f.NextCheck(); !until.IsZero() {
				again = until.Sub(noon)
			}
			check.Equal(t, fmt.Sprintf("looks again after %s", again), tc.again, again.Round(time.Microsecond))
		})
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
