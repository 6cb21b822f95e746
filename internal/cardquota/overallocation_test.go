package cardquota

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// newQuotaOfH200 is a CardQuota with so many H200, created at an hour after noon.
func newQuotaOfH200(name string, count int64, hour int, changes ...func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	quota := builder.CardQuota(name).Created(noon.Add(time.Duration(hour)*time.Hour)).Card("H200", count).Obj()
	for _, change := range changes {
		change(quota)
	}
	return quota
}

func withQueueName(name string) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.QueueName = name }
}

// beingDeleted, withDeny, withAllow, withQueueName and withMoreCards change a CardQuota.
func beingDeleted(q *v1alpha1.CardQuota) { q.DeletionTimestamp = &metav1.Time{Time: noon} }

func withDeny(q *v1alpha1.CardQuota) { q.Spec.OverAllocation = v1alpha1.OverAllocationDeny }

func withMoreCards(name string, count int64) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) {
		q.Spec.Cards = append(q.Spec.Cards, v1alpha1.Card{Name: name, Quota: ptr(count)})
	}
}

func withAllow(q *v1alpha1.CardQuota) { q.Spec.OverAllocation = v1alpha1.OverAllocationAllow }

// TestOverAllocationIsAllowedByAll: Queue byhand without a CardQuota grants 9 H200 in each row, and 8 are healthy.
// More than 8 are allowed without a warning only if some CardQuota grants H200, and all that do say overAllocation:
// Allow. A CardQuota that grants none, is being deleted, or waits for the queue of an older one does not matter.
// Neither does Queue byhand.
func TestOverAllocationIsAllowedByAll(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quotas []*v1alpha1.CardQuota
		want   bool
	}{
		"no CardQuota grants the card": {},
		"both allow it": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 5, 0, withAllow), newQuotaOfH200("b", 5, 0, withAllow)},
			want:   true,
		},
		"b warns, which is the default": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 5, 0, withAllow), newQuotaOfH200("b", 5, 0)},
		},
		"a denies it": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 5, 0, withDeny), newQuotaOfH200("b", 5, 0, withAllow)},
		},
		"b warns and grants 0": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 5, 0, withAllow), newQuotaOfH200("b", 0, 0)},
			want:   true,
		},
		"b warns and grants only another card": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 5, 0, withAllow), newQuotaOfH200("b", 0, 0, withMoreCards("H800", 1))},
			want:   true,
		},
		"b warns and is being deleted": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 5, 0, withAllow), newQuotaOfH200("b", 5, 0, beingDeleted)},
			want:   true,
		},
		"b warns and waits for the queue of a": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 5, 0, withAllow), newQuotaOfH200("b", 5, 1, withQueueName("a"))},
			want:   true,
		},
		"the only one grants 0":         {[]*v1alpha1.CardQuota{newQuotaOfH200("a", 0, 0, withAllow)}, false},
		"the only one is being deleted": {[]*v1alpha1.CardQuota{newQuotaOfH200("a", 5, 0, withAllow, beingDeleted)}, false},
	}) {
		totals := Flat.QuotaTotals(tc.quotas, map[string]card.Quota{"byhand": {"H200": 9}}, cards{"H200": 8})

		check.Equal(t, "allowed", tc.want, totals.AllowsOverAllocation("H200"))
	}
}

// TestOverAllocationIsAllowedByTheTopLevel: in a tree only the top level grants cards, here 9 H200 of top, of which 8
// are healthy. So top alone decides, and its child without overAllocation, which is Warn, does not matter.
func TestOverAllocationIsAllowedByTheTopLevel(t *testing.T) {
	child := newQuotaOfH200("child", 5, 0, func(q *v1alpha1.CardQuota) { q.Spec.Parent = "top" })
	totals := NewTree(nil, nil, v1alpha1.UnmanagedEnforce).QuotaTotals([]*v1alpha1.CardQuota{
		newQuotaOfH200("top", 9, 0, withAllow), child,
	}, nil, cards{"H200": 8})
	check.That(t, totals.AllowsOverAllocation("H200"), "a child with overAllocation Warn matters in a tree")
}

