package quota

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// drawHistory plays random events, and ends every ban on borrowing.
func drawHistory(t *rapid.T) *treeTest {
	h := newTreeTest(t)
	for range rapid.IntRange(0, 15).Draw(t, "steps") {
		h.step(t)
	}
	for queue := range h.tree {
		h.ledger.StopBorrowing(queue, nil)
	}
	clear(h.naive.stopped)
	return h
}

// TestMayUseIsWhatFits: MayUseByLevel says for each level of a queue's path, up to root, how much more the queue may use
// while it reclaims cards. It also says how much more each level deserves: deserved less used, at root any number. What
// fits comes from a naive ledger, which applies the documented rules to a recount of the pods. Trees and pods are random.
// (1) A request that is at most what each level says fits, if the queue deserves it: it reclaims nothing else.
// (2) A request that fits is at most what each level says. There is one exception: the checks of quota leave physical
// cards to the nodes. If 3 A are free and no guarantee is unused before or after a request of 5 A, the quotas accept it.
// Root says 3.
func TestMayUseIsWhatFits(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		for _, queue := range h.leaves() {
			for _, name := range treeNames {
				m := h.ledger.MayUseByLevel(queue, name)
				path := h.naive.pathOf(queue)
				check.Must(t, len(m) == len(path)+1, "%d levels for the path %v", len(m), path)
				for i, at := range path {
					want := h.naive.deservesMore(at, name)
					check.Must(t, m[i].Deserved == want, "%s deserves %d more %s, want %d", at, m[i].Deserved, name, want)
				}

				root := len(path)
				check.Must(t, m[root].Deserved == Unlimited, "root deserves %d", m[root].Deserved)

				for n := int64(1); n <= 8; n++ {
					refusal := h.naive.findRefusal(queue, name, n, false) // false: others can reclaim it
					fits := refusal == ""
					may := true // each level says so
					for i := range m {
						may = may && n <= m.Limit(i, n, i) // what level i leaves for n, without evictions below it
					}

					isDeserved := n <= m[0].Deserved
					check.Must(t, !may || !isDeserved || fits, "(1) %d more %s in %s do not fit (%s), and levels %+v leave them", n, name, queue, refusal, m)
					check.Must(t, !fits || may || h.fitsBeyondInventory(queue, name, n, m.Limit(root, n, root)), "(2) %d more %s in %s fit, and levels leave %+v", n, name, queue, m)
				}
			}
		}
	})
}

// deservesMore returns how much more of a name a queue deserves than it uses.
func (n *naiveLedger) deservesMore(queue string, name Resource) int64 {
	if n.deservedOf(queue, name) == Unlimited {
		return Unlimited
	}
	return max(0, n.deservedOf(queue, name)-n.used(queue, name))
}

// fitsBeyondInventory reports whether a request that fits the quotas is beyond the physical cards,
// which nodes check, and no guarantee is unused before or after it.
func (h *treeTest) fitsBeyondInventory(queue string, name Resource, n, physical int64) bool {
	after := h.naive.with(naivePod{queue: queue, amounts: map[Resource]int64{name: n}})
	return n > physical && (h.naive.unusedBelow("", name) == 0 || after.unusedBelow("", name) == 0)
}

// mayUseByLeaf returns what each leaf may use of each name.
func (h *treeTest) mayUseByLeaf() map[string]map[Resource]Levels {
	out := map[string]map[Resource]Levels{}
	for _, queue := range h.leaves() {
		out[queue] = map[Resource]Levels{}
		for _, name := range treeNames {
			out[queue][name] = h.ledger.MayUseByLevel(queue, name)
		}
	}
	return out
}

