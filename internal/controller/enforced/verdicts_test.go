package enforced

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/enforcement"
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
				if !ready {
					t.Fatal("not everything was read")
				}
				return judge(f)
			}
			before := verdict()
			tc.change(h)
			got := verdict().since(before)
			if diff := cmp.Diff(changes{tc.queues, tc.policy}, got, cmp.AllowUnexported(changes{})); diff != "" {
				t.Errorf("woken differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheFirstVerdictWakesAll(t *testing.T) {
	f, _ := everythingRead().facts(noon)
	if diff := cmp.Diff(changes{[]string{EveryQueue}, true}, judge(f).since(nil), cmp.AllowUnexported(changes{})); diff != "" {
		t.Errorf("woken differ (-want +got):\n%s", diff)
	}
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
	if !after.policy.Same(before.policy) {
		t.Fatal("the test needs two verdicts that read alike")
	}
	if diff := cmp.Diff(changes{nil, true}, after.since(before), cmp.AllowUnexported(changes{})); diff != "" {
		t.Errorf("woken differ (-want +got):\n%s", diff)
	}
}

func TestSilenceIsJudgedAgain(t *testing.T) {
	h := everythingRead()
	w := &Watch{heard: *h}
	_, until := w.judge(noon)
	if want := noon.Add(19 * time.Second); !until.Equal(want) {
		t.Fatalf("looks again at %s, want %s", until, want)
	}
	if got, _ := w.OfQueue("a"); got.Reason != "Enforced" {
		t.Fatalf("verdict is %+v", got)
	}
	changes, _ := w.judge(until)
	if got, _ := w.OfQueue("a"); got.Reason != "NoHeartbeat" || len(changes.queues) != 1 {
		t.Errorf("after that: %+v, woken %v", got, changes)
	}
}
