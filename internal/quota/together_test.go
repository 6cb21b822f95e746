package quota

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// together is what FitTogether returns for pods that fit the quota of their queue, or for others.
type together struct{ Fits, Borrows bool }

// fitTogether returns whether pods fit the quota of a queue together, and whether they borrow.
func (l *Ledger) fitTogether(queue string, requests []Request) together {
	fits, borrows := l.FitTogether(queue, requests, Within{Bound: ReclaimableCards})
	return together{fits, fits && borrows}
}

// TestPodsFitTogetherAsOneAfterTheOther: FitTogether says whether several pods fit the quota of their queue, and whether
// they borrow: exceed what it deserves, the bound ReclaimableCards. It must answer as if each pod was checked and charged
// after the one before. The tree, its history and the pods are random.
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
		got := h.ledger.fitTogether(queue, requests)

		want := together{Fits: true}
		for i, r := range requests {
			if !h.ledger.Fits(queue, r, Within{}) {
				want = together{}
				break
			}
			if !h.ledger.Fits(queue, r, Within{Bound: ReclaimableCards}) {
				want.Borrows = true
			}
			h.ledger.Charge(fmt.Sprint("together-", i), &Charge{Queue: queue, Cards: []card.Amount{{Name: r.Names[0], Count: r.Count}}})
		}

		check.Must(t, got == want, "%v pods of %s: %+v, want %+v", requests, queue, got, want)
	})
}

// TestPodsWithAlternativesFitTogether: each pod gets the first of its cards that the queue deserves, else one within
// its quota. The queue has a quota of 4 A and 4 B, deserves 1 A and 2 B, and may use 3 CPU.
func TestPodsWithAlternativesFitTogether(t *testing.T) {
	ledger := newTreeLedger(map[string]position{"q": {}}, map[string]Limits{"q": {
		Cards:    card.Quota{"A": 4, "B": 4},
		Deserved: Amounts{"A": 1, "B": 2},
		MilliCPU: 3000,
	}}, nil)

	podsOfOneCard := func(count int, milliCPU int64, names ...card.Name) []Request {
		return slices.Repeat([]Request{{Names: names, Count: 1, MilliCPU: milliCPU}}, count)
	}

	deserved := together{Fits: true}
	borrowed := together{Fits: true, Borrows: true}
	for t, tc := range check.Cases(t, map[string]struct {
		requests []Request
		want     together
	}{
		"3 pods of A or B: 1 A and 2 B are deserved":            {podsOfOneCard(3, 0, "A", "B"), deserved},
		"4 pods of A or B: the fourth borrows":                  {podsOfOneCard(4, 0, "A", "B"), borrowed},
		"2 pods of A: the second borrows":                       {podsOfOneCard(2, 0, "A"), borrowed},
		"9 pods of A or B: the quotas are for 8":                {podsOfOneCard(9, 0, "A", "B"), together{}},
		"3 pods of A or B, together 3 millicores above the CPU": {podsOfOneCard(3, 1001, "A", "B"), together{}},
		"a pod without cards that requests the whole CPU: fits": {[]Request{{MilliCPU: 3000}}, deserved},
		"no pods: fit": {nil, deserved},
	}) {
		check.Equal(t, "fit", tc.want, ledger.fitTogether("q", tc.requests))
	}
}
