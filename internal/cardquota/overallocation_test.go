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

// grants is a CardQuota of one card name, made at an hour.
func grants(name string, count int64, hour int, changes ...func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	quota := builder.CardQuota(name).Created(noon.Add(time.Duration(hour)*time.Hour)).Card("H200", count).Obj()
	for _, change := range changes {
		change(quota)
	}
	return quota
}

func ofQueue(name string) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) { q.Spec.QueueName = name }
}

func leaving(q *v1alpha1.CardQuota) { q.DeletionTimestamp = &metav1.Time{Time: noon} }

func denying(q *v1alpha1.CardQuota) { q.Spec.OverAllocation = v1alpha1.OverAllocationDeny }

func and(name string, count int64) func(*v1alpha1.CardQuota) {
	return func(q *v1alpha1.CardQuota) {
		q.Spec.Cards = append(q.Spec.Cards, v1alpha1.Card{Name: name, Quota: ptr(count)})
	}
}

func allowing(q *v1alpha1.CardQuota) { q.Spec.OverAllocation = v1alpha1.OverAllocationAllow }

func TestOverAllocationIsAllowedByAll(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quotas []*v1alpha1.CardQuota
		want   bool
	}{
		"no CardQuota":                        {nil, false},
		"all allow it":                        {[]*v1alpha1.CardQuota{grants("a", 5, 0, allowing), grants("b", 5, 0, allowing)}, true},
		"one warns":                           {[]*v1alpha1.CardQuota{grants("a", 5, 0, allowing), grants("b", 5, 0)}, false},
		"one denies":                          {[]*v1alpha1.CardQuota{grants("a", 5, 0, denying), grants("b", 5, 0, allowing)}, false},
		"one warns that grants none":          {[]*v1alpha1.CardQuota{grants("a", 5, 0, allowing), grants("b", 0, 0)}, true},
		"one warns that grants another card":  {[]*v1alpha1.CardQuota{grants("a", 5, 0, allowing), grants("b", 0, 0, and("H800", 1))}, true},
		"one warns that is being deleted":     {[]*v1alpha1.CardQuota{grants("a", 5, 0, allowing), grants("b", 5, 0, leaving)}, true},
		"one warns that waits for its queue":  {[]*v1alpha1.CardQuota{grants("a", 5, 0, allowing), grants("b", 5, 1, ofQueue("a"))}, true},
		"one allows it that grants no card":   {[]*v1alpha1.CardQuota{grants("a", 0, 0, allowing)}, false},
		"only one that is being deleted does": {[]*v1alpha1.CardQuota{grants("a", 5, 0, allowing, leaving)}, false},
	}) {
		totals := NewQuotaTotals(tc.quotas, map[string]card.Quota{"byhand": {"H200": 9}}, cards{"H200": 8})
		check.Equal(t, "allowed", tc.want, totals.AllowsOverAllocation("H200"))
	}

	child := grants("child", 5, 0, func(q *v1alpha1.CardQuota) { q.Spec.Parent = "top" })
	totals := NewTreeTotals([]*v1alpha1.CardQuota{grants("top", 9, 0, allowing), child}, nil, cards{"H200": 8})
	check.That(t, totals.AllowsOverAllocation("H200"), "a child in a tree grants nothing itself")
}