// TestMayUseGrowsWithWhatIsReleased: a plan of evictions adds what victims release at a level to what the queue may
// use there. So after the release of a random pod, no queue may use more at a level than before plus what the pod
// released: what it used at levels that contain its queue, and nothing below.
func TestMayUseGrowsWithWhatIsReleased(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		victim, p := h.drawCharged(t)
		if p.queue == "" || p.isEnd || p.isOff || p.isNotOffered { // no pod, or one that uses no cards of the inventory
			return
		}

		mayUse := h.mayUseByLeaf()
		h.ledger.Release(victim)
		for queue, levelsByName := range mayUse {
			level := h.naive.naiveLevel(queue, p.queue)          // the first one that contains the pod's queue
			if slices.Contains(h.naive.pathOf(p.queue), queue) { // the pod is the queue's own, or of its deleted child
				level = 0
			}

			for name, before := range levelsByName {
				after := h.ledger.MayUseByLevel(queue, name)
				for i := range before {
					released := int64(0)
					if i >= level {
						released = p.amounts[name]
					}
					grown := after[i].Quota - before[i].Quota
					check.Must(t, before[i].Quota == Unlimited || grown <= released, "%s may use %d more %s at level %d of %+v, and %s of %s released %d", queue, grown, name, i, before, victim, p.queue, released)
				}
			}
		}
	})
}

// drawRequest draws a request of one pod, with or without cards.
func drawRequest(t *rapid.T) Request {
	request := Request{Count: card.Count(rapid.IntRange(0, 4).Draw(t, "count")), MilliCPU: int64(rapid.IntRange(0, 3).Draw(t, "cpu")), Memory: int64(rapid.IntRange(0, 3).Draw(t, "memory"))}
	if request.Count > 0 {
		request.Names = rapid.SampledFrom([][]card.Name{{"A"}, {"A", "B"}, {"B", "A"}, {"C"}}).Draw(t, "names")
	}
	return request
}

// isWithinDeserved reports whether a queue uses no more than it deserves with so many more.
func (n *naiveLedger) isWithinDeserved(queue string, name Resource, count int64) bool {
	if count > 0 && naiveIsCard(name) && n.limits[queue].AnyCard {
		return false // a queue without quota deserves nothing
	}
	if count <= 0 || n.deservedOf(queue, name) == Unlimited {
		return true
	}

	tree := n.treeOf(name)
	terminating := n.use(name, naivePod.isTerminating)
	if slices.ContainsFunc(tree.Path(queue), func(at string) bool { return tree.IsTerminatingAboveQuota(at, terminating) }) {
		return false
	}

	used := n.use(name, naivePod.isPlaced).With(queue, count)
	return !tree.IsAboveDeserved(queue, used) && !tree.IsAboveQuota(queue, used)
}

// isWithinQuota reports whether so many more are within the quota of the queue itself.
func (n *naiveLedger) isWithinQuota(queue string, name Resource, count int64) bool {
	return count == 0 || !n.treeOf(name).IsAboveQuota(queue, n.use(name, naivePod.isPlaced).With(queue, count))
}

// checkAbove compares what a queue uses above what it deserves, and above its guarantee.
func (h *treeTest) checkAbove(t *rapid.T, queue string) {
	for _, name := range treeNames {
		want := h.naive.used(queue, name) - h.naive.deservedOf(queue, name)
		if h.naive.deservedOf(queue, name) == Unlimited {
			want = 0
		}
		check.Must(t, h.ledger.AboveDeserved(queue, name) == want, "%d above deserved, want %d", h.ledger.AboveDeserved(queue, name), want)
		want = h.naive.used(queue, name) - h.naive.limits[queue].Guarantee[name]
		check.Must(t, h.ledger.AboveGuarantee(queue, name) == want, "%d above the guarantee, want %d", h.ledger.AboveGuarantee(queue, name), want)
	}
}

// level is what one queue of a path leaves for an enqueue.
type level struct {
	limit func(Resource) int64
	used  func(Resource) int64
}

