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

// mayUseBefore is what a queue may use of a name before the eviction of a pod that it knows at a
// level.
type mayUseBefore struct {
	queue string
	name  Resource
	level int
	m     Levels
}

// TestMayUseIsWhatFitsAfterAnEviction: before it evicts, the action that reclaims cards asks how much a queue may use at
// each level of the tree. It adds what a victim would release. A naive ledger, which recounts the pods, says what fits
// after the eviction. Trees, pods and the victim are random.
// (1) A request that is at most the sum at each level fits, if the queue deserves it: it reclaims nothing else.
// (2) A request that fits is at most the sum at each level. There is one exception: nodes check physical cards, so a
// request beyond those may fit the quotas where no guarantee is unused.
// Victims whose eviction would take from the guarantee of their own queues are skipped: reclaim does not evict them.
func TestMayUseIsWhatFitsAfterAnEviction(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		victim, p := h.drawCharged(t)
		if p.queue == "" || p.isEnd || p.isOff || p.isNotOffered { // no pod, or one that uses no cards of the inventory
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
		if queue != p.queue && slices.Contains(h.naive.pathOf(p.queue), queue) {
			continue // the pod's queue was deleted below it, and no queue reclaims from such pods
		}

		below := h.naive.treeOf(CPU).PathBelow(p.queue, queue)
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
		for i := range b.m {
			physical = b.m.Limit(i, n, b.level)
			if i >= b.level && physical != Unlimited {
				physical += p.amounts[b.name]
			}
			may = may && n <= physical
		}

		refusal := h.naive.findRefusal(b.queue, b.name, n, false)
		isDeserved := n <= b.m[0].Deserved
		check.Must(t, !may || !isDeserved || refusal == "", "(1) %d more %s in %s do not fit (%s) after a pod of %s, and levels %+v leave them", n, b.name, b.queue, refusal, p.queue, b.m)
		check.Must(t, refusal != "" || may || h.fitsBeyondInventory(b.queue, b.name, n, physical), "(2) %d more %s in %s fit after a pod of %s, and levels %+v do not leave them", n, b.name, b.queue, p.queue, b.m)
	}
}

// TestSiblingsGiveTheGuaranteeOfTheirParentBack: the nodes have 5 A, and all are in use:
//
//	top ── tenant (guaranteed 1) ── serving (needs 1)
//	                             └─ batch (uses 1)
//	other (guaranteed 1)
//	third (uses 4)
//
// Batch uses the card that tenant is guaranteed. So serving gets a card if batch's pod is evicted, unless the quota of
// top is 0. It gets none if a pod of third is evicted, since the first free card is guaranteed to other.
// Limit(level, 1, victimLevel) is what a level leaves serving for 1 A. To that comes what the victims release. Victims
// of tenantLevel are siblings of serving, those of rootLevel are other queues.
func TestSiblingsGiveTheGuaranteeOfTheirParentBack(t *testing.T) {
	const (
		tenantLevel = iota + 1
		topLevel
		rootLevel
	)

	for quotaOfTop, wantOfTop := range map[card.Count]int64{8: 8 - 1, 1: 0, 0: -1} {
		tree := map[string]position{"top": {}, "tenant": {parent: "top"}, "serving": {parent: "tenant"}, "batch": {parent: "tenant"}, "other": {}, "third": {}}
		l := newTreeLedger(tree, map[string]Limits{
			"top":     {Cards: card.Quota{"A": quotaOfTop}},
			"tenant":  {Cards: card.Quota{"A": 8}, Guarantee: Amounts{"A": 1}},
			"serving": {Cards: card.Quota{"A": 8}},
			"batch":   {Cards: card.Quota{"A": 8}},
			"other":   {Cards: card.Quota{"A": 8}, Guarantee: Amounts{"A": 1}},
			"third":   {Cards: card.Quota{"A": 8}},
		}, card.Quota{"A": 5})

		l.Charge("pod of batch", newCharge("batch", "A", 1))
		l.Charge("pod of third", newCharge("third", "A", 4))
		m := l.MayUseByLevel("serving", "A")
		check.Equal(t, fmt.Sprintf("free at top with a quota of %d", quotaOfTop), wantOfTop, m.Limit(topLevel, 1, tenantLevel))
		check.Equal(t, "free at root beside what siblings release: 1 guaranteed to tenant - 1 used by batch", 0, m.Limit(rootLevel, 1, tenantLevel))
		check.Equal(t, "free at root beside what third releases: 5 - 5 used - 1 guaranteed to other", -1, m.Limit(rootLevel, 1, rootLevel))

		l.Release("pod of batch")
		check.Equal(t, fmt.Sprintf("serving fits after the eviction, top has %d", quotaOfTop), quotaOfTop >= 1, mostA(l, "serving", QuotaLeft) >= 1)
	}
}
