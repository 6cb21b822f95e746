package quota

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/queuetree"
	"cardquota.dev/operator/internal/testing/seed"
)

// treeTest plays the same history on the ledger, and on a naive one that counts everything from scratch.
type treeTest struct {
	ledger *Ledger
	naive  *naiveLedger
	tree   map[string]TreeQueue
	pods   int
}

func newTreeTest(t *rapid.T) *treeTest {
	return newTreeTestOf(t, drawTree(t))
}

func newTreeTestOf(t *rapid.T, tree map[string]TreeQueue) *treeTest {
	naive := &naiveLedger{pods: map[string]naivePod{}, kept: map[string]naivePod{}, stopped: map[string]map[Resource]bool{}}
	h := &treeTest{ledger: New(0), naive: naive, tree: tree}
	h.setTree(t)
	return h
}

// charge charges a pod in both ledgers.
func (h *treeTest) charge(id string, p naivePod) {
	h.naive.pods[id] = p
	h.ledger.Charge(id, p.charge())
}

// keepFor keeps what a pod requests from other pods in both ledgers.
func (h *treeTest) keepFor(id string, p naivePod) {
	h.naive.kept[id] = p
	h.ledger.Keep(id, p.charge())
}

// setTree puts the queues of both ledgers where the written tree says.
func (h *treeTest) setTree(t *rapid.T) {
	for _, name := range slices.Sorted(maps.Keys(h.tree)) {
		q := h.tree[name]
		q.Weight = int32(rapid.IntRange(0, 3).Draw(t, "weight"))
		q.Created = time.Unix(int64(rapid.IntRange(0, 2).Draw(t, "created")), 0)
		h.tree[name] = q
	}

	resolved := ResolveTree(h.tree)
	before := h.naive.parent

	h.naive.parent = queuetree.Parents{}
	h.naive.limits = map[string]Limits{}
	for _, p := range h.naive.pods { // the queue of a pod keeps its place when it is gone
		for at := p.queue; at != ""; at = before[at] {
			parent, existed := before[at]
			if resolved.Has(at) || !existed {
				break
			}
			h.naive.parent[at] = parent
		}
	}

	maps.DeleteFunc(h.naive.kept, func(_ string, p naivePod) bool { return !resolved.Has(p.queue) })
	for name, r := range resolved.All() {
		h.naive.parent[name] = r.Parent
		h.naive.limits[name] = r.Limits
	}

	h.ledger.SetTree(resolved)
	if rapid.Bool().Draw(t, "unused queues are forgotten") {
		h.ledger.ForgetUnused()
	}

	h.drawInventory(t)
	if before != nil && !maps.Equal(before, h.naive.parent) { // kept are those of the queues as they were
		clear(h.naive.kept)
		clear(h.naive.stopped)
	}
}

func (h *treeTest) drawInventory(t *rapid.T) {
	cards := map[card.Name]card.Count{}
	inventory := map[Resource]int64{}
	for _, name := range treeNames {
		inventory[name] = int64(rapid.IntRange(0, 24).Draw(t, "inventory of "+string(name)))
		switch {
		case naiveIsCard(name):
			cards[name.Card()] = card.Count(inventory[name])
		case rapid.Bool().Draw(t, "no limit"):
			inventory[name] = Unlimited
		}
	}

	h.naive.inventory = inventory
	h.ledger.SetInventory(cards, inventory[CPU], inventory[Memory])
	h.ledger.recomputeUnused()
}

func (h *treeTest) drawQueue(t *rapid.T) string {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(h.tree))).Draw(t, "queue")
}

// leaves returns the queues without children.
func (h *treeTest) leaves() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h.tree)), func(name string) bool { return len(writtenParents(h.tree).Children(name)) > 0 })
}

func (h *treeTest) drawPod(t *rapid.T) naivePod {
	p := naivePod{queue: h.drawQueue(t), amounts: map[Resource]int64{}}
	for range rapid.IntRange(1, 2).Draw(t, "names") {
		p.amounts[rapid.SampledFrom(treeNames).Draw(t, "name")] = int64(rapid.IntRange(1, 4).Draw(t, "count"))
	}
	p.isUnreclaimable = rapid.IntRange(0, 3).Draw(t, "unreclaimable") == 0
	p.isOff = rapid.IntRange(0, 5).Draw(t, "off inventory") == 0
	p.isNotOffered = rapid.IntRange(0, 5).Draw(t, "not offered") == 0
	return p
}

