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

// firstOf returns the first limit that a request exceeds, nil if it fits.
func firstOf(all []InsufficientQuota) *InsufficientQuota {
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// TestCheckAnswersLikeARecount: Check says which limits a request exceeds, and Fits whether it exceeds none. A
// naive ledger, which counts from scratch, says that for each card, CPU and memory alone. It counts without the
// released pods, or with them as terminating pods. A bound is what the request has to fit: what is left of the
// quotas, what would be left in an idle tree, or what the queue deserves. The tree, its pods, the released ones
// and the request are random. The request may be of a pod from which other queues cannot reclaim.
// (1) Check refuses one card if no card of the request fits, and CPU and memory each if they do not.
// (2) Fits agrees with Check, and for each card of the request with the naive ledger.
// (3) A refusal names a queue of the path, a card of the request, and numbers that exceed its limit. It has a
// grace period exactly if terminating pods are its reason.
// (4) What the queue uses above what it deserves, and above its guarantee, is what a recount says (checkAbove).
func TestCheckAnswersLikeARecount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newTreeTest(t)
		for range rapid.IntRange(0, 15).Draw(t, "steps") {
			h.step(t)
		}

		for _, queue := range h.leaves() {
			h.checkAbove(t, queue)
			request := drawRequest(t)
			request.IsUnreclaimable = rapid.Bool().Draw(t, "unreclaimable")
			released, after := h.drawReleased(t, queue)
			for bound := QuotaLeft; bound <= ReclaimableAll; bound++ {
				c := checkTest{h: h, queue: queue, request: request, within: Within{bound, released}, after: after}
				c.compareAnswers(t)
			}
		}
	})
}

// checkTest is one call of Check, and the naive ledger after what is released.
type checkTest struct {
	h       *treeTest
	queue   string
	request Request
	within  Within
	after   *naiveLedger
}

// findRefusal returns why the naive ledger refuses a resource of the request, "" if it does not.
func (c *checkTest) findRefusal(name Resource) string {
	count := c.request.Amount(name)
	if count <= 0 {
		return ""
	}

	fits := true
	switch c.within.Bound {
	case QuotaLeft:
		return c.after.findRefusal(c.queue, name, count, c.request.IsUnreclaimable)
	case QuotaIfIdle:
		fits = c.h.fitsIfIdle(c.queue, name, count)
	case DeservedLeft:
		fits = c.after.deservesAlso(c.queue, name, count)
	case ReclaimableCards:
		fits = c.after.isWithinDeserved(c.queue, name, count)
		if !naiveIsCard(name) {
			fits = c.after.isWithinQuota(c.queue, name, count)
		}
	case ReclaimableAll:
		fits = c.after.isWithinDeserved(c.queue, name, count)
	}

	if fits {
		return ""
	}
	return "does not fit"
}

// deservesAlso reports whether a queue deserves so many more, whatever else keeps it from using them.
func (n *naiveLedger) deservesAlso(queue string, name Resource, count int64) bool {
	if naiveIsCard(name) && n.limits[queue].AnyCard {
		return false // a queue without quota deserves nothing
	}
	return !n.treeOf(name).IsAboveDeserved(queue, n.use(name, naivePod.isPlaced).With(queue, count))
}

// fitsIfIdle reports whether so many more fit each level of the path, beside what is guaranteed to others there, if no
// queue used more than its guarantee. A guarantee of a level below that others leave unused covers them, too.
func (h *treeTest) fitsIfIdle(queue string, name Resource, count int64) bool {
	covered := int64(0)
	for _, at := range append(h.naive.pathOf(queue), "") {
		limit := h.naive.quotaOf(at, name)
		left := max(limit-h.guaranteedToOthers(at, queue, name), covered)
		if limit != Unlimited && count > min(limit, left) {
			return false
		}
		covered = max(covered, h.naive.limits[at].Guarantee[name]-(h.naive.used(at, name)-h.naive.used(queue, name)))
	}
	return true
}

