package quota

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestPodsFitTogetherAsOneAfterTheOther: pods of one card each fit together as if they were charged one by
// one, each after the check of its quota.
func TestPodsFitTogetherAsOneAfterTheOther(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newTreeTest(t)
		for range rapid.IntRange(0, 10).Draw(t, "steps") {
			h.step(t)
		}

		queue := h.drawQueue(t)
		var requests []Request
		for i := range rapid.IntRange(1, 4).Draw(t, "pods") {
			name := rapid.SampledFrom(treeCards).Draw(t, fmt.Sprint("card of pod ", i))
			requests = append(requests, Request{Names: []card.Name{name}, Count: card.Count(rapid.IntRange(1, 4).Draw(t, "count"))})
		}
		got := h.ledger.FitsTogether(queue, requests, false)

		want := WithinDeserved
		for i, r := range requests {
			if !h.ledger.FitsCard(queue, r.Names[0], r.Count, false) {
				want = ExceedsQuota
				break
			}
			if h.ledger.FitsDeserved(queue, r, false) != nil {
				want = WithinQuota
			}
			h.ledger.Charge(fmt.Sprint("together-", i), &Charge{Queue: queue, Cards: []card.Amount{{Name: r.Names[0], Count: r.Count}}})
		}

		check.Must(t, got == want, "%v pods of %s fit with %d, want %d", requests, queue, got, want)
	})
}

func TestPodsWithAlternativesFitTogether(t *testing.T) {
	ledger := New(1)
	ledger.SetTree(map[string]Position{"q": {}})
	ledger.SetLimits("q", Limits{Cards: card.Quota{"A": 4, "B": 4}, Deserved: Amounts{"A": 1, "B": 2}, MilliCPU: 3000, Memory: Unlimited})

	pods := func(count int, cpu int64, names ...card.Name) (all []Request) {
		for range count {
			all = append(all, Request{Names: names, Count: 1, MilliCPU: cpu})
		}
		return all
	}

	for t, tc := range check.Cases(t, map[string]struct {
		requests []Request
		want     TogetherFit
	}{
		"each within what is deserved":    {pods(3, 0, "A", "B"), WithinDeserved},
		"one borrows":                     {pods(4, 0, "A", "B"), WithinQuota},
		"together above what is deserved": {pods(2, 0, "A"), WithinQuota},
		"together above the quota":        {pods(9, 0, "A", "B"), ExceedsQuota},
		"together above the CPU":          {pods(3, 1001, "A", "B"), ExceedsQuota},
		"CPU alone":                       {[]Request{{MilliCPU: 3000}}, WithinDeserved},
		"nothing":                         {nil, WithinDeserved},
	}) {
		check.Equal(t, "fit", tc.want, ledger.FitsTogether("q", tc.requests, false))
	}
}