func (h *treeTest) drawCharged(t *rapid.T) (string, naivePod) {
	if len(h.naive.pods) == 0 {
		return "none", naivePod{}
	}
	id := rapid.SampledFrom(slices.Sorted(maps.Keys(h.naive.pods))).Draw(t, "pod")
	return id, h.naive.pods[id]
}

// step is one event. Pods are charged whether they fit or not: they may have bypassed the checks.
func (h *treeTest) step(t *rapid.T) {
	step := rapid.SampledFrom([]string{"charge", "charge", "charge", "charge again", "terminate", "release", "keep", "end keeping", "stop", "reparent", "limits", "inventory", "delete"}).Draw(t, "step")
	switch step {
	case "charge":
		h.pods++
		h.charge(fmt.Sprint(h.pods), h.drawPod(t))
	case "charge again":
		if id, p := h.drawCharged(t); p.queue != "" {
			h.charge(id, h.drawPod(t))
		}
	case "terminate":
		if id, p := h.drawCharged(t); p.queue != "" {
			c := p.charge()
			p.isEnd = true
			if len(c.Cards) == 0 {
				delete(h.naive.pods, id)
			} else {
				h.naive.pods[id] = p
			}

			h.ledger.ChargeTerminating(id, c, time.Minute)
		}
	case "release":
		id, _ := h.drawCharged(t)
		delete(h.naive.pods, id)
		h.ledger.Release(id)
	default:
		h.stepOfQueues(t, step)
	}
}

// stepOfQueues is one event of queues, or of what is kept for pods.
func (h *treeTest) stepOfQueues(t *rapid.T, step string) {
	switch step {
	case "keep":
		p := h.drawPod(t)
		h.keepFor(fmt.Sprint("kept", rapid.IntRange(0, 2).Draw(t, "kept")), p)
	case "end keeping":
		id := fmt.Sprint("kept", rapid.IntRange(0, 2).Draw(t, "kept"))
		delete(h.naive.kept, id)
		h.ledger.EndKeeping(id)
	case "stop":
		queue := h.drawQueue(t)
		names := map[Resource]bool{rapid.SampledFrom(treeNames).Draw(t, "name"): true}
		h.naive.stopped[queue] = names
		h.ledger.StopBorrowing(queue, names)
	case "reparent":
		h.tree = drawTree(t)
		h.setTree(t)
	case "limits":
		q := h.tree[h.drawQueue(t)]
		name := rapid.SampledFrom(treeNames).Draw(t, "name")
		q.Quota[name] = int64(rapid.IntRange(0, 12).Draw(t, "quota"))
		q.Guarantee[name] = int64(rapid.IntRange(0, 12).Draw(t, "guarantee"))

		h.setTree(t)
	case "inventory":
		h.drawInventory(t)
	case "delete":
		if leaves := h.leaves(); len(h.tree) > 1 && len(leaves) > 0 {
			delete(h.tree, rapid.SampledFrom(leaves).Draw(t, "deleted"))
			h.setTree(t)
		}
	}
}

