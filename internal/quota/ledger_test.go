package quota

import (
	"fmt"
	"math"
	"testing"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

func TestFits(t *testing.T) {
	a := New(0)
	a.SetLimits("q", Limits{Cards: card.Quota{"A": 3, "B": 1}, MilliCPU: 4000, Memory: 1 << 30})
	a.SetLimits("open", Limits{AnyCard: true, MilliCPU: Unlimited, Memory: Unlimited})
	a.Charge("p", &Charge{Queue: "q", Cards: []card.Amount{{Name: "A", Count: 2}}, MilliCPU: 3000, Memory: 1 << 29})

	for t, tc := range check.Cases(t, map[string]struct {
		queue string
		ask   Request
		want  *InsufficientQuota
	}{
		"the last card":                       {"q", Request{Names: []card.Name{"A"}, Count: 1}, nil},
		"one card too many":                   {"q", Request{Names: []card.Name{"A"}, Count: 2}, &InsufficientQuota{Kind: Cards, Requested: 2, Total: 4, Limit: 3}},
		"the second alternative has room":     {"q", Request{Names: []card.Name{"C", "B"}, Count: 1}, nil},
		"alternatives are not added together": {"q", Request{Names: []card.Name{"C", "A", "B"}, Count: 2}, &InsufficientQuota{Kind: Cards, Requested: 2, Total: 4, Limit: 3}},
		"a request beyond 64 bits":            {"q", Request{Memory: 1<<63 - 1}, &InsufficientQuota{Kind: Memory, Requested: 1<<63 - 1, Total: 1<<63 - 1, Limit: 1 << 30}},
		"a card without an entry":             {"q", Request{Names: []card.Name{"C"}, Count: 1}, &InsufficientQuota{Kind: Cards, Requested: 1, Total: 1, Limit: 0}},
		"an unknown queue":                    {"x", Request{Names: []card.Name{"A"}, Count: 1}, &InsufficientQuota{Kind: Cards, Requested: 1, Total: 1, Limit: 0}},
		"CPU to the limit":                    {"q", Request{MilliCPU: 1000}, nil},
		"CPU beyond":                          {"q", Request{MilliCPU: 1001}, &InsufficientQuota{Kind: CPU, Requested: 1001, Total: 4001, Limit: 4000}},
		"memory beyond":                       {"q", Request{Memory: 1<<29 + 1}, &InsufficientQuota{Kind: Memory, Requested: 1<<29 + 1, Total: 1<<30 + 1, Limit: 1 << 30}},
		"unlimited":                           {"open", Request{Names: []card.Name{"Z"}, Count: 99, MilliCPU: 1 << 60, Memory: 1 << 60}, nil},
		"asks for nothing of a full queue":    {"x", Request{}, nil},
	}) {
		got := a.FitsAnyCard(tc.queue, tc.ask)
		check.That(t, sameLimit(got, tc.want), "insufficient %+v, want %+v", got, tc.want)
	}
}

// sameLimit reports whether two refusals are about the same kind of limit, with the same numbers.
func sameLimit(a, b *InsufficientQuota) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && a.Requested == b.Requested && a.Total == b.Total && a.Limit == b.Limit
}

func TestShareFollowsTheScarcestLimit(t *testing.T) {
	a := newQueueLedger(card.Quota{"A": 8, "B": 2})
	a.Charge("p", &Charge{Queue: "q", Cards: []card.Amount{{Name: "A", Count: 2}, {Name: "B", Count: 1}}})
	check.Equal(t, "share", 0.5, a.DominantShare("q"))
	check.Equal(t, "share of an idle queue", 0, a.DominantShare("idle"))
}

// TestOverCommitMultipliesAsItIsWritten: 1.15 is no binary fraction.
func TestOverCommitMultipliesAsItIsWritten(t *testing.T) {
	for _, tc := range []struct {
		limit int64
		by    float64
		want  int64
	}{
		{100, 1.15, 115}, {200, 1.15, 230}, {400, 1.15, 460}, {7, 1.1, 7}, {10, 1.1, 11}, {3, 1.000001, 3}, {1_000_000, 1.000001, 1_000_001},
		{1_000_000, 100, 100_000_000}, {Unlimited / 2, 3, Unlimited}, {Unlimited, 1.5, Unlimited}, {Unlimited - 1, 1, Unlimited - 1}, {0, 100, 0},
	} {
		check.Equal(t, fmt.Sprintf("%d times %v", tc.limit, tc.by), tc.want, scaleLimit(tc.limit, tc.by))
	}
}

// TestHugeRequestsAreGivenBack: sums of CPU and memory do not wrap around, however much
// pods hold, and are exact again when they are gone.
func TestHugeRequestsAreGivenBack(t *testing.T) {
	a := New(0)
	a.SetLimits("q", Limits{MilliCPU: 1000, Memory: 1000})
	a.Charge("small", &Charge{Queue: "q", MilliCPU: 400, Memory: 300})
	for i := range 5 {
		a.Charge(fmt.Sprint(i), &Charge{Queue: "q", MilliCPU: math.MaxInt64 - 1, Memory: math.MaxInt64})
		if milliCPU, memory := a.UsedCPUMemory("q"); milliCPU != math.MaxInt64 || memory != math.MaxInt64 {
			t.Fatalf("%d and %d in use beside %d pods", milliCPU, memory, i+1)
		}
		check.That(t, a.FitsAnyCard("q", Request{MilliCPU: 1}) != nil && a.FitsAnyCard("q", Request{Memory: 1}) != nil, "more fits beside %d pods", i+1)
	}

	for i := range 5 {
		a.Release(fmt.Sprint(i))
	}

	milliCPU, memory := a.UsedCPUMemory("q")
	check.That(t, milliCPU == 400 && memory == 300, "%d and %d in use when they are gone", milliCPU, memory)
}
