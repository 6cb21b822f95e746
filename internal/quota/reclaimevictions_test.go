package quota

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// mayUseBefore is what a queue may use of a name before the eviction of a pod that it knows at a
// level.
type mayUseBefore struct {
	queue string
	name  card.Name
	level int
	m     MayUse
}

// TestMayUseIsWhatFitsAfterAnEviction: a request fits after the eviction of a pod exactly if it is
// at most what each level leaves and what the pod releases there. Evictions leave all guarantees,
// so the queues of the victim keep theirs. The exception is that of TestMayUseIsWhatFits.
func TestMayUseIsWhatFitsAfterAnEviction(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		victim, p := h.drawCharged(t)
		if p.queue == "" || p.isEnd || p.isOff || p.isNotOffered {
			return
		}

		before := h.mayUseBefore(p)
		h.ledger.Release(victim)
		delete(h.naive.pods, victim)
		for _, b := range before {
			h.checkAfterEviction(t, b, p)
		}
	})
}

// mayUseBefore returns what other queues may use of the names of a pod, where its eviction leaves
// the guarantees of its queues.
func (h *treeTest) mayUseBefore(p naivePod) (before []mayUseBefore) {
	for _, queue := range h.leaves() {
		path := h.naive.path(queue)
		if queue != p.queue && slices.Contains(h.naive.path(p.queue), queue) {
			continue // the pod's queue was deleted below it, and no queue reclaims from such pods
		}

		below := slices.DeleteFunc(h.naive.path(p.queue), func(at string) bool { return slices.Contains(path, at) })
		for _, name := range treeNames {
			takesGuarantee := func(at string) bool {
				return h.naive.used(at, name)-p.amounts[name] < h.naive.limits[at].Guarantee[name]
			}
			if len(below) > 0 && p.amounts[name] > 0 && !slices.ContainsFunc(below, takesGuarantee) {
				before = append(before, mayUseBefore{queue, name, h.naive.naiveLevel(queue, p.queue), h.ledger.MayUseByLevel(queue, name)})
			}
		}
	}
	return before
}

// checkAfterEviction compares what a queue may use with what fits after the eviction of a pod.
func (h *treeTest) checkAfterEviction(t *rapid.T, b mayUseBefore, p naivePod) {
	for n := int64(1); n <= 8; n++ {
		may := true
		physical := int64(0)
		for i := range b.m.Quota {
			physical = b.m.Limit(i, n, b.level)
			if i >= b.level && physical != Unlimited {
				physical += p.amounts[b.name]
			}
			may = may && n <= physical
		}

		refusal := h.naive.refusal(b.queue, b.name, n, false)
		check.Must(t, !may || n > b.m.Deserved[0] || refusal == "", "%d more %s in %s do not fit (%s) after a pod of %s, and levels %+v leave them", n, b.name, b.queue, refusal, p.queue, b.m)
		check.Must(t, refusal != "" || may || h.fitsBeyondInventory(b.queue, b.name, n, physical), "%d more %s in %s fit after a pod of %s, and levels %+v do not leave them", n, b.name, b.queue, p.queue, b.m)
	}
}

// TestSiblingsGiveTheGuaranteeOfTheirParentBack: batch uses what its tenant is guaranteed. All other
// cards are used or guaranteed to other tenants. After the eviction of one pod of batch, serving fits.
// An eviction further up opens no guarantee, and the quota of the top queue still counts.
func TestSiblingsGiveTheGuaranteeOfTheirParentBack(t *testing.T) {
	for quotaOfTop, want := range map[card.Count]int64{8: 7, 1: 0, 0: -1} {
		tree := map[string]Position{"top": {}, "tenant": {Parent: "top"}, "serving": {Parent: "tenant"}, "batch": {Parent: "tenant"}, "other": {}, "third": {}}
		l := newTreeLedger(tree, map[string]Limits{
			"top":     {Cards: card.Quota{"A": quotaOfTop}, Deserved: Amounts{"A": 4}},
			"tenant":  {Cards: card.Quota{"A": 8}, Deserved: Amounts{"A": 4}, Guarantee: Amounts{"A": 1}},
			"serving": {Cards: card.Quota{"A": 8}, Deserved: Amounts{"A": 2}},
			"batch":   {Cards: card.Quota{"A": 8}},
			"other":   {Cards: card.Quota{"A": 8}, Guarantee: Amounts{"A": 1}},
			"third":   {Cards: card.Quota{"A": 8}},
		}, card.Quota{"A": 5})

		l.Charge("b", &Charge{Queue: "batch", Cards: []card.Amount{{Name: "A", Count: 1}}})
		l.Charge("t", &Charge{Queue: "third", Cards: []card.Amount{{Name: "A", Count: 4}}})
		m := l.MayUseByLevel("serving", "A")
		check.Must(t, m.Limit(2, 1, 1) == want, "serving may use %d of top's %d beside what siblings release, want %d", m.Limit(2, 1, 1), quotaOfTop, want)
		check.Must(t, m.Limit(3, 1, 1) == 0 && m.Limit(3, 1, 3) == -1, "serving may use %d beside what siblings release, and %d beside what others release", m.Limit(3, 1, 1), m.Limit(3, 1, 3))

		l.Release("b")
		fits := l.FitsCard("serving", "A", 1, false)
		check.Must(t, fits == (want >= 0), "serving fits after the eviction: %v", fits)
	}
}