// checkSums compares every sum of every queue with a recount.
func (h *treeTest) checkSums(t *rapid.T) {
	for name, q := range h.ledger.queues {
		for _, of := range treeNames {
			check.Must(t, q.used.amountOf(of) == h.naive.used(name, of), "used %s of %s: %d, want %d", of, name, q.used.amountOf(of), h.naive.used(name, of))
			unreclaimable := q.unreclaimable.amountOf(of)
			kept := q.kept[of]
			tree := h.naive.treeOf(of)
			wantKept := tree.Used(name, h.naive.useOfKept(of))
			wantUnused := tree.Unused(name, h.naive.use(of, naivePod.isPlaced))

			check.Must(t, unreclaimable == h.naive.unreclaimable(name, of), "unreclaimable %s of %s: %d, want %d", of, name, unreclaimable, h.naive.unreclaimable(name, of))
			check.Must(t, kept == wantKept, "kept %s of %s: %d, want %d", of, name, kept, wantKept)
			check.Must(t, q.unused[of] == wantUnused, "unused guarantee %s of %s: %d, want %d", of, name, q.unused[of], wantUnused)
			if of != CPU && of != Memory {
				terminating, _ := h.ledger.Terminating(name, of.Card())
				want := tree.Used(name, h.naive.use(of, naivePod.isTerminating))
				check.Must(t, int64(terminating) == want, "terminating %s of %s: %d, want %d", of, name, terminating, want)
			}
		}
	}

	for _, of := range treeNames {
		check.Must(t, h.ledger.root.used.amountOf(of) == h.naive.used("", of), "used %s of the inventory: %d, want %d", of, h.ledger.root.used.amountOf(of), h.naive.used("", of))
		check.Must(t, h.ledger.root.unusedBelow[of] == h.naive.unusedBelow("", of), "unused guarantees of %s: %d, want %d", of, h.ledger.root.unusedBelow[of], h.naive.unusedBelow("", of))
	}
}

// fits asks the ledger about so many more of one name.
func (h *treeTest) fits(queue string, name Resource, count int64, isUnreclaimable bool) *InsufficientQuota {
	return firstOf(h.ledger.Check(queue, requestOf(name, count, isUnreclaimable), Within{}))
}

// checkFits compares the answers about one more pod of any queue.
func (h *treeTest) checkFits(t *rapid.T) {
	count := int64(rapid.IntRange(1, 6).Draw(t, "count"))
	isUnreclaimable := rapid.Bool().Draw(t, "unreclaimable")
	for _, queue := range h.leaves() {
		for _, name := range treeNames {
			got := h.fits(queue, name, count, isUnreclaimable)
			want := h.naive.findRefusal(queue, name, count, isUnreclaimable)
			check.Must(t, (got == nil) == (want == ""), "%d more %s in %s (unreclaimable %v): refused for %+v, want %q", count, name, queue, isUnreclaimable, got, want)
			if name == CPU || name == Memory {
				continue
			}

			if got != nil && got.Kind != Terminating {
				check.Must(t, got.Requested == count && got.Total > got.Limit, "a refusal whose numbers do not say why: %+v", got)

				isOnPath := got.Queue == "" || slices.Contains(h.naive.treeOf(name).Path(queue), got.Queue)
				check.Must(t, got.Ancestor == (got.Queue != queue), "a refusal of %s that names the wrong queue: %+v", queue, got)
				check.Must(t, !got.Ancestor || (got.Requester == queue && isOnPath), "a refusal of %s that names the wrong queues: %+v", queue, got)
			}
		}
	}
}

// TestTheLedgerCountsATreeLikeARecount: the ledger changes its sums with each event, because it answers thousands of
// requests in a session. Events and the tree of queues are random.
// (1) After each event every sum of every queue equals a recount of the pods: what they use, terminating ones use, and
// is kept for pending ones, and which guarantees are unused (checkSums).
// (2) At the end the ledger accepts or refuses one more pod of any queue as the naive ledger does, by the documented
// rules. A refusal of cards names a queue of the path, and numbers that exceed its limit, unless terminating pods are
// its reason (checkFits).
func TestTheLedgerCountsATreeLikeARecount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newTreeTest(t)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			h.step(t)
			h.checkSums(t)
		}
		h.checkFits(t)
	})
}