// TestOverAllocationNamesTheSumAndItsParts: the quotas for a card are over-allocated if they add up to more than
// healthy nodes have. The status of a CardQuota names each such card that it has quota for: the sum, its own part
// ("here") and the largest others. Each row asks for CardQuota a or late. Late was created an hour after b (the last
// number of newQuotaOfH200), so b owns the queue that both name.
func TestOverAllocationNamesTheSumAndItsParts(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota   *v1alpha1.CardQuota
		others  []*v1alpha1.CardQuota
		healthy cards
		want    string
	}{
		"a grants 5 and b 3, which are the 8 healthy ones": {
			quota:   newQuotaOfH200("a", 5, 0),
			others:  []*v1alpha1.CardQuota{newQuotaOfH200("b", 3, 0)},
			healthy: cards{"H200": 8},
		},
		"a grants 6 and b 3 of 8": {
			quota:   newQuotaOfH200("a", 6, 0),
			others:  []*v1alpha1.CardQuota{newQuotaOfH200("b", 3, 0)},
			healthy: cards{"H200": 8},
			want:    "H200: 9 granted, 8 healthy, 1 too many (6 here, 3 by b)",
		},
		"a alone grants 9 of 8": {
			quota:   newQuotaOfH200("a", 9, 0),
			healthy: cards{"H200": 8},
			want:    "H200: 9 granted, 8 healthy, 1 too many (9 here)",
		},
		"a grants 1 of a card that no node has": {
			quota:   newQuotaOfH200("a", 1, 0),
			healthy: cards{"H800": 8},
			want:    "H200: 1 granted, 0 healthy, 1 too many (1 here)",
		},
		"b grants 9 of 8, and a grants 0": {
			quota:   newQuotaOfH200("a", 0, 0),
			others:  []*v1alpha1.CardQuota{newQuotaOfH200("b", 9, 0)},
			healthy: cards{"H200": 8},
		},
		"b grants 9 of 8 H800, of which a has no quota": {
			quota:   newQuotaOfH200("a", 8, 0),
			others:  []*v1alpha1.CardQuota{newQuotaOfH200("b", 0, 0, withMoreCards("H800", 9))},
			healthy: cards{"H200": 8, "H800": 8},
		},
		"a grants too many of two cards": {
			quota:   newQuotaOfH200("a", 9, 0, withMoreCards("A800", 1)),
			healthy: cards{"H200": 8},
			want:    "A800: 1 granted, 0 healthy, 1 too many (1 here); H200: 9 granted, 8 healthy, 1 too many (9 here)",
		},
		"b, c and d grant H200, too: the largest first, then by name": {
			quota:   newQuotaOfH200("a", 1, 0),
			others:  []*v1alpha1.CardQuota{newQuotaOfH200("b", 2, 0), newQuotaOfH200("c", 5, 0), newQuotaOfH200("d", 2, 0)},
			healthy: cards{"H200": 8},
			want:    "H200: 10 granted, 8 healthy, 2 too many (1 here, 5 by c, 2 by b, 2 by d)",
		},
		"b to f grant H200, too: three are named": {
			quota: newQuotaOfH200("a", 5, 0),
			others: []*v1alpha1.CardQuota{
				newQuotaOfH200("b", 1, 0),
				newQuotaOfH200("c", 1, 0),
				newQuotaOfH200("d", 1, 0),
				newQuotaOfH200("e", 1, 0),
				newQuotaOfH200("f", 1, 0),
			},
			healthy: cards{"H200": 8},
			want:    "H200: 10 granted, 8 healthy, 2 too many (5 here, 1 by b, 1 by c, 1 by d, the rest by 2 more)",
		},
		"the totals have an older version of a, with 100: a counts as it is now": {
			quota:   newQuotaOfH200("a", 8, 0),
			others:  []*v1alpha1.CardQuota{newQuotaOfH200("a", 100, 0)},
			healthy: cards{"H200": 8},
		},
		"late waits for the queue of b, and does not count": {
			quota:   newQuotaOfH200("a", 3, 0),
			others:  []*v1alpha1.CardQuota{newQuotaOfH200("b", 5, 0), newQuotaOfH200("late", 5, 1, withQueueName("b"))},
			healthy: cards{"H200": 8},
		},
		"late is asked, and waits for the queue of b: b does not count beside late": {
			quota:   newQuotaOfH200("late", 8, 1, withQueueName("b")),
			others:  []*v1alpha1.CardQuota{newQuotaOfH200("b", 5, 0)},
			healthy: cards{"H200": 8},
		},
		"b is being deleted, and does not count": {
			quota:   newQuotaOfH200("a", 8, 0),
			others:  []*v1alpha1.CardQuota{newQuotaOfH200("b", 5, 0, beingDeleted)},
			healthy: cards{"H200": 8},
		},
		"b is being deleted, and late takes over its queue: late counts": {
			quota:   newQuotaOfH200("a", 8, 0),
			others:  []*v1alpha1.CardQuota{newQuotaOfH200("b", 5, 0, beingDeleted), newQuotaOfH200("late", 1, 1, withQueueName("b"))},
			healthy: cards{"H200": 8},
			want:    "H200: 9 granted, 8 healthy, 1 too many (8 here, 1 by late)",
		},
		"a is being deleted, and grants nothing": {
			quota:   newQuotaOfH200("a", 9, 0, beingDeleted),
			healthy: cards{"H200": 8},
		},
	}) {
		check.Equal(t, "over-allocated", tc.want, DescribeOverAllocation(Flat.QuotaTotals(tc.others, nil, tc.healthy).
			OverAllocated(tc.quota)))
	}
}

