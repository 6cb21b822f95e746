package quota

import (
	"fmt"
	"math"
	"testing"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// TestRequestFitsUntilALimitIsExceeded: a request fits if one of its cards, its CPU and its memory fit what is left
// of the quota. Queue q has 3 A, 1 B, 4 CPU and 1 GiB; its pod uses 2 A, 3 CPU and half a GiB. So 1 A, 1 B, 1 CPU
// and half a GiB are left. A refusal states the request, the usage with it, and the limit.
func TestRequestFitsUntilALimitIsExceeded(t *testing.T) {
	const gib = 1 << 30

	l := newFlatLedger(map[string]Limits{
		"q":         {Cards: card.Quota{"A": 3, "B": 1}, MilliCPU: 4000, Memory: gib},
		"unlimited": {AnyCard: true, MilliCPU: Unlimited, Memory: Unlimited},
	})
	l.Charge("pod", &Charge{Queue: "q", Cards: []card.Amount{{Name: "A", Count: 2}}, MilliCPU: 3000, Memory: gib / 2})

	for t, tc := range check.Cases(t, map[string]struct {
		queue   string
		request Request
		want    *InsufficientQuota
	}{
		"the last A": {"q", Request{Names: []card.Name{"A"}, Count: 1}, nil},
		"one A too many": {
			queue: "q", request: Request{Names: []card.Name{"A"}, Count: 2},
			want: &InsufficientQuota{Requested: 2, Total: 4, Limit: 3},
		},
		"C has no quota, its alternative B is free": {"q", Request{Names: []card.Name{"C", "B"}, Count: 1}, nil},
		"2 cards of one name, 1 A and 1 B are free: refused with the numbers of A, the larger quota": {
			queue: "q", request: Request{Names: []card.Name{"C", "A", "B"}, Count: 2},
			want: &InsufficientQuota{Requested: 2, Total: 4, Limit: 3},
		},
		"the sum with the usage overflows 64 bits": {
			queue: "q", request: Request{Memory: math.MaxInt64},
			want: &InsufficientQuota{Of: Memory, Requested: math.MaxInt64, Total: math.MaxInt64, Limit: gib},
		},
		"a card without a quota": {
			queue: "q", request: Request{Names: []card.Name{"C"}, Count: 1},
			want: &InsufficientQuota{Requested: 1, Total: 1, Limit: 0},
		},
		"a queue that the ledger does not know": {
			queue: "unknown", request: Request{Names: []card.Name{"A"}, Count: 1},
			want: &InsufficientQuota{Requested: 1, Total: 1, Limit: 0},
		},
		"the rest of the CPU": {"q", Request{MilliCPU: 1000}, nil},
		"1 thousandth of a CPU too much": {
			queue: "q", request: Request{MilliCPU: 1001},
			want: &InsufficientQuota{Of: CPU, Requested: 1001, Total: 4001, Limit: 4000},
		},
		"1 byte of memory too much": {
			queue: "q", request: Request{Memory: gib/2 + 1},
			want: &InsufficientQuota{Of: Memory, Requested: gib/2 + 1, Total: gib + 1, Limit: gib},
		},
		"any request in a queue without limits": {
			queue: "unlimited", request: Request{Names: []card.Name{"Z"}, Count: 99, MilliCPU: 1 << 60, Memory: 1 << 60},
		},
		"nothing, in a queue that may use nothing": {"unknown", Request{}, nil},
		"cards without a name, as of a pod whose card no node names": {
			queue: "q", request: Request{Count: 1},
			want: &InsufficientQuota{Requested: 1, Total: 1, Limit: 0},
		},
		"cards without a name, in a queue without limits": {queue: "unlimited", request: Request{Count: 1}},
	}) {
		got := firstOf(l.Check(tc.queue, tc.request, Within{}))
		check.That(t, sameLimit(got, tc.want), "insufficient %+v, want %+v", got, tc.want)
	}
}

// sameLimit reports whether two refusals are about the same kind of limit and resource, with the same numbers.
func sameLimit(a, b *InsufficientQuota) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && a.Of == b.Of && a.Requested == b.Requested && a.Total == b.Total && a.Limit == b.Limit
}

// TestDominantShareIsThatOfTheScarcestCard: queue q uses 2 of 8 A, a quarter, and 1 of 2 B, a half. The half counts. A
// queue without pods has no share.
func TestDominantShareIsThatOfTheScarcestCard(t *testing.T) {
	l := newQueueLedger(card.Quota{"A": 8, "B": 2})
	l.Charge("pod", &Charge{Queue: "q", Cards: []card.Amount{{Name: "A", Count: 2}, {Name: "B", Count: 1}}})

	check.Equal(t, "share", 0.5, l.DominantShare("q"))
	check.Equal(t, "share of an idle queue", 0, l.DominantShare("idle"))
}

// TestOverCommitMultipliesDecimalFactorsExactly: the over-commit factor multiplies a limit, and the result is rounded
// down. 1.15 has no exact float64, so a plain product of 100 and 1.15 would be 114.
func TestOverCommitMultipliesDecimalFactorsExactly(t *testing.T) {
	for _, tc := range []struct {
		limit  int64
		factor float64
		want   int64
	}{
		{100, 1.15, 115},
		{200, 1.15, 230},
		{400, 1.15, 460},
		{7, 1.1, 7}, // 7.7 rounded down
		{10, 1.1, 11},
		{3, 1.000001, 3},
		{1_000_000, 1.000001, 1_000_001}, // factors have six decimals
		{1_000_000, 100, 100_000_000},
		{0, 100, 0},
		{Unlimited / 2, 3, Unlimited}, // no overflow
		{Unlimited, 1.5, Unlimited},
		{Unlimited - 1, 1, Unlimited - 1},
	} {
		check.Equal(t, fmt.Sprintf("%d times %v", tc.limit, tc.factor), tc.want, scaleLimit(tc.limit, tc.factor))
	}
}

// TestSumsOfHugeRequestsDoNotOverflow: a pod may request nearly the largest int64. The sums of such pods do not wrap
// around, so the queue stays full. When the pods are gone, exactly the usage of the small pod is left.
func TestSumsOfHugeRequestsDoNotOverflow(t *testing.T) {
	l := newFlatLedger(map[string]Limits{"q": {MilliCPU: 1000, Memory: 1000}})
	l.Charge("small", &Charge{Queue: "q", MilliCPU: 400, Memory: 300})
	checkUsed := func(what string, wantCPU, wantMemory int64) {
		used := l.Snapshot()[0]
		check.Equal(t, "CPU and memory in use "+what, [2]int64{wantCPU, wantMemory}, [2]int64{used.MilliCPU, used.Memory})
	}

	for i := range 5 {
		l.Charge(fmt.Sprint(i), &Charge{Queue: "q", MilliCPU: math.MaxInt64 - 1, Memory: math.MaxInt64})
		checkUsed("beside huge pods", math.MaxInt64, math.MaxInt64)
		check.That(t, !l.Fits("q", Request{MilliCPU: 1}, Within{}), "more CPU fits beside %d huge pods", i+1)
		check.That(t, !l.Fits("q", Request{Memory: 1}, Within{}), "more memory fits beside %d huge pods", i+1)
	}

	for i := range 5 {
		l.Release(fmt.Sprint(i))
	}
	checkUsed("after the huge pods", 400, 300)
}