func TestOverAllocated(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota   *v1alpha1.CardQuota
		others  []*v1alpha1.CardQuota
		healthy cards
		want    string
	}{
		"as many as there are":             {grants("a", 5, 0), []*v1alpha1.CardQuota{grants("b", 3, 0)}, cards{"H200": 8}, ""},
		"one too many":                     {grants("a", 6, 0), []*v1alpha1.CardQuota{grants("b", 3, 0)}, cards{"H200": 8}, "H200: 9 granted, 8 healthy, 1 too many (6 here, 3 by b)"},
		"alone too many":                   {grants("a", 9, 0), nil, cards{"H200": 8}, "H200: 9 granted, 8 healthy, 1 too many (9 here)"},
		"a card that no node has":          {grants("a", 1, 0), nil, cards{"H800": 8}, "H200: 1 granted, 0 healthy, 1 too many (1 here)"},
		"no quota for it is no excess":     {grants("a", 0, 0), []*v1alpha1.CardQuota{grants("b", 9, 0)}, cards{"H200": 8}, ""},
		"the excess of others elsewhere":   {grants("a", 8, 0), []*v1alpha1.CardQuota{grants("b", 0, 0, and("H800", 9))}, cards{"H200": 8, "H800": 8}, ""},
		"two cards":                        {grants("a", 9, 0, and("A800", 1)), nil, cards{"H200": 8}, "A800: 1 granted, 0 healthy, 1 too many (1 here); H200: 9 granted, 8 healthy, 1 too many (9 here)"},
		"of others the largest come first": {grants("a", 1, 0), []*v1alpha1.CardQuota{grants("b", 2, 0), grants("c", 5, 0), grants("d", 2, 0)}, cards{"H200": 8}, "H200: 10 granted, 8 healthy, 2 too many (1 here, 5 by c, 2 by b, 2 by d)"},
		"many others are counted":          {grants("a", 5, 0), []*v1alpha1.CardQuota{grants("b", 1, 0), grants("c", 1, 0), grants("d", 1, 0), grants("e", 1, 0), grants("f", 1, 0)}, cards{"H200": 8}, "H200: 10 granted, 8 healthy, 2 too many (5 here, 1 by b, 1 by c, 1 by d, the rest by 2 more)"},
		"it counts as it is given":         {grants("a", 8, 0), []*v1alpha1.CardQuota{grants("a", 100, 0)}, cards{"H200": 8}, ""},
		"who waits for a queue grants nothing": {grants("a", 3, 0), []*v1alpha1.CardQuota{grants("b", 5, 0), grants("late", 5, 1, ofQueue("b"))},
			cards{"H200": 8}, ""},
		"who has the same queue grants nothing beside it": {grants("late", 8, 1, ofQueue("b")), []*v1alpha1.CardQuota{grants("b", 5, 0)}, cards{"H200": 8}, ""},
		"who goes grants nothing":                         {grants("a", 8, 0), []*v1alpha1.CardQuota{grants("b", 5, 0, leaving)}, cards{"H200": 8}, ""},
		"the next one of its queue does": {grants("a", 8, 0), []*v1alpha1.CardQuota{grants("b", 5, 0, leaving), grants("late", 1, 1, ofQueue("b"))},
			cards{"H200": 8}, "H200: 9 granted, 8 healthy, 1 too many (8 here, 1 by late)"},
		"what goes is not in excess": {grants("a", 9, 0, leaving), nil, cards{"H200": 8}, ""},
	}) {
		check.Equal(t, "over-allocated", tc.want, DescribeOverAllocation(NewQuotaTotals(tc.others, nil, tc.healthy).OverAllocated(tc.quota)))
	}
}