// givesAll reports whether the whole request gets cards beside all reservations, each of which
// keeps what it can get. The smallest cut says what all of them get.
func (l level) givesAll(reserved, requested []CardRequest, factor float64) bool {
	mostGiven := func(requests []CardRequest) int64 {
		smallest := Unlimited
		for cut := range 1 << len(treeCards) {
			total := int64(0)
			in := map[card.Name]bool{}
			for i, name := range treeCards {
				if cut>>i&1 == 1 {
					in[name] = true
					total = AddSaturating(total, max(0, scaleLimit(l.limit(Resource(name)), factor)-l.used(Resource(name))))
				}
			}

			for _, r := range requests {
				if slices.ContainsFunc(r.Names, func(name card.Name) bool { return !in[name] }) {
					total = AddSaturating(total, int64(r.Count))
				}
			}
			smallest = min(smallest, total)
		}

		return smallest
	}

	return mostGiven(append(slices.Clone(reserved), requested...)) == mostGiven(reserved)+countCards(requested)
}

// enqueueTest is a tree with jobs inqueue, and a request to enqueue beside them.
type enqueueTest struct {
	*treeTest
	reserved map[string]*Reservations // of every queue and everything below it
	request  JobRequest
	factor   float64 // of over-commit
}

func drawEnqueue(t *rapid.T) *enqueueTest {
	e := &enqueueTest{treeTest: drawHistory(t), reserved: map[string]*Reservations{}}
	e.reserved[""] = &Reservations{} // of all queues
	for queue := range e.tree {
		e.reserved[queue] = &Reservations{}
	}

	for range rapid.IntRange(0, 3).Draw(t, "jobs inqueue") {
		job := drawJobRequest(t)
		for _, at := range append(e.naive.pathOf(e.drawQueue(t)), "") {
			e.reserved[at].Add(job)
		}
	}

	e.request = drawJobRequest(t)
	e.factor = rapid.SampledFrom([]float64{1, 1.5}).Draw(t, "over-commit")
	return e
}

func drawJobRequest(t *rapid.T) JobRequest {
	var job JobRequestBuilder
	for range rapid.IntRange(0, 2).Draw(t, "requests") {
		job.Add(Request{Names: rapid.SampledFrom([][]card.Name{{"A"}, {"B"}, {"A", "B"}, {"A/mig-1g.18gb-mixed"}}).Draw(t, "names"), Count: card.Count(rapid.IntRange(1, 5).Draw(t, "count"))})
	}
	job.MilliCPU = int64(rapid.IntRange(0, 3).Draw(t, "cpu"))
	job.Memory = int64(rapid.IntRange(0, 3).Draw(t, "memory"))
	return job.JobRequest
}

// levelGives reports whether a level of a queue gives the request beside reservations.
func (e *enqueueTest) levelGives(at string, l level, reserved *Reservations) bool {
	cpu := scaleLimit(l.limit(CPU), e.factor)
	memory := scaleLimit(l.limit(Memory), e.factor)
	givesCards := e.naive.limits[at].AnyCard || l.givesAll(reserved.Cards, e.request.Cards, e.factor)
	givesCPU := e.request.MilliCPU == 0 || l.used(CPU)+reserved.MilliCPU+e.request.MilliCPU <= cpu
	givesMemory := e.request.Memory == 0 || l.used(Memory)+reserved.Memory+e.request.Memory <= memory
	return givesCards && givesCPU && givesMemory
}

// isWithinQuota reports whether a queue gives the request of a leaf, beside what is inqueue,
// within its quota less what it guarantees to others.
func (e *enqueueTest) isWithinQuota(at, leaf string) bool {
	used := func(name Resource) int64 { return e.naive.used(at, name) }
	quota := func(name Resource) int64 {
		limit := e.naive.quotaOf(at, name)
		if limit == Unlimited || at == leaf {
			return limit
		}
		return max(0, limit-e.guaranteedToOthers(at, leaf, name))
	}
	return e.levelGives(at, level{quota, used}, e.reserved[at])
}