// TestOtherGrantsAreTheLargest: beside its own CardQuota, a message names the three largest others, or all if
// there are fewer. Equal ones are sorted by name, and the rest is counted. CardQuotas are random, and one of
// 0 grants nothing. No card is healthy, so any grant is too many.
func TestOtherGrantsAreTheLargest(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var quotas []*v1alpha1.CardQuota
		for i := range rapid.IntRange(1, 9).Draw(t, "quotas") {
			quotas = append(quotas, newQuotaOfH200(fmt.Sprint("q", i), rapid.Int64Range(0, 4).Draw(t, "count"), 0))
		}

		own := rapid.SampledFrom(quotas).Draw(t, "own")
		var others []string
		for _, q := range quotas {
			if count := *q.Spec.Cards[0].Quota; q != own && count > 0 {
				others = append(others, fmt.Sprintf("%d by %s", count, q.Name))
			}
		}

		slices.SortFunc(others, func(a, b string) int {
			if a[0] != b[0] { // the count, of one digit
				return int(b[0]) - int(a[0])
			}
			return strings.Compare(a, b)
		})

		for _, over := range Flat.QuotaTotals(quotas, nil, nil).OverAllocated(own) {
			var named []string
			for _, grant := range over.Others {
				named = append(named, fmt.Sprintf("%d by %s", grant.Count, grant.By))
			}
			first := min(len(others), maxNamedGrants)
			check.Equal(t, "named", fmt.Sprint(others[:first]), fmt.Sprint(named))
			check.Equal(t, "more", len(others)-first, over.MoreOthers)
		}
	})
}

// BenchmarkOverAllocated compares one of 1,000 CardQuotas of 20 over-allocated cards with the others,
// as its status does.
func BenchmarkOverAllocated(b *testing.B) {
	var quotas []*v1alpha1.CardQuota
	for i := range 1000 {
		quota := builder.CardQuota(fmt.Sprint("q", i))
		for model := range 20 {
			quota.Card(fmt.Sprint("M", model), int64(1+i%7))
		}
		quotas = append(quotas, quota.Obj())
	}

	totals := Flat.QuotaTotals(quotas, nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		check.Must(b, len(totals.OverAllocated(quotas[0])) == 20, "not all cards are over-allocated")
	}
}