// TestOtherGrantsAreTheLargest compares with sorting all grants.
func TestOtherGrantsAreTheLargest(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		var quotas []*v1alpha1.CardQuota
		for i := range rapid.IntRange(1, 9).Draw(t, "quotas") {
			quotas = append(quotas, grants(fmt.Sprint("q", i), rapid.Int64Range(0, 4).Draw(t, "count"), 0))
		}

		own := rapid.SampledFrom(quotas).Draw(t, "own")
		var others []string
		for _, q := range quotas {
			if count := *q.Spec.Cards[0].Quota; q != own && count > 0 {
				others = append(others, fmt.Sprintf("%d by %s", count, q.Name))
			}
		}

		slices.SortFunc(others, func(a, b string) int {
			if a[0] != b[0] {
				return int(b[0]) - int(a[0])
			}
			return strings.Compare(a, b)
		})

		for _, over := range NewQuotaTotals(quotas, nil, nil).OverAllocated(own) {
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

	totals := NewQuotaTotals(quotas, nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		check.Must(b, len(totals.OverAllocated(quotas[0])) == 20, "not all cards are over-allocated")
	}
}

func TestDenied(t *testing.T) {
	others := []*v1alpha1.CardQuota{grants("b", 5, 0), grants("c", 0, 0, and("H800", 9))}
	healthy := cards{"H200": 8, "H800": 8}
	for t, tc := range check.Cases(t, map[string]struct {
		before, after *v1alpha1.CardQuota
		want          []card.Name
	}{
		"made with what is left":                      {nil, grants("a", 3, 0, denying), nil},
		"made with more":                              {nil, grants("a", 4, 0, denying), []card.Name{"H200"}},
		"made with more, which may be":                {nil, grants("a", 4, 0), nil},
		"raised to what is left":                      {grants("a", 1, 0, denying), grants("a", 3, 0, denying), nil},
		"raised beyond":                               {grants("a", 3, 0, denying), grants("a", 4, 0, denying), []card.Name{"H200"}},
		"kept beyond":                                 {grants("a", 9, 0, denying), grants("a", 9, 0, denying), nil},
		"lowered beyond":                              {grants("a", 9, 0, denying), grants("a", 4, 0, denying), nil},
		"beyond before, and denying now":              {grants("a", 9, 0), grants("a", 9, 0, denying), nil},
		"raised and denying at once":                  {grants("a", 9, 0), grants("a", 10, 0, denying), []card.Name{"H200"}},
		"raised and no longer denying":                {grants("a", 3, 0, denying), grants("a", 9, 0), nil},
		"another card, of which there are too few":    {grants("a", 3, 0, denying), grants("a", 3, 0, denying, and("H800", 1)), []card.Name{"H800"}},
		"lowered one, raised the other":               {grants("a", 9, 0, denying, and("H800", 1)), grants("a", 8, 0, denying, and("H800", 2)), []card.Name{"H800"}},
		"a card without quota":                        {nil, grants("a", 0, 0, denying, and("H800", 0)), nil},
		"the same queue had it under another's quota": {nil, grants("late", 8, 1, denying, ofQueue("b")), nil},
	}) {
		all := others
		if tc.before != nil {
			all = append(all[:len(all):len(all)], tc.before)
		}

		var got []card.Name
		for _, e := range NewQuotaTotals(all, nil, healthy).Denied(tc.before, tc.after) {
			got = append(got, e.Card)
		}
		check.Equal(t, "denied", tc.want, got)
	}
}

// TestChangedQueuesAreThoseWithAnotherExcess: a queue is returned if its excess changed without a change of its
// own, and none is if no card is over-allocated.
func TestChangedQueuesAreThoseWithAnotherExcess(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		was, old := drawBalance(t, "before")
		is, fresh := drawBalance(t, "after")
		moved, _ := fresh.ChangedQueues(old)
		for i, quota := range is {
			if i < len(was) && cmp.Equal(was[i].Spec, quota.Spec) {
				first := DescribeOverAllocation(old.OverAllocated(quota))
				second := DescribeOverAllocation(fresh.OverAllocated(quota))
				check.Must(t, first == second || slices.Contains(moved, quota.Name), "%s: %q became %q, and only %v are returned", quota.Name, first, second, moved)
			}
		}

		short := func(b *QuotaTotals, all []*v1alpha1.CardQuota) bool {
			return slices.ContainsFunc(all, func(q *v1alpha1.CardQuota) bool { return len(b.OverAllocated(q)) > 0 })
		}
		check.Must(t, short(old, was) || short(fresh, is) || len(moved) == 0, "nothing is over-allocated, and %v are returned", moved)

		again, _ := fresh.ChangedQueues(fresh)
		check.Equal(t, "queues that are returned after nothing changed", 0, len(again))
	})
}

func drawBalance(t *rapid.T, label string) ([]*v1alpha1.CardQuota, *QuotaTotals) {
	count := rapid.Int64Range(0, 4)
	var all []*v1alpha1.CardQuota
	for i := range rapid.IntRange(0, 4).Draw(t, label) {
		all = append(all, grants(fmt.Sprint("q", i), count.Draw(t, "H200"), 0, and("H800", count.Draw(t, "H800"))))
	}
	return all, NewQuotaTotals(all, nil, cards{"H200": card.Count(count.Draw(t, "healthy")) * 2, "H800": card.Count(count.Draw(t, "healthy")) * 2})
}