// isEntitled reports whether a leaf deserves the request beside what is inqueue. If it does, the
// request does not depend on its ancestors. A queue without quota deserves no cards.
func (e *enqueueTest) isEntitled(leaf string) bool {
	if e.naive.limits[leaf].AnyCard && len(e.request.Cards) > 0 {
		return false
	}
	used := func(name Resource) int64 { return e.naive.used(leaf, name) }
	deserved := func(name Resource) int64 { return e.naive.deservedOf(leaf, name) }
	return e.levelGives(leaf, level{deserved, used}, e.reserved[leaf])
}

// isUnreclaimableWithinDeserved reports whether all levels deserve the request beside what they cannot
// release.
func (e *enqueueTest) isUnreclaimableWithinDeserved(leaf string) bool {
	return !slices.ContainsFunc(e.naive.pathOf(leaf), func(at string) bool {
		deserved := func(name Resource) int64 { return e.naive.deservedOf(at, name) }
		unreclaimable := func(name Resource) int64 { return e.naive.unreclaimable(at, name) }
		return !e.levelGives(at, level{deserved, unreclaimable}, &Reservations{})
	})
}

// withUsableNames returns a request of a leaf without the cards that it can never use: a level of its
// path has no quota for them. An alternative that is left at one level only does not help.
func (e *enqueueTest) withUsableNames(leaf string, request JobRequest) JobRequest {
	isUnusable := func(name card.Name) bool {
		return slices.ContainsFunc(e.naive.pathOf(leaf), func(at string) bool {
			return e.naive.quotaOf(at, Resource(name)) == 0
		})
	}

	usable := request
	usable.Cards = slices.Clone(request.Cards)
	for i, request := range usable.Cards {
		names := slices.DeleteFunc(slices.Clone(request.Names), isUnusable)
		if len(names) > 0 {
			usable.Cards[i].Names = names
		}
	}

	return usable
}

// TestEnqueueInATreeMatchesEachLevel: enqueue is Volcano's step that lets a job create its pods. CheckEnqueue accepts a
// job exactly if it fits beside what is used and reserved, as computed by brute force for each level. Trees, pods,
// reservations, the job and the over-commit factor are random.
// (1) An alternative for which some level has no quota does not count (withUsableNames).
// (2) The job must fit the quota of its queue (isWithinQuota).
// (3) It must also fit the quota of each ancestor and root, less what others are guaranteed there. If its queue deserves
// the job (isEntitled), ancestors and root do not matter: then cards are reclaimed for it.
// (4) A job from which others cannot reclaim must also fit what each level deserves, beside running jobs of that kind.
func TestEnqueueInATreeMatchesEachLevel(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		e := drawEnqueue(t)
		for _, queue := range e.leaves() {
			reserved := func(at string) *Reservations { return e.reserved[at] }
			asked := e.request
			e.request = e.withUsableNames(queue, asked)

			want := e.isWithinQuota(queue, queue)
			isEntitled := e.isEntitled(queue)
			for _, at := range append(e.naive.pathOf(queue)[1:], "") { // "" is root
				want = want && (isEntitled || e.isWithinQuota(at, queue))
			}

			got := e.ledger.CheckEnqueue(queue, reserved, asked, e.factor)
			check.Must(t, (got == nil) == want, "%+v in %s beside %+v: %+v, want %v (entitled %v)", asked, queue, e.reserved[queue], got, want, isEntitled)

			unreclaimable := asked
			unreclaimable.IsUnreclaimable = true
			got = e.ledger.CheckEnqueue(queue, reserved, unreclaimable, e.factor)
			want = want && e.isUnreclaimableWithinDeserved(queue)
			check.Must(t, (got == nil) == want, "%+v in %s, which no queue could reclaim: %+v, want %v", unreclaimable, queue, got, want)
			e.request = asked
		}
	})
}

// guaranteedToOthers is what a queue may not use of an ancestor's unused guarantees: what is left
// of them when it uses as much as it can without using the others'.
func (h *treeTest) guaranteedToOthers(ancestor, queue string, name Resource) int64 {
	left := h.naive.unusedBelow(ancestor, name)
	for n := int64(1); n <= 40; n++ {
		left = min(left, h.naive.with(naivePod{queue: queue, amounts: map[Resource]int64{name: n}}).unusedBelow(ancestor, name))
	}
	return left
}

