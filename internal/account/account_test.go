package account

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
)

// TestEveryNumberEqualsANaiveRecount drives random charges, repeated charges,
// moves between queues and refunds, and recounts from scratch after each.
func TestEveryNumberEqualsANaiveRecount(t *testing.T) {
	queues := []string{"q", "r"}
	names := []card.Name{"A", "B"}
	rapid.Check(t, func(t *rapid.T) {
		a := New(0)
		pods := map[string]Charge{}
		t.Repeat(map[string]func(*rapid.T){
			"charge": func(t *rapid.T) {
				c := Charge{
					Queue:    rapid.SampledFrom(queues).Draw(t, "queue"),
					MilliCPU: rapid.Int64Range(0, 4000).Draw(t, "cpu"),
					Memory:   rapid.Int64Range(0, 1<<40).Draw(t, "memory"),
				}
				for _, n := range names {
					if rapid.Bool().Draw(t, "holds "+string(n)) {
						c.Cards = append(c.Cards, card.Amount{Name: n, Count: card.Count(rapid.IntRange(0, 8).Draw(t, "count"))})
					}
				}
				pod := fmt.Sprint("pod-", rapid.IntRange(0, 5).Draw(t, "pod"))
				pods[pod] = c
				a.Charge(pod, &c)
			},
			"refund": func(t *rapid.T) {
				pod := fmt.Sprint("pod-", rapid.IntRange(0, 5).Draw(t, "pod"))
				delete(pods, pod)
				a.Refund(pod)
			},
			"": func(t *rapid.T) {
				for _, q := range queues {
					var cpu, memory int64
					for _, n := range names {
						var want card.Count
						for _, c := range pods {
							for _, held := range c.Cards {
								if c.Queue == q && held.Name == n {
									want += held.Count
								}
							}
						}
						if got := a.Used(q, n); got != want {
							t.Fatalf("queue %s uses %d of %s, a recount says %d", q, got, n, want)
						}
					}
					for _, c := range pods {
						if c.Queue == q {
							cpu, memory = cpu+c.MilliCPU, memory+c.Memory
						}
					}
					if gotCPU, gotMemory := a.UsedCPUMemory(q); gotCPU != cpu || gotMemory != memory {
						t.Fatalf("queue %s uses %d, %d, a recount says %d, %d", q, gotCPU, gotMemory, cpu, memory)
					}
				}
			},
		})
	})
}

func TestFits(t *testing.T) {
	a := New(0)
	a.SetLimits("q", Limits{Cards: card.Quota{"A": 3, "B": 1}, MilliCPU: 4000, Memory: 1 << 30})
	a.SetLimits("open", Limits{AnyCard: true, MilliCPU: Unlimited, Memory: Unlimited})
	a.Charge("p", &Charge{Queue: "q", Cards: []card.Amount{{Name: "A", Count: 2}}, MilliCPU: 3000, Memory: 1 << 29})
	tests := map[string]struct {
		queue string
		ask   Ask
		want  *Shortage
	}{
		"the last card":                       {"q", Ask{Names: []card.Name{"A"}, Count: 1}, nil},
		"one card too many":                   {"q", Ask{Names: []card.Name{"A"}, Count: 2}, &Shortage{Kind: Cards, Requested: 2, Total: 4, Limit: 3}},
		"the second alternative has room":     {"q", Ask{Names: []card.Name{"C", "B"}, Count: 1}, nil},
		"alternatives are not added together": {"q", Ask{Names: []card.Name{"C", "A", "B"}, Count: 2}, &Shortage{Kind: Cards, Requested: 2, Total: 4, Limit: 3}},
		"a request beyond 64 bits":            {"q", Ask{Memory: 1<<63 - 1}, &Shortage{Kind: Memory, Requested: 1<<63 - 1, Total: 1<<63 - 1, Limit: 1 << 30}},
		"a card without an entry":             {"q", Ask{Names: []card.Name{"C"}, Count: 1}, &Shortage{Kind: Cards, Requested: 1, Total: 1, Limit: 0}},
		"a queue nobody knows":                {"x", Ask{Names: []card.Name{"A"}, Count: 1}, &Shortage{Kind: Cards, Requested: 1, Total: 1, Limit: 0}},
		"CPU to the limit":                    {"q", Ask{MilliCPU: 1000}, nil},
		"CPU beyond":                          {"q", Ask{MilliCPU: 1001}, &Shortage{Kind: CPU, Requested: 1001, Total: 4001, Limit: 4000}},
		"memory beyond":                       {"q", Ask{Memory: 1<<29 + 1}, &Shortage{Kind: Memory, Requested: 1<<29 + 1, Total: 1<<30 + 1, Limit: 1 << 30}},
		"unlimited":                           {"open", Ask{Names: []card.Name{"Z"}, Count: 99, MilliCPU: 1 << 60, Memory: 1 << 60}, nil},
		"asks for nothing of a full queue":    {"x", Ask{}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := a.Fits(tc.queue, tc.ask)
			if (got == nil) != (tc.want == nil) {
				t.Fatalf("shortage %+v, want %+v", got, tc.want)
			}
			if got != nil && (got.Kind != tc.want.Kind || got.Requested != tc.want.Requested || got.Total != tc.want.Total || got.Limit != tc.want.Limit) {
				t.Fatalf("shortage %+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestAcceptedPodsNeverExceedTheQuota places whatever the gates accept.
func TestAcceptedPodsNeverExceedTheQuota(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quota := card.Quota{"A": card.Count(rapid.IntRange(0, 8).Draw(t, "A")), "B": card.Count(rapid.IntRange(0, 8).Draw(t, "B"))}
		a := New(0)
		a.SetLimits("q", Limits{Cards: quota, MilliCPU: Unlimited, Memory: Unlimited})
		for i := range rapid.IntRange(1, 20).Draw(t, "pods") {
			count := card.Count(rapid.IntRange(1, 4).Draw(t, "count"))
			on := rapid.SampledFrom([]card.Name{"A", "B", "C"}).Draw(t, "node's card")
			if a.Fits("q", Ask{Names: []card.Name{"A", "B"}, Count: count}) == nil && a.FitsOn("q", on, count) {
				a.Charge(fmt.Sprint(i), &Charge{Queue: "q", Cards: []card.Amount{{Name: on, Count: count}}})
			}
		}
		for _, n := range []card.Name{"A", "B", "C"} {
			if a.Used("q", n) > quota[n] {
				t.Fatalf("%d of %s in use, the quota is %d", a.Used("q", n), n, quota[n])
			}
		}
	})
}

func TestShareFollowsTheScarcestLimit(t *testing.T) {
	a := New(0)
	a.SetLimits("q", Limits{Cards: card.Quota{"A": 8, "B": 2}, MilliCPU: Unlimited, Memory: Unlimited})
	a.Charge("p", &Charge{Queue: "q", Cards: []card.Amount{{Name: "A", Count: 2}, {Name: "B", Count: 1}}})
	if got := a.Share("q"); got != 0.5 {
		t.Errorf("share %v, want 1 of 2 B = 0.5", got)
	}
	if got := a.Share("idle"); got != 0 {
		t.Errorf("share of an idle queue %v", got)
	}
}