// TestPermittedPodsKeepQuotasAndGuarantees: the nodes have at least what all queues are guaranteed, and only pods
// are placed that the ledger permits. Trees and pods are random. After each pod (checkLimits):
// (1) No queue uses more than its quota.
// (2) No queue uses more than it deserves with pods from which others cannot reclaim.
// (3) Every unused guarantee is free, below each queue and in the inventory.
// (4) Besides, a pod within the guarantee of its own queue is never refused for the guarantees of others.
func TestPermittedPodsKeepQuotasAndGuarantees(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newTreeTest(t)
		cards := map[card.Name]card.Count{}
		inventory := map[Resource]int64{}
		for _, name := range treeNames {
			inventory[name] = h.naive.unusedBelow("", name) + int64(rapid.IntRange(0, 8).Draw(t, "more than guaranteed"))
			cards[name.Card()] = card.Count(inventory[name])
		}

		h.naive.inventory = inventory
		h.ledger.SetInventory(cards, inventory[CPU], inventory[Memory])
		leaves := h.leaves()
		for i := range rapid.IntRange(1, 40).Draw(t, "pods") {
			// now and then a pod ends
			if id, p := h.drawCharged(t); p.queue != "" && rapid.IntRange(0, 3).Draw(t, "end") == 0 {
				delete(h.naive.pods, id)
				h.ledger.Release(id)
			}

			queue := rapid.SampledFrom(leaves).Draw(t, "leaf")
			isUnreclaimable := rapid.Bool().Draw(t, "unreclaimable")
			name := rapid.SampledFrom(treeNames).Draw(t, "name")
			count := int64(rapid.IntRange(1, 4).Draw(t, "count"))
			fitsNodes := h.naive.used("", name)+count <= inventory[name]
			isGuaranteed := h.naive.limits[queue].Guarantee[name]-h.naive.used(queue, name) >= count && !h.naive.limits[queue].IsHeld

			refusal := h.fits(queue, name, count, isUnreclaimable)
			check.Must(t, refusal == nil || refusal.Kind != Guaranteed || !isGuaranteed, "(4) %d %s of the own guarantee of %s are refused: %+v", count, name, queue, refusal)
			if refusal == nil && fitsNodes {
				h.charge(fmt.Sprint(i), naivePod{queue: queue, amounts: map[Resource]int64{name: count}, isUnreclaimable: isUnreclaimable})
				h.checkLimits(t, name)
			}
		}
	})
}

// checkLimits checks quotas, that all a queue uses beyond what it deserves can be reclaimed, and that unused
// guarantees are free.
func (h *treeTest) checkLimits(t *rapid.T, name Resource) {
	for at := range h.tree {
		limit := h.naive.quotaOf(at, name)
		if limit == Unlimited {
			continue
		}

		used := h.naive.used(at, name)
		unused := h.naive.unusedBelow(at, name)
		check.Must(t, used <= limit, "(1) %s uses %d %s of %d", at, used, name, limit)
		check.Must(t, h.naive.unreclaimable(at, name) <= h.naive.deservedOf(at, name), "(2) %s uses %d %s that cannot be reclaimed, and deserves %d", at, h.naive.unreclaimable(at, name), name, h.naive.deservedOf(at, name))
		check.Must(t, huge(limit) || used+unused <= limit, "(3) %s uses %d of %d %s, and its children are guaranteed %d more", at, used, limit, name, unused)
	}

	used := h.naive.used("", name)
	unused := h.naive.unusedBelow("", name)
	check.Must(t, used+unused <= h.naive.inventory[name], "(3) %d of %d %s are free, and %d are guaranteed", h.naive.inventory[name]-used, h.naive.inventory[name], name, unused)
}