// TestEnqueueLeavesTheGuaranteesOfOthers: a job that its queue does not deserve must leave free what is guaranteed to
// other queues, at each level of its path. Each queue has a quota of 8 A, and deserves only what it is guaranteed:
//
//	tenant (guaranteed 6) ── team (4) ── own (2), cousin (2)
//	                      └─ far (2)
//
// At "team" a job of "own" leaves 2 to cousin, so 6 fit. At "tenant" it leaves 2 to cousin and 2 to far, so 4 fit.
// The nearest level that refuses is reported.
func TestEnqueueLeavesTheGuaranteesOfOthers(t *testing.T) {
	limits := map[string]Limits{}
	for name, guarantee := range map[string]int64{"tenant": 6, "team": 4, "own": 2, "cousin": 2, "far": 2} {
		limits[name] = Limits{Cards: card.Quota{"A": 8}, Deserved: Amounts{"A": guarantee}, Guarantee: Amounts{"A": guarantee}}
	}

	l := newTreeLedger(map[string]position{"tenant": {}, "team": {parent: "tenant"}, "own": {parent: "team"}, "cousin": {parent: "team"}, "far": {parent: "tenant"}}, limits, nil)
	checkEnqueue := func(count card.Count, want *InsufficientQuota) {
		job := JobRequest{Cards: []CardRequest{{Names: []card.Name{"A"}, Count: count}}}
		got := l.CheckEnqueue("own", reserveForAll(&Reservations{}), job, 1)
		check.Equal(t, fmt.Sprintf("refusal of %d A", count), want, got)
	}
	refusedBy := func(ancestor string, kind LimitKind, requested, total int64) *InsufficientQuota {
		return &InsufficientQuota{
			Kind: kind, Names: []card.Name{"A"}, Queue: ancestor, Ancestor: true, Requester: "own",
			Requested: requested, Total: total, Limit: 8,
		}
	}

	checkEnqueue(2, nil) // own deserves them
	checkEnqueue(4, nil)
	checkEnqueue(5, refusedBy("tenant", Guaranteed, 5, 5+2+2))
	checkEnqueue(6, refusedBy("tenant", Guaranteed, 6, 6+2+2)) // the most for which team has quota
	checkEnqueue(7, refusedBy("team", Guaranteed, 7, 7+2))
	// 9 exceed the quota of own itself, so no ancestor is asked
	checkEnqueue(9, &InsufficientQuota{Queue: "own", Names: []card.Name{"A"}, Requested: 9, Total: 9, Limit: 8})

	// far uses 4 A now, so tenant has no quota for 5 more, even without guarantees
	l.Charge("pod of far", newCharge("far", "A", 4))
	checkEnqueue(5, refusedBy("tenant", HardLimit, 5, 5+4))
}

// reclaimExample returns the ledger of an example in numbers. The nodes have 8 A, and each queue has a quota of 8:
//
//	tenant (deserves 4, guaranteed 2) ── serving (deserves 3, guaranteed 2)
//	                                  └─ batch (deserves 1, uses 5)
//	other (deserves 4, guaranteed 1)
//
// So all 3 free cards are guaranteed: 2 to serving and its tenant, 1 to other.
func reclaimExample() *Ledger {
	l := newTreeLedger(map[string]position{"tenant": {}, "serving": {parent: "tenant"}, "batch": {parent: "tenant"}, "other": {}}, map[string]Limits{
		"tenant":  {Cards: card.Quota{"A": 8}, Deserved: Amounts{"A": 4}, Guarantee: Amounts{"A": 2}},
		"serving": {Cards: card.Quota{"A": 8}, Deserved: Amounts{"A": 3}, Guarantee: Amounts{"A": 2}},
		"batch":   {Cards: card.Quota{"A": 8}, Deserved: Amounts{"A": 1}},
		"other":   {Cards: card.Quota{"A": 8}, Deserved: Amounts{"A": 4}, Guarantee: Amounts{"A": 1}},
	}, card.Quota{"A": 8})
	l.Charge("pod of batch", newCharge("batch", "A", 5))
	return l
}