func TestMoved(t *testing.T) {
	of := func(a, b int64) *QuotaTotals {
		return NewQuotaTotals([]*v1alpha1.CardQuota{grants("a", a, 0), grants("b", b, 0)}, nil, cards{"H200": 8})
	}

	for t, tc := range check.Cases(t, map[string]struct {
		before, after *QuotaTotals
		want          []string
		turned        bool
	}{
		"more too many":      {of(9, 0), of(9, 1), []string{"a", "b"}, false},
		"too many":           {of(7, 1), of(9, 1), []string{"a", "b"}, true},
		"no longer too many": {of(9, 1), of(7, 1), []string{"a", "b"}, true},
		"another is the youngest": {
			NewQuotaTotals([]*v1alpha1.CardQuota{grants("a", 9, 0, denying), grants("b", 1, 1)}, nil, cards{"H200": 8}),
			NewQuotaTotals([]*v1alpha1.CardQuota{grants("a", 9, 0, denying), grants("b", 1, 1, denying)}, nil, cards{"H200": 8}), []string{"a", "b"}, false,
		},
		"others, but not enough": {of(6, 1), of(1, 6), nil, false},
		"fewer cards":            {of(9, 1), NewQuotaTotals([]*v1alpha1.CardQuota{grants("a", 9, 0), grants("b", 1, 0)}, nil, cards{"H200": 4}), []string{"a", "b"}, false},
	}) {
		moved, turned := tc.after.ChangedQueues(tc.before)
		check.Equal(t, "turned", tc.turned, turned)
		check.Equal(t, "moved", tc.want, moved)
	}
}

// TestTheYoungestThatDeniesIsNamed: of two that were admitted at the same moment.
func TestTheYoungestThatDeniesIsNamed(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quotas []*v1alpha1.CardQuota
		want   string
	}{
		"the later one":                  {[]*v1alpha1.CardQuota{grants("a", 8, 1, denying), grants("b", 8, 0, denying)}, "a"},
		"of one second, the later name":  {[]*v1alpha1.CardQuota{grants("a", 8, 0, denying), grants("b", 8, 0, denying)}, "b"},
		"not one that only warns":        {[]*v1alpha1.CardQuota{grants("a", 8, 0, denying), grants("b", 8, 1)}, "a"},
		"not one that grants none":       {[]*v1alpha1.CardQuota{grants("a", 9, 0, denying), grants("b", 0, 1, denying)}, "a"},
		"not one that is being deleted":  {[]*v1alpha1.CardQuota{grants("a", 9, 0, denying), grants("b", 8, 1, denying, leaving)}, "a"},
		"not one that waits for a queue": {[]*v1alpha1.CardQuota{grants("a", 9, 0, denying), grants("b", 8, 1, denying, ofQueue("a"))}, "a"},
	}) {
		excesses := NewQuotaTotals(tc.quotas, nil, cards{"H200": 8}).OverAllocated(tc.quotas[0])
		check.Must(t, len(excesses) == 1, "over-allocated: %+v", excesses)

		check.Equal(t, "youngest", tc.want, excesses[0].Youngest)
	}
}

func TestInventorySatisfied(t *testing.T) {
	others := []*v1alpha1.CardQuota{team(), grants("b", 5, 0, denying, func(q *v1alpha1.CardQuota) { q.Spec.Cards[0].Name = "NVIDIA-H200" })}
	const sum = "NVIDIA-H200: 13 granted, 10 healthy, 3 too many (8 here, 5 by b)"
	for t, tc := range check.Cases(t, map[string]struct {
		over    v1alpha1.OverAllocation
		healthy card.Count
		want    string
	}{
		"enough, Warn":     {v1alpha1.OverAllocationWarn, 13, "True/InventorySatisfied: all CardQuotas together grant no more of these cards than healthy nodes have"},
		"enough, Deny":     {v1alpha1.OverAllocationDeny, 13, "True/InventorySatisfied: all CardQuotas together grant no more of these cards than healthy nodes have"},
		"too few, Warn":    {v1alpha1.OverAllocationWarn, 10, "False/OverAllocated: " + sum + ": the quotas are enforced as written; lower some, add cards, or set overAllocation to Allow"},
		"too few, not set": {"", 10, "False/OverAllocated: " + sum + ": the quotas are enforced as written; lower some, add cards, or set overAllocation to Allow"},
		"too few, Allow":   {v1alpha1.OverAllocationAllow, 10, "True/OverAllocationAllowed: " + sum + ": overAllocation allows it"},
		"too few, Deny":    {v1alpha1.OverAllocationDeny, 10, "False/OverAllocated: " + sum + ": existing quotas stay, but overAllocation denies raising them; the youngest CardQuota with overAllocation Deny is b (NVIDIA-H200)"},
	}) {
		f := facts(nil, nil)
		f.Quota.Spec.OverAllocation = tc.over
		f.Totals = NewQuotaTotals(others, nil, cards{"NVIDIA-H200": tc.healthy, "NVIDIA-H800": 2})
		status := NewStatus(f)
		check.Equal(t, "condition", tc.want, said(status, "InventorySatisfied"))

		got := said(status, "Ready")
		check.That(t, strings.HasPrefix(got, "True/Ready"), "Ready is touched: %q", got)

		var events []string
		for _, e := range Events(v1alpha1.CardQuotaStatus{}, status) {
			if e.Reason == v1alpha1.ReasonOverAllocated {
				events = append(events, e.Type+" "+e.Message)
			}
		}

		told := strings.HasPrefix(tc.want, "False")
		check.That(t, told == (len(events) == 1) && (!told || strings.HasPrefix(events[0], "Warning "+sum)), "events %q", events)
	}
}