// TestDenyRefusesRaisingBeyondWhatIsLeft: a CardQuota with overAllocation: Deny may not be created or raised beyond
// the cards that are left. Of 8 H200 b has 5, so 3 are left. Of 8 H800 c has 9, so none is left. What a CardQuota had
// before may stay, and any may be lowered. Each row has the cards that are refused.
func TestDenyRefusesRaisingBeyondWhatIsLeft(t *testing.T) {
	others := []*v1alpha1.CardQuota{newQuotaOfH200("b", 5, 0), newQuotaOfH200("c", 0, 0, withMoreCards("H800", 9))}
	healthy := cards{"H200": 8, "H800": 8}
	for t, tc := range check.Cases(t, map[string]struct {
		before, after *v1alpha1.CardQuota
		want          []card.Name
	}{
		"created with 3": {
			after: newQuotaOfH200("a", 3, 0, withDeny),
		},
		"created with 4": {
			after: newQuotaOfH200("a", 4, 0, withDeny),
			want:  []card.Name{"H200"},
		},
		"created with 4 and without Deny": {
			after: newQuotaOfH200("a", 4, 0),
		},
		"raised from 1 to 3": {
			before: newQuotaOfH200("a", 1, 0, withDeny),
			after:  newQuotaOfH200("a", 3, 0, withDeny),
		},
		"raised from 3 to 4": {
			before: newQuotaOfH200("a", 3, 0, withDeny),
			after:  newQuotaOfH200("a", 4, 0, withDeny),
			want:   []card.Name{"H200"},
		},
		"kept at 9": {
			before: newQuotaOfH200("a", 9, 0, withDeny),
			after:  newQuotaOfH200("a", 9, 0, withDeny),
		},
		"lowered from 9 to 4": {
			before: newQuotaOfH200("a", 9, 0, withDeny),
			after:  newQuotaOfH200("a", 4, 0, withDeny),
		},
		"kept at 9, and Deny is new": {
			before: newQuotaOfH200("a", 9, 0),
			after:  newQuotaOfH200("a", 9, 0, withDeny),
		},
		"raised from 9 to 10, and Deny is new": {
			before: newQuotaOfH200("a", 9, 0),
			after:  newQuotaOfH200("a", 10, 0, withDeny),
			want:   []card.Name{"H200"},
		},
		"raised from 3 to 9, and Deny is removed": {
			before: newQuotaOfH200("a", 3, 0, withDeny),
			after:  newQuotaOfH200("a", 9, 0),
		},
		"H800 is added, of which none is left": {
			before: newQuotaOfH200("a", 3, 0, withDeny),
			after:  newQuotaOfH200("a", 3, 0, withDeny, withMoreCards("H800", 1)),
			want:   []card.Name{"H800"},
		},
		"H200 is lowered, and H800 raised": {
			before: newQuotaOfH200("a", 9, 0, withDeny, withMoreCards("H800", 1)),
			after:  newQuotaOfH200("a", 8, 0, withDeny, withMoreCards("H800", 2)),
			want:   []card.Name{"H800"},
		},
		"created with 0": {
			after: newQuotaOfH200("a", 0, 0, withDeny, withMoreCards("H800", 0)),
		},
		"created for the queue of b: the 5 of b do not count beside it": {
			after: newQuotaOfH200("late", 8, 1, withDeny, withQueueName("b")), // a queue has one quota
		},
	}) {
		all := others
		if tc.before != nil {
			all = append(all[:len(all):len(all)], tc.before)
		}

		var got []card.Name
		for _, e := range Flat.QuotaTotals(all, nil, healthy).Denied(tc.before, tc.after) {
			got = append(got, e.Card)
		}
		check.Equal(t, "denied", tc.want, got)
	}
}