// TestFreeCardsAreForTheirGuarantees: of 8 A, queue batch uses 5. The 3 free ones are guaranteed: 2 to its sibling
// serving, 1 to queue other. So batch gets no sixth card. Serving may use its 2. It deserves 3, so it may reclaim the
// third, and no fourth.
func TestFreeCardsAreForTheirGuarantees(t *testing.T) {
	l := reclaimExample()
	check.Equal(t, "insufficient for 2 A of serving, its guarantee", nil, firstOf(l.Check("serving", Request{Names: []card.Name{"A"}, Count: 2}, Within{})))
	check.Equal(t, "insufficient for a sixth A of batch: 6 + 3 guaranteed of 8", &InsufficientQuota{
		Kind: Guaranteed, Names: []card.Name{"A"}, Ancestor: true, Requester: "batch", Requested: 1, Total: 6 + 3, Limit: 8,
	}, firstOf(l.Check("batch", Request{Names: []card.Name{"A"}, Count: 1}, Within{})))

	check.Equal(t, "insufficient to reclaim 3 A, which serving deserves", nil, l.Check("serving", Request{Names: []card.Name{"A"}, Count: 3}, Within{Bound: ReclaimableCards}))
	check.That(t, !l.Fits("serving", Request{Names: []card.Name{"A"}, Count: 4}, Within{Bound: ReclaimableCards}), "serving reclaims a fourth A, which it does not deserve")
}

// TestMayUseByExample: MayUseByLevel says what a queue may use at each level of its path: at the queue, its parent
// tenant, and root. Serving and batch are children of tenant. Serving is guaranteed 2 A, tenant the same 2, queue other
// 1. Serving uses nothing, batch 5 of the 8 A. All quotas are 8. A level has these numbers:
//   - Quota: the quota (at root the cards of the nodes) less what is used, less unused guarantees of other queues.
//   - Covered: how much of that the queue's own unused guarantee covers, at the levels that have other queues too.
//   - Coverable: what guarantees of this level and below leave for the queue. Evictions of siblings add to it. Root has
//     no guarantee.
//   - BesideKept: the quota less what is used and kept for pods, here for none. Only the parent has it.
//   - Deserved: what the level deserves and does not use.
func TestMayUseByExample(t *testing.T) {
	l := reclaimExample()
	check.Equal(t, "what serving may use in serving, tenant and root", Levels{
		{Quota: 8, Deserved: 3, Coverable: 2, BesideKept: Unlimited},
		// Tenant deserves 4 and uses 5. Batch uses more than the 2 that tenant is guaranteed.
		{Quota: 8 - 5, Covered: 2, Deserved: 0, Coverable: 2 - 5, BesideKept: 8 - 5},
		// Root leaves 3 cards, one of them is guaranteed to other.
		{Quota: 3 - 1, Covered: 2, Deserved: Unlimited, BesideKept: Unlimited},
	}, l.MayUseByLevel("serving", "A"))

	check.Equal(t, "what batch may use in batch, tenant and root", Levels{
		// Batch has no guarantee, and uses 5.
		{Quota: 8 - 5, Coverable: 0 - 5, BesideKept: Unlimited},
		// 2 of the 3 cards are guaranteed to serving. So are the 2 of tenant, of which none is left for batch.
		{Quota: 3 - 2, Coverable: 2 - 5 - 2, BesideKept: 8 - 5},
		// 2 of the 3 cards are guaranteed to serving, 1 to other.
		{Quota: 3 - 2 - 1, Deserved: Unlimited, BesideKept: Unlimited},
	}, l.MayUseByLevel("batch", "A"))
	check.Equal(t, "queues in the ledger", []string{"batch", "other", "serving", "tenant"}, slices.Sorted(maps.Keys(l.queues))) // the answers have added none
}