// TestLedgerWithoutItsTreeAnswersAsOneThatNeverHadATree: an administrator may remove all parents, so that the queues
// are flat again. After a random history in a random tree the ledger becomes flat. A second ledger, flat from the
// start, gets the same pods and limits. Both must give the same answers.
func TestLedgerWithoutItsTreeAnswersAsOneThatNeverHadATree(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		h := newTreeTest(t)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			h.step(t)
		}

		flat := New(0)
		for id, p := range h.naive.pods {
			flat.Charge(id, p.charge())
			if p.isEnd {
				flat.ChargeTerminating(id, p.charge(), time.Minute)
			}
		}

		limits := map[string]Limits{}
		for name := range h.tree {
			limits[name] = Limits{Cards: card.Quota{"A": card.Count(rapid.IntRange(0, 8).Draw(t, "A")), "B": 2}, MilliCPU: 8, Memory: Unlimited, AnyCard: rapid.IntRange(0, 5).Draw(t, "any") == 0}
		}

		h.ledger.SetTree(Flat.WithFlat(limits))
		flat.SetTree(Flat.WithFlat(limits))
		h.ledger.ForgetUnused()
		flat.ForgetUnused()
		check.Must(t, h.ledger.root == nil && h.ledger.kept == nil, "the ledger keeps its tree")
		check.Equal(t, "queues", snapshotByName(flat), snapshotByName(h.ledger))

		request := JobRequest{Cards: []CardRequest{{Names: []card.Name{"A", "B"}, Count: card.Count(rapid.IntRange(0, 8).Draw(t, "count"))}}, MilliCPU: 2, IsUnreclaimable: true}
		for queue := range h.tree {
			for _, name := range []card.Name{"A", "B"} {
				one := Request{Names: []card.Name{name}, Count: card.Count(rapid.IntRange(1, 6).Draw(t, "count")), MilliCPU: 3, IsUnreclaimable: true}
				released := Released{Cards: map[card.Name]card.Count{"A": 1}, Evicted: true}
				answers := func(l *Ledger) map[string]any {
					return map[string]any{
						"Check":                 l.Check(queue, one, Within{}),
						"Check after a release": l.Check(queue, one, Within{Released: released}),
						"Check before reclaim":  l.Check(queue, one, Within{Bound: ReclaimableAll}),
						"Check if idle":         l.Check(queue, one, Within{Bound: QuotaIfIdle}),
						"MayUseByLevel":         l.MayUseByLevel(queue, Resource(name)),
						"Check for evictions":   l.Check(queue, one, Within{Bound: TerminatingLeft, Released: released}),
						"CheckEnqueue":          l.CheckEnqueue(queue, reserveForAll(&Reservations{}), request, 1.5), // over-commit
						"DominantShare":         l.DominantShare(queue),
					}
				}

				check.Equal(t, "answers about "+string(name)+" of "+queue, answers(flat), answers(h.ledger))
			}
		}
	})
}

func snapshotByName(l *Ledger) map[string]QueueUsage {
	usages := map[string]QueueUsage{}
	for _, u := range l.Snapshot() {
		u.Used = slices.Clone(u.Used)
		slices.SortFunc(u.Used, func(a, b card.Amount) int {
			return int(a.Count-b.Count)*2 + map[bool]int{true: 1, false: -1}[a.Name > b.Name]
		})
		usages[u.Queue] = u
	}
	return usages
}

// TestHugeAmountsInATreeDoNotOverflow: pods and limits may have nearly the largest int64. The sums of a tree do not
// wrap around. While five such pods use the CPU of queue q and more is kept for them, its sibling r gets none. After that
// the ledger is as before: a small request fits, and one above the quota does not.
func TestHugeAmountsInATreeDoNotOverflow(t *testing.T) {
	limits := Limits{
		Cards:     card.Quota{},
		MilliCPU:  math.MaxInt64 - 1, // math.MaxInt64 is Unlimited
		Deserved:  Amounts{CPU: math.MaxInt64 - 1},
		Guarantee: Amounts{CPU: math.MaxInt64 - 2},
	}
	l := newTreeLedger(map[string]position{"parent": {}, "q": {parent: "parent"}, "r": {parent: "parent"}}, map[string]Limits{"parent": limits, "q": limits, "r": limits}, nil)
	l.SetInventory(nil, math.MaxInt64-1, Unlimited)

	for i := range 5 {
		l.Keep(fmt.Sprint(i), &Charge{Queue: "q", MilliCPU: math.MaxInt64, Memory: math.MaxInt64})
		l.Charge(fmt.Sprint(i), &Charge{Queue: "q", MilliCPU: math.MaxInt64, Memory: math.MaxInt64, IsUnreclaimable: true})
	}
	check.That(t, !l.Fits("r", Request{MilliCPU: 1}, Within{}), "CPU for r fits while q uses all of it")

	for i := range 5 {
		l.Release(fmt.Sprint(i))
		l.EndKeeping(fmt.Sprint(i))
	}
	check.Equal(t, "insufficient for 1 millicore of q", nil, l.Check("q", Request{MilliCPU: 1}, Within{}))
	check.That(t, !l.Fits("r", Request{MilliCPU: math.MaxInt64}, Within{}), "CPU above the quota of r fits")
}