// TestChangedQueuesAreThoseWithAnotherExcess: the operator computes the status of a CardQuota again when
// ChangedQueues names it. Between two random states of quotas and cards, it names each CardQuota whose message
// changed though its own spec did not. It names none if nothing is over-allocated, or if nothing changed.
func TestChangedQueuesAreThoseWithAnotherExcess(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		quotasBefore, before := drawQuotaTotals(t, "before")
		quotasAfter, after := drawQuotaTotals(t, "after")
		changed, _ := after.ChangedQueues(before)
		for i, quota := range quotasAfter {
			if i < len(quotasBefore) && cmp.Equal(quotasBefore[i].Spec, quota.Spec) {
				first := DescribeOverAllocation(before.OverAllocated(quota))
				second := DescribeOverAllocation(after.OverAllocated(quota))
				check.Must(t, first == second || slices.Contains(changed, quota.Name), "%s: %q became %q, and only %v are returned",
					quota.Name, first, second, changed)
			}
		}

		isOverAllocated := func(totals *QuotaTotals, all []*v1alpha1.CardQuota) bool {
			return slices.ContainsFunc(all, func(q *v1alpha1.CardQuota) bool { return len(totals.OverAllocated(q)) > 0 })
		}
		check.Must(t, isOverAllocated(before, quotasBefore) || isOverAllocated(after, quotasAfter) || len(changed) == 0,
			"nothing is over-allocated, and %v are returned", changed)

		again, _ := after.ChangedQueues(after)
		check.Equal(t, "queues that are returned after nothing changed", 0, len(again))
	})
}

// drawQuotaTotals draws up to four CardQuotas of H200 and H800, and the healthy cards.
func drawQuotaTotals(t *rapid.T, label string) ([]*v1alpha1.CardQuota, *QuotaTotals) {
	count := rapid.Int64Range(0, 4)
	var all []*v1alpha1.CardQuota
	for i := range rapid.IntRange(0, 4).Draw(t, label) {
		all = append(all, newQuotaOfH200(fmt.Sprint("q", i), count.Draw(t, "H200"), 0, withMoreCards("H800", count.Draw(t, "H800"))))
	}
	return all, Flat.QuotaTotals(all, nil, cards{
		"H200": card.Count(count.Draw(t, "healthy")) * 2,
		"H800": card.Count(count.Draw(t, "healthy")) * 2,
	})
}

// TestChangedQueuesFollowTheExcess: CardQuotas a and b grant H200, of which 8 are healthy; "7 + 1" are the quotas of
// a and b. A queue is named if it is over-allocated with other numbers, or with another youngest CardQuota that has
// Deny. The second result says whether the cards became over-allocated, or are no longer.
func TestChangedQueuesFollowTheExcess(t *testing.T) {
	// granting are the totals of a and b with 8 healthy cards.
	granting := func(a, b int64) *QuotaTotals {
		return Flat.QuotaTotals([]*v1alpha1.CardQuota{newQuotaOfH200("a", a, 0), newQuotaOfH200("b", b, 0)}, nil, cards{"H200": 8})
	}

	for t, tc := range check.Cases(t, map[string]struct {
		before, after *QuotaTotals
		want          []string
		wantTurned    bool
	}{
		"9 + 0, then 9 + 1: too many before and after": {
			before: granting(9, 0),
			after:  granting(9, 1),
			want:   []string{"a", "b"},
		},
		"7 + 1, then 9 + 1: too many now": {
			before:     granting(7, 1),
			after:      granting(9, 1),
			want:       []string{"a", "b"},
			wantTurned: true,
		},
		"9 + 1, then 7 + 1: not too many any more": {
			before:     granting(9, 1),
			after:      granting(7, 1),
			want:       []string{"a", "b"},
			wantTurned: true,
		},
		"9 + 1 before and after, and b, the youngest, has Deny now: the named CardQuota changes": {
			before: Flat.QuotaTotals([]*v1alpha1.CardQuota{
				newQuotaOfH200("a", 9, 0, withDeny),
				newQuotaOfH200("b", 1, 1),
			}, nil, cards{"H200": 8}),
			after: Flat.QuotaTotals([]*v1alpha1.CardQuota{
				newQuotaOfH200("a", 9, 0, withDeny),
				newQuotaOfH200("b", 1, 1, withDeny),
			}, nil, cards{"H200": 8}),
			want: []string{"a", "b"},
		},
		"6 + 1, then 1 + 6: never too many": {
			before: granting(6, 1),
			after:  granting(1, 6),
		},
		"9 + 1 before and after, and only 4 cards are healthy": {
			before: granting(9, 1),
			after:  Flat.QuotaTotals([]*v1alpha1.CardQuota{newQuotaOfH200("a", 9, 0), newQuotaOfH200("b", 1, 0)}, nil, cards{"H200": 4}),
			want:   []string{"a", "b"},
		},
	}) {
		changed, turned := tc.after.ChangedQueues(tc.before)
		check.Equal(t, "became over-allocated or stopped", tc.wantTurned, turned)
		check.Equal(t, "changed queues", tc.want, changed)
	}
}