// compareAnswers compares what the ledger answers to a request with what the naive one does.
func (c *checkTest) compareAnswers(t *rapid.T) {
	isRefused := func(name card.Name) bool { return c.findRefusal(Resource(name)) != "" }
	var want []string
	if c.request.Count > 0 && !slices.ContainsFunc(c.request.Names, func(name card.Name) bool { return !isRefused(name) }) {
		want = append(want, "")
	}

	for _, name := range Compute {
		if c.findRefusal(name) != "" {
			want = append(want, string(name))
		}
	}

	var got []string
	all := c.h.ledger.Check(c.queue, c.request, c.within)
	for _, s := range all {
		got = append(got, string(s.Of))
		c.checkWords(t, s)
		check.Must(t, !s.Of.IsCard() || (len(s.Names) == 1 && slices.Contains(c.request.Names, s.Names[0])), "a refusal of %v with other cards: %+v", c.request.Names, s)
	}

	check.Equal(t, fmt.Sprintf("limits that %+v in %s exceeds within %+v", c.request, c.queue, c.within), want, got)
	check.Equal(t, "Fits", len(all) == 0, c.h.ledger.Fits(c.queue, c.request, c.within))
	for _, name := range c.request.Names {
		check.Equal(t, "fits with "+string(name)+" alone", !isRefused(name), c.h.ledger.Fits(c.queue, c.request.On(name).OnlyCards(), c.within))
	}
}

// checkWords checks the numbers and queues of a refusal.
func (c *checkTest) checkWords(t *rapid.T, s InsufficientQuota) {
	resource := s.Of
	if s.Of.IsCard() {
		resource = Resource(s.Names[0])
	}
	check.Must(t, s.Total > s.Limit && s.Requested == c.request.Amount(resource), "a refusal whose numbers do not say why: %+v", s)

	isOnPath := s.Queue == "" || slices.Contains(c.h.naive.pathOf(c.queue), s.Queue)
	check.Must(t, isOnPath && s.Ancestor == (s.Queue != c.queue) && s.Ancestor == (s.Requester == c.queue), "a refusal of %s that names the wrong queues: %+v", c.queue, s)
	terminates := c.h.naive.treeOf(resource).Used(s.Queue, c.h.naive.use(resource, naivePod.isTerminating)) > 0 // before the release
	check.Must(t, (s.Kind == Terminating && terminates) == (s.GracePeriod > 0), "a refusal with the wrong grace period: %+v", s)
	check.Must(t, s.OtherCards < max(1, len(c.request.Names)), "a refusal with more cards than the request has: %+v", s)
}

// TestARefusalNamesTheCardThatIsNextToFit: of the alternatives of a request that do not fit, a refusal names the one that
// has most left once the released pods are gone. Queue q has 4 A and 4 B, and no C. It uses 4 A and 3 B, which leaves 1 B.
// If 2 A are released, 2 A are left.
func TestARefusalNamesTheCardThatIsNextToFit(t *testing.T) {
	l := newQueueLedger(card.Quota{"A": 4, "B": 4})
	l.Charge("pod with A", newCharge("q", "A", 4))
	l.Charge("pod with B", newCharge("q", "B", 3))
	request := Request{Names: []card.Name{"C", "A", "B"}, Count: 3}

	refusedFor := func(name card.Name, total int64) []InsufficientQuota {
		return []InsufficientQuota{{
			Queue: "q", Names: []card.Name{name}, Requested: 3, Total: total, Limit: 4,
			OtherCards: 1, // the other one of A and B: C has no quota, so it does not count
		}}
	}
	check.Equal(t, "insufficient now", refusedFor("B", 3+3), l.Check("q", request, Within{}))

	var released Released
	released.Add(newCharge("q", "A", 2))
	check.Equal(t, "insufficient once 2 A are released", refusedFor("A", 4-2+3), l.Check("q", request, Within{Released: released}))
}

// TestFitsAllocatesNothing: the predicate calls Fits for each pod and each node, which are millions of calls a session.
// Garbage of each call would slow the scheduler down. The pod requests 3 cards A or B. Queue q has a quota of 4 A and
// none of B, so the calls are one that fits and one that is refused. Neither allocates memory.
func TestFitsAllocatesNothing(t *testing.T) {
	l := newQueueLedger(card.Quota{"A": 4})
	request := Request{Names: []card.Name{"A", "B"}, Count: 3, MilliCPU: 1}
	for _, name := range []card.Name{"A", "B"} {
		allocs := testing.AllocsPerRun(100, func() { l.Fits("q", request.On(name).OnlyCards(), Within{}) })
		check.Equal(t, "allocations of a check of "+string(name), 0, allocs)
	}
}