// said is a condition in one line.
func said(status v1alpha1.CardQuotaStatus, kind string) string {
	for _, c := range status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

func TestInventorySatisfiedAtTheEdges(t *testing.T) {
	t.Run("not counted yet", func(t *testing.T) {
		check.Equal(t, "condition", "", said(NewStatus(facts(nil, nil)), "InventorySatisfied"))
	})

	t.Run("another one has the queue", func(t *testing.T) {
		f := facts(nil, nil)
		f.Sync = QueueConflictCondition("team", "older")
		f.Totals = NewQuotaTotals(nil, nil, nil)
		check.Equal(t, "condition", "Unknown/NotCounted: this CardQuota does not own its queue, so its usage is not counted", said(NewStatus(f), "InventorySatisfied"))
	})

	t.Run("a long list ends with what it means", func(t *testing.T) {
		f := facts(nil, nil)
		f.Quota.Spec.Cards = nil
		for i := range 64 {
			f.Quota.Spec.Cards = append(f.Quota.Spec.Cards, v1alpha1.Card{Name: fmt.Sprintf("MODEL-%d-%s", i, strings.Repeat("x", 40)), Quota: ptr(int64(1))})
		}
		f.Totals = NewQuotaTotals(nil, nil, nil)
		got := said(NewStatus(f), "InventorySatisfied")
		check.That(t, len(got) <= 1100 && strings.HasSuffix(got, "set overAllocation to Allow"), "%d bytes, ending with %q", len(got), got[max(0, len(got)-60):])
	})
}

// TestARetainedQueueCounts: the scheduler goes on giving its cards away.
func TestARetainedQueueCounts(t *testing.T) {
	written := func(name, text string) *v1beta1.Queue {
		return &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"volcano.sh/card.quota": text}}}
	}
	queues := []*v1beta1.Queue{written("kept", `{"H200":6}`), written("a", `{"H200":99}`), written("given-up", `{}`), written("spoilt", `{`), {}}

	a := grants("a", 4, 0)
	unowned := UnownedQuotas([]*v1alpha1.CardQuota{a}, queues)
	check.Equal(t, "queues without a CardQuota", map[string]card.Quota{"kept": {"H200": 6}}, unowned)
	balance := NewQuotaTotals([]*v1alpha1.CardQuota{a}, unowned, cards{"H200": 8})
	check.Equal(t, "over-allocated", "H200: 10 granted, 8 healthy, 2 too many (4 here, 6 by queue kept, which has no CardQuota)", DescribeOverAllocation(balance.OverAllocated(a)))

	// Its CardQuota comes again: it counts in the place of the queue.
	kept := grants("kept", 4, 0)
	check.Equal(t, "over-allocated with its CardQuota", "", DescribeOverAllocation(balance.OverAllocated(kept)))
	check.Equal(t, "queues without a CardQuota then", map[string]card.Quota{}, UnownedQuotas([]*v1alpha1.CardQuota{a, kept}, queues))
}