// TestTheYoungestThatDeniesIsNamed: webhooks admit two CardQuotas at the same moment, which together grant too many.
// The message names the youngest that has overAllocation: Deny, because that one should not have been admitted. Each
// row has CardQuotas a and b of H200, of which 8 are healthy.
func TestTheYoungestThatDeniesIsNamed(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quotas []*v1alpha1.CardQuota
		want   string
	}{
		"both deny, and a was created an hour later": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 8, 1, withDeny), newQuotaOfH200("b", 8, 0, withDeny)},
			want:   "a",
		},
		"both deny, and were created in the same second: the later name": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 8, 0, withDeny), newQuotaOfH200("b", 8, 0, withDeny)},
			want:   "b",
		},
		"b is younger, and only warns": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 8, 0, withDeny), newQuotaOfH200("b", 8, 1)},
			want:   "a",
		},
		"b is younger, and grants 0": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 9, 0, withDeny), newQuotaOfH200("b", 0, 1, withDeny)},
			want:   "a",
		},
		"b is younger, and is being deleted": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 9, 0, withDeny), newQuotaOfH200("b", 8, 1, withDeny, beingDeleted)},
			want:   "a",
		},
		"b is younger, and waits for the queue of a": {
			quotas: []*v1alpha1.CardQuota{newQuotaOfH200("a", 9, 0, withDeny), newQuotaOfH200("b", 8, 1, withDeny, withQueueName("a"))},
			want:   "a",
		},
	}) {
		excesses := Flat.QuotaTotals(tc.quotas, nil, cards{"H200": 8}).OverAllocated(tc.quotas[0])
		check.Must(t, len(excesses) == 1, "over-allocated: %+v", excesses)

		check.Equal(t, "youngest", tc.want, excesses[0].Youngest)
	}
}

// TestARetainedQueueCounts: a Queue that is retained when its CardQuota is deleted keeps its quota, and the scheduler
// still enforces it. So the 6 H200 of Queue kept count beside the 4 of CardQuota a: 10 of 8 healthy cards. A new
// CardQuota for the queue counts in place of the Queue. A Queue of a CardQuota, with an empty quota, or with an
// unreadable one does not count.
func TestARetainedQueueCounts(t *testing.T) {
	queueWithQuota := func(name, text string) *v1beta1.Queue {
		return &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"volcano.sh/card.quota": text}}}
	}
	queues := []*v1beta1.Queue{
		queueWithQuota("kept", `{"H200":6}`),
		queueWithQuota("a", `{"H200":99}`),
		queueWithQuota("given-up", `{}`),
		queueWithQuota("spoilt", `{`),
		{}, // without a name and a quota
	}

	a := newQuotaOfH200("a", 4, 0)
	unowned := UnownedQuotas([]*v1alpha1.CardQuota{a}, queues)
	check.Equal(t, "queues without a CardQuota", map[string]card.Quota{"kept": {"H200": 6}}, unowned)
	totals := Flat.QuotaTotals([]*v1alpha1.CardQuota{a}, unowned, cards{"H200": 8})
	check.Equal(t, "over-allocated", "H200: 10 granted, 8 healthy, 2 too many (4 here, 6 by queue kept, which has no CardQuota)",
		DescribeOverAllocation(totals.OverAllocated(a)))

	// The CardQuota of the queue has 4: with the 4 of a no more than the 8.
	kept := newQuotaOfH200("kept", 4, 0)
	check.Equal(t, "over-allocated, for a CardQuota of the retained queue", "", DescribeOverAllocation(totals.OverAllocated(kept)))
	check.Equal(t, "queues without a CardQuota, beside that one", map[string]card.Quota{}, UnownedQuotas([]*v1alpha1.CardQuota{
		a,
		kept,
	}, queues))
}
