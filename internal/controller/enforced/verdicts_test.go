package enforced

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/heartbeat"
	"cardquota.dev/operator/internal/testing/check"
)

func past(queue, pod string) enforcement.Bypass {
	return enforcement.Bypass{Pod: pod, Queue: queue, Cards: []card.Amount{{Name: "NVIDIA-H200", Count: 1}}, Why: "schedulerName is x"}
}

// TestWhoIsWoken: those whose verdict reads differently, and nobody else.
func TestWhoIsWoken(t *testing.T) {
	all := []string{EveryQueue}
	cases := []struct {
		name   string
		change func(*heard)
		queues []string
		policy bool
	}{
		{"nothing changed", func(*heard) {}, nil, false},
		{"a renewal", func(h *heard) { h.setLease(beat(noon), false, false, noon) }, nil, false},
		{"another replica took over", func(h *heard) {
			h.setLease(heartbeat.Report{Identity: "ours_2", Version: "v2", ConfigHash: "aa", At: noon}.Lease(system), false, false, noon)
		}, nil, true},
		{"no heartbeat any more", func(h *heard) { h.setLease(beat(noon), true, false, noon) }, all, true},
		{"another configuration", func(h *heard) { h.setPolicy(written("bb"), false, false, noon) }, all, true},
		{"a pod of one queue past us", func(h *heard) { h.bypasses = []enforcement.Bypass{past("a", "lab/1"), past("b", "lab/2")} }, []string{"b"}, true},
		{"a pod of no queue past us", func(h *heard) { h.bypasses = []enforcement.Bypass{past("a", "lab/1"), past("", "lab/2")} }, nil, true},
		{"a second pod of the queue", func(h *heard) { h.bypasses = []enforcement.Bypass{past("a", "lab/1"), past("a", "lab/2")} }, []string{"a"}, true},
		{"no pod past us any more", func(h *heard) { h.bypasses = nil }, []string{"a"}, true},
		{"the policy is gone", func(h *heard) { h.setPolicy(h.policy, true, false, noon) }, all, true},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			h := everythingRead()
			h.bypasses = []enforcement.Bypass{past("a", "lab/1")}
			verdict := func() *verdicts {
				f, ready := h.facts(noon)
				check.Must(t, ready, "not everything was read")
				return judge(f)
			}
			before := verdict()
			tc.change(h)
			got := verdict().since(before)
			check.Equal(t, "woken", changes{tc.queues, tc.policy}, got, cmp.AllowUnexported(changes{}))
		})
	}
}

func TestTheFirstVerdictWakesAll(t *testing.T) {
	f, _ := everythingRead().facts(noon)
	check.Equal(t, "woken", changes{[]string{EveryQueue}, true}, judge(f).since(nil), cmp.AllowUnexported(changes{}))
}

// TestAnotherSchedulerOfTheSameVerdict: the policy shows who reports.
func TestAnotherSchedulerOfTheSameVerdict(t *testing.T) {
	h := everythingRead()
	h.policy.Status.ConfigHash = "bb" // ConfigNotLoaded names only the hashes' beginnings
	f, _ := h.facts(noon)
	before := judge(f)
	report := *f.Heartbeat
	report.Version = "v2"
	f.Heartbeat = &report
	after := judge(f)
	check.Must(t, after.policy.Same(before.policy), "the test needs two verdicts that read alike")
	check.Equal(t, "woken", changes{nil, true}, after.since(before), cmp.AllowUnexported(changes{}))
}

func TestSilenceIsJudgedAgain(t *testing.T) {
	h := everythingRead()
	w := &Watch{heard: *h}
	_, until := w.judge(noon)
	want := noon.Add(19 * time.Second)
	check.Must(t, until.Equal(want), "looks again at %s, want %s", until, want)
	got, _ := w.OfQueue("a")
	check.Must(t, got.Reason == "Enforced", "verdict is %+v", got)
	changes, _ := w.judge(until)
	got, _ = w.OfQueue("a")
	check.That(t, got.Reason == "NoHeartbeat" && len(changes.queues) == 1, "after that: %+v, woken %v", got, changes)
}
