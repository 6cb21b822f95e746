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

// amountsOf returns the amounts of one name that a resolved queue has.
func amountsOf(l Limits, name Resource) [3]int64 {
	return [3]int64{l.Quota(name), l.deserved(name), l.Guarantee[name]}
}

// TestEachQueueHasTheFaultOfItsPath: a queue takes no work if its path to root is broken: by a missing parent, a
// cycle, or more than six queues. Nor does it if a queue on the path is held, or if it is itself a parent or meant to be
// one only (IsParentOnly). Trees are random; package differential compares the amounts. For each queue:
// (1) The fault is that of the path as it is written, and names a queue of this path.
// (2) With a broken path the queue has no parent, and the fault names the parent at which the path breaks. Else its
// parent is the written one.
// (3) Its unused guarantee is dropped (IsHeld) exactly if the path is broken or held, or if the queue can never take work:
// it has no children, and is closed or a parent only.
func TestEachQueueHasTheFaultOfItsPath(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		queues := drawTree(t)
		resolved := ResolveTree(queues)
		check.Must(t, len(resolved.queues) == len(queues), "%d queues of %d", len(resolved.queues), len(queues))
		for name, r := range resolved.All() {
			written := queues[name]
			path, broken := naivePath(queues, name)
			fault := naiveFault(queues, name)
			check.Must(t, r.Fault.Kind == fault, "(1) fault %v of %s, want %v", r.Fault, name, fault)
			check.Must(t, fault == NoFault || slices.Contains(path, r.Fault.Queue), "(1) the fault of %s names %s, which is not on its path %v", name, r.Fault.Queue, path)

			wantParent := written.Parent
			if broken != NoFault {
				wantParent = ""
				check.Must(t, r.Fault.Parent == queues[r.Fault.Queue].Parent, "(2) the fault of %s names parent %s", name, r.Fault.Parent)
			}
			check.Must(t, r.Parent == wantParent, "(2) %s has parent %q, want %q", name, r.Parent, wantParent)

			isUseless := len(writtenParents(queues).Children(name)) == 0 && (written.IsParentOnly || written.IsClosed)
			wantDropped := broken != NoFault || fault == IsHeld || isUseless
			check.Must(t, r.Limits.IsHeld == wantDropped, "(3) the unused guarantee of %s is dropped: %v, want %v", name, r.Limits.IsHeld, wantDropped)
		}
	})
}

// TestResolvedAmountsAreConsistent: whatever users write into a tree, the amounts that count are consistent. A guarantee
// is at most what the queue deserves, and that at most its quota. The children of a queue together deserve at most
// what the queue deserves, and are guaranteed at most its guarantee. Not counted are cards of queues that may use any.
// Nor are deserved CPU and memory of children, if these and their subtrees write neither deserved nor guarantee of it.
// Trees are random.
func TestResolvedAmountsAreConsistent(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		queues := drawTree(t)
		resolved := ResolveTree(queues)
		for q, r := range resolved.All() {
			children := maps.Collect(resolved.All())
			maps.DeleteFunc(children, func(_ string, c *Resolved) bool { return c.Parent != q })
			for child, c := range children {
				check.Must(t, c.Fault.Kind != ParentNotFound, "%s is below %s without a path", child, q)
			}

			for _, name := range treeNames {
				a := amountsOf(r.Limits, name)
				sums := sumAmounts(queues, children, name)
				check.Must(t, 0 <= a[2] && a[2] <= a[1] && a[1] <= a[0], "%s of %s: quota, deserved, guarantee %v", name, q, a)
				check.Must(t, sums[1] <= a[1] || (r.Limits.AnyCard && naiveIsCard(name)), "the children of %s deserve %d %s, the queue %d", q, sums[1], name, a[1])
				check.Must(t, sums[2] <= a[2], "the children of %s are guaranteed %d %s, the queue %d", q, sums[2], name, a[2])
			}
		}
	})
}

// sumAmounts adds the amounts of one name that resolved children have. It does not count a child of
// any card, and CPU and memory that are only a ceiling and not deserved.
func sumAmounts(queues map[string]TreeQueue, children map[string]*Resolved, name Resource) (sums [3]int64) {
	for child, c := range children {
		if naiveIsCard(name) && c.Limits.AnyCard {
			continue
		}

		amounts := amountsOf(c.Limits, name)
		if !naiveIsCard(name) && !naiveWritesAmount(queues, child, name) {
			amounts[1] = 0
		}
		for i, amount := range amounts {
			sums[i] = AddSaturating(sums[i], amount)
		}
	}
	return sums
}

// TestExcessNamesEveryWrittenAmountThatDoesNotCount: where an amount is above that of its parent, or above another amount
// of its queue, less of it counts. ResolveTree reports that, so that the administrator can correct it. Trees are random.
// (1) A report about a queue names its parent, and no report comes twice.
// (2) What a queue writes as deserved counts less exactly if a report says so: above its quota, or above its parent.
// (3) A guarantee that counts as written has no report. One that counts less has a report about the same card, CPU or
// memory: its own, or that of the quota or of what is deserved.
// (4) A written quota has a report exactly if it is above that of the parent, which may have none. An amount that a queue
// only deserves or is guaranteed has one where there is no quota to inherit (checkQuotaReported).
func TestExcessNamesEveryWrittenAmountThatDoesNotCount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		queues := drawTree(t)
		for q, r := range ResolveTree(queues).All() {
			reported := map[Resource]map[ExcessKind]Excess{}
			for _, e := range r.Excess {
				if reported[e.Of] == nil {
					reported[e.Of] = map[ExcessKind]Excess{}
				}
				_, twice := reported[e.Of][e.Kind]
				check.Must(t, !twice, "(1) %s of %s is reported twice: %+v", e.Of, q, r.Excess)
				check.Must(t, e.Parent == r.Parent, "(1) the excess of %s names parent %q, want %q", q, e.Parent, r.Parent)
				reported[e.Of][e.Kind] = e
			}

			for _, name := range treeNames {
				deserved, isWritten := queues[q].Deserved[name]
				_, cut := reported[name][DeservedAboveQuota]
				_, scaled := reported[name][DeservedAboveParent]
				if isWritten {
					check.Must(t, (deserved != r.Limits.deserved(name)) == (cut || scaled), "(2) %s deserves %d %s, written %d, reported %+v", q, r.Limits.deserved(name), name, deserved, reported[name])
				}

				guarantee := queues[q].Guarantee[name]
				if guarantee == r.Limits.Guarantee[name] {
					_, cut = reported[name][GuaranteeAboveDeserved]
					_, scaled = reported[name][GuaranteeAboveParent]
					check.Must(t, !cut && !scaled, "(3) the guarantee %d %s of %s counts, reported %+v", guarantee, name, q, reported[name])
				} else {
					check.Must(t, len(reported[name]) > 0, "(3) the guarantee %d %s of %s counts as %d, and that is not reported", guarantee, name, q, r.Limits.Guarantee[name])
				}

				checkQuotaReported(t, queues, q, r, name, reported[name])
			}
		}
	})
}

// checkQuotaReported checks the reports about the quota of one name.
func checkQuotaReported(t *rapid.T, queues map[string]TreeQueue, q string, r *Resolved, name Resource, reported map[ExcessKind]Excess) {
	written, isWritten := queues[q].Quota[name]
	above := int64(-1)
	if r.Parent != "" {
		parent := ResolveTree(queues).Queue(r.Parent).Limits
		above = parent.Quota(name)
	}

	want := naiveQuotaExcess(queues[q], r.Parent, above, name)
	for _, kind := range []ExcessKind{NothingToInherit, NotInParent, QuotaAboveParent} {
		_, got := reported[kind]
		check.Must(t, got == slices.Contains(want, kind), "(4) %s of %s: written %d (%v), the parent has %d, reported %+v", name, q, written, isWritten, above, reported)
	}
}

// naiveQuotaExcess returns what is wrong with the quota of one name. above is the quota of the parent.
func naiveQuotaExcess(q TreeQueue, parent string, above int64, name Resource) []ExcessKind {
	written, isWritten := q.Quota[name]
	_, isDeserved := q.Deserved[name]
	_, isGuaranteed := q.Guarantee[name]
	switch {
	case !slices.Contains([]bool{isWritten, isDeserved, isGuaranteed}, true):
		return nil
	case q.Parent == "" && !naiveIsCard(name): // no queue limits CPU and memory at the top level
		return nil
	case parent == "" && !isWritten:
		return []ExcessKind{NothingToInherit}
	case parent == "":
		return nil
	case above == 0 && (written > 0 || !isWritten):
		return []ExcessKind{NotInParent}
	case isWritten && written > above:
		return []ExcessKind{QuotaAboveParent}
	}

	return nil
}

// TestPathsOfATreeAreThoseOfAWalk: the path of a queue leads over its parents to root. If it does not reach root, over a
// missing parent, a cycle or too many queues, the queue is alone on its path. WrittenAncestors has its parents also
// then. Below a queue are those whose paths lead through it. Of two queues, PathBelow is the part of the second one's
// path that they do not share. The level is its length, at least 1. Trees are random.
func TestPathsOfATreeAreThoseOfAWalk(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		queues := drawTree(t)
		tree := ResolveTree(queues)
		paths := map[string][]string{}
		for name := range queues {
			path, wrong := naivePath(queues, name)
			check.Must(t, slices.Equal(tree.WrittenAncestors(name), path[1:]), "above %s is %v, want %v", name, tree.WrittenAncestors(name), path[1:])
			if wrong != NoFault {
				path = []string{name}
			}
			paths[name] = path
			check.Must(t, slices.Equal(tree.Path(name), path), "the path of %s is %v, want %v", name, tree.Path(name), path)
			check.Must(t, slices.Equal(tree.Ancestors(name), path[1:]), "on the path above %s is %v, want %v", name, tree.Ancestors(name), path[1:])
		}

		for name := range queues {
			below := tree.Below(name)
			for other, path := range paths {
				isBelow := slices.Contains(path, name)
				check.Must(t, slices.Contains(below, other) == isBelow, "%s is below %s: %v", other, name, isBelow)

				own := slices.DeleteFunc(slices.Clone(path), func(at string) bool { return slices.Contains(paths[name], at) })
				check.Must(t, slices.Equal(tree.PathBelow(name, other), own), "the path of %s has below that of %s: %v, want %v", other, name, tree.PathBelow(name, other), own)
				check.Must(t, tree.Level(other, name) == max(1, len(own)), "level of %s, seen from %s: %d, want %d", name, other, tree.Level(other, name), max(1, len(own)))
			}
		}
	})
}

// TestAQueueWithoutAPathChangesNoOtherQueue: a mistake in one part of the tree must not change what other queues may use.
// The queues with a path to root are resolved as if those without one were not there. Trees are random.
func TestAQueueWithoutAPathChangesNoOtherQueue(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		queues := drawTree(t)
		sound := maps.Clone(queues)
		for name := range queues {
			if _, wrong := naivePath(queues, name); wrong != NoFault {
				delete(sound, name)
			}
		}

		without := ResolveTree(sound)
		for name, r := range ResolveTree(queues).All() {
			if _, isSound := sound[name]; !isSound {
				continue
			}

			got := *r
			want := *without.Queue(name)
			got.Children = want.Children  // broken queues may be among them
			if r.Fault.Kind == IsParent { // broken queues may be its only children
				got.Fault = want.Fault
			}
			check.Must(t, fmt.Sprint(got) == fmt.Sprint(want), "%s is %v, without the broken queues %v", name, got, want)
		}
	})
}

// TestScalingKeepsTheOrder: children that together deserve more than their parent are scaled down in proportion, and
// rounded to whole cards. A child that writes more than a sibling (up to what the parent has) gets no less. If the
// parent deserves more, no child loses more than the one card that rounding can move. Amounts are random.
func TestScalingKeepsTheOrder(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		queues := map[string]TreeQueue{"parent": {Quota: Amounts{"A": 999}, Deserved: Amounts{"A": int64(rapid.IntRange(0, 20).Draw(t, "parent"))}}}
		for i := range rapid.IntRange(1, 5).Draw(t, "children") {
			queues[fmt.Sprint("q", i)] = TreeQueue{Parent: "parent", Quota: Amounts{"A": 999}, Deserved: Amounts{"A": int64(rapid.IntRange(0, 20).Draw(t, "child"))}}
		}

		deserved := func() map[string]int64 {
			counts := map[string]int64{}
			for name, r := range ResolveTree(queues).All() {
				counts[name] = r.Limits.deserved("A")
			}
			return counts
		}

		before := deserved()
		for name := range before {
			for other := range before {
				most := queues["parent"].Deserved["A"]
				if name != "parent" && other != "parent" && min(queues[name].Deserved["A"], most) > min(queues[other].Deserved["A"], most) {
					check.Must(t, before[name] >= before[other], "%v of %v", before, queues)
				}
			}
		}

		queues["parent"].Deserved["A"] += int64(rapid.IntRange(1, 20).Draw(t, "more"))
		for name, count := range deserved() {
			check.Must(t, count >= before[name]-1, "%s deserved %d, and with a larger parent %d", name, before[name], count)
		}
	})
}

// TestResolveTreeByExample: an example in numbers of the amounts that count. "chat" deserves 6 H200 and is guaranteed
// 2. Its children deserve 4 each and are guaranteed 2 and 1, so both are scaled down: to 3 and 3, and to 1⅓ and ⅔,
// rounded to 1 and 1. A list such as [8 3 1] is quota, deserved and guarantee. The other queues show a quota of MIG
// slices that the parent does not have, and a parent that does not exist.
func TestResolveTreeByExample(t *testing.T) {
	resolved := ResolveTree(map[string]TreeQueue{
		"chat":     {Quota: Amounts{"H200": 8, "H200/mig-1g.18gb-mixed": 7}, Deserved: Amounts{"H200": 6}, Guarantee: Amounts{"H200": 2}},
		"serving":  {Parent: "chat", Quota: Amounts{"H200": 8}, Deserved: Amounts{"H200": 4}, Guarantee: Amounts{"H200": 2}},
		"training": {Parent: "chat", Deserved: Amounts{"H200": 4, "H200/mig-1g.18gb-mixed": 3}, Guarantee: Amounts{"H200": 1}},
		"slices":   {Parent: "whole", Quota: Amounts{"H800/mig-2g.20gb-mixed": 1}},
		"whole":    {Quota: Amounts{"H800": 4}},
		"orphan":   {Parent: "gone", Quota: Amounts{"H200": 3}, Guarantee: Amounts{"H200": 3}},
	})

	check.Equal(t, "quota, deserved and guarantee of serving", [3]int64{8, 3, 1}, amountsOf(resolved.Queue("serving").Limits, "H200"))
	check.Equal(t, "quota, deserved and guarantee of training: 0.67 has the larger fraction, so it is rounded up", [3]int64{8, 3, 1}, amountsOf(resolved.Queue("training").Limits, "H200"))
	check.Equal(t, "quota of training, which writes none and inherits that of its parent for the cards that it deserves", card.Quota{"H200": 8, "H200/mig-1g.18gb-mixed": 7}, resolved.Queue("training").Limits.Cards)
	check.Equal(t, "a quota of whole H800 covers no MIG slices of them", []Excess{{Kind: NotInParent, Of: "H800/mig-2g.20gb-mixed", Parent: "whole", Written: 1}}, resolved.Queue("slices").Excess[:1])
	check.Equal(t, "fault of a queue whose parent does not exist", Fault{Kind: ParentNotFound, Queue: "orphan", Parent: "gone"}, resolved.Queue("orphan").Fault)
	check.That(t, resolved.Queue("orphan").Limits.IsHeld, "the unused guarantee of the orphan stays reserved, although no queue can use it")
	check.Equal(t, "fault of a queue with children", Fault{Kind: IsParent, Queue: "chat"}, resolved.Queue("chat").Fault)
}

// TestUnwrittenCPUIsThatOfTheParent: a queue that writes no quota of CPU has that of its parent, and no limit directly
// under root. So "open" and its child "all" are not limited, and "some" has the 9 that it writes. "ten" gives its 10 to
// "inherits" and, over that, to "deep", which deserves 4 of them. "none" has 0, and its child inherits that: this is no
// excess. "orphan" has no path to root, so nothing to inherit. WritesCompute names the queues for which Volcano's
// webhook needs a number: they, or queues below them, write an amount.
func TestUnwrittenCPUIsThatOfTheParent(t *testing.T) {
	written := map[string]TreeQueue{
		"open":     {},
		"all":      {Parent: "open"},
		"some":     {Parent: "open", Quota: Amounts{CPU: 9}},
		"free":     {},
		"ten":      {Quota: Amounts{CPU: 10}},
		"inherits": {Parent: "ten"},
		"deep":     {Parent: "inherits", Deserved: Amounts{CPU: 4}},
		"none":     {Quota: Amounts{CPU: 0}},
		"zero":     {Parent: "none"},
		"top":      {Deserved: Amounts{CPU: 3}},
		"orphan":   {Parent: "gone"},
	}
	want := map[string]int64{"open": Unlimited, "all": Unlimited, "some": 9, "free": Unlimited, "ten": 10, "inherits": 10, "deep": 10, "none": 0, "zero": 0, "top": Unlimited, "orphan": 0}

	tree := ResolveTree(written)
	writes := map[string]bool{}
	for name, r := range tree.All() {
		check.Equal(t, "CPU of "+name, want[name], r.Limits.MilliCPU)
		check.Equal(t, "excess of "+name, 0, len(r.Excess))
		if r.WritesCompute[CPU] {
			writes[name] = true
		}
	}

	check.Equal(t, "queues that need a number", []string{"deep", "inherits", "none", "open", "some", "ten", "top"}, slices.Sorted(maps.Keys(writes)))
	check.Equal(t, "CPU that top deserves", int64(3), tree.Queue("top").Limits.deserved(CPU))
	check.Equal(t, "CPU that all deserves", Unlimited, tree.Queue("all").Limits.deserved(CPU))
	check.Equal(t, "excess of an orphan by what is written", 0, len(ResolveWritten(written).Queue("orphan").Excess))
}

// TestResolveWrittenCutsNothing: ResolveWritten reports what is too much in what each queue writes. "top" deserves 4 A,
// its child "mid" writes 6, and "leaf" below that writes 5. ResolveTree cuts mid to 4, so leaf has too much as well.
// ResolveWritten lets mid keep its 6, of which leaf has not too much. "sibling" is guaranteed 2: more than the 0 that it
// deserves, and than the 0 that top is guaranteed. "low" inherits its quota of B from a parent that does not exist, so
// what its child "deep" may have of B is unknown. "a" and "b" are a cycle, so no parent limits them.
func TestResolveWrittenCutsNothing(t *testing.T) {
	written := map[string]TreeQueue{
		"top":     {Quota: Amounts{"A": 9}, Deserved: Amounts{"A": 4}},
		"mid":     {Parent: "top", Quota: Amounts{"A": 9}, Deserved: Amounts{"A": 6}},
		"leaf":    {Parent: "mid", Quota: Amounts{"A": 9}, Deserved: Amounts{"A": 5}},
		"sibling": {Parent: "top", Quota: Amounts{"A": 9}, Deserved: Amounts{"A": 0}, Guarantee: Amounts{"A": 2}},
		"low":     {Parent: "gone", Deserved: Amounts{"B": 1}},
		"deep":    {Parent: "low", Quota: Amounts{"B": 7}, Guarantee: Amounts{"B": 2}},
		"a":       {Parent: "b", Deserved: Amounts{"B": 1}},
		"b":       {Parent: "a"},
	}

	inForce := ResolveTree(written)
	check.Equal(t, "excesses of mid and leaf in force", []int{1, 1}, []int{len(inForce.Queue("mid").Excess), len(inForce.Queue("leaf").Excess)})
	tree := ResolveWritten(written)
	want := Excess{Kind: DeservedAboveParent, Of: "A", Parent: "top", Written: 6, Allowed: 4, Sum: 6 + 0, Limit: 4, Parts: []Part{{"mid", 6}}} // sibling deserves 0
	check.Equal(t, "excess of mid", []Excess{want}, tree.Queue("mid").Excess)
	check.Equal(t, "guarantee of sibling", int64(2), tree.Queue("sibling").Limits.Guarantee["A"])
	ofSibling := []Excess{
		{Kind: GuaranteeAboveDeserved, Of: "A", Parent: "top", Written: 2},
		{Kind: GuaranteeAboveParent, Of: "A", Parent: "top", Written: 2, Sum: 2, Parts: []Part{{"sibling", 2}}},
	}
	check.Equal(t, "excess of the children of top", append([]Excess{want}, ofSibling...), tree.ExcessOfChildren("top"))
	check.Equal(t, "A by which mid exceeds top", int64(6-4), want.Over())
	check.Equal(t, "deserved A of mid", int64(6), tree.Queue("mid").Limits.deserved("A"))
	for _, name := range []string{"leaf", "low", "deep", "a"} {
		check.Equal(t, "excess of "+name, 0, len(tree.Queue(name).Excess))
	}
	check.Equal(t, "path of deep, which ends before the missing queue", []string{"deep", "low"}, tree.Path("deep"))
}

// TestANewFlatQueueMovesNoPods: a place in a tree that changes lets the ledger charge all pods again. Flat queues have
// no place, so a new one, and one with another quota, leaves the sums of the others as they are.
func TestANewFlatQueueMovesNoPods(t *testing.T) {
	l := newQueueLedger(card.Quota{"A": 8})
	l.Charge("pod", newCharge("q", "A", 5))
	before := &l.queues["q"].used.cards

	limits := map[string]Limits{"q": {Cards: card.Quota{"A": 7}}, "r": {Cards: card.Quota{"A": 8}}}
	l.SetTree(Flat.WithFlat(limits))
	check.That(t, before == &l.queues["q"].used.cards, "the pods of q were charged again")
	check.Equal(t, "further A that fit q with a quota of 7", 7-5, mostA(l, "q", QuotaLeft))
	check.Equal(t, "further A that fit the new queue", 8, mostA(l, "r", QuotaLeft))
}

// TestFlatQueuesAreATreeOfDepthOne: flat queues have no ancestors and no fault, and are at level 1 for each other. Queue
// q may use its quota of 8 A: it does not borrow, so nothing stops that. There is no root, so the one A of the
// inventory is no limit. Nor is what is kept for a pod of another queue.
func TestFlatQueuesAreATreeOfDepthOne(t *testing.T) {
	check.Equal(t, "path", []string{"q"}, Flat.Path("q"))
	check.Equal(t, "ancestors", 0, len(Flat.Ancestors("q"))+len(Flat.WrittenAncestors("q")))
	check.Equal(t, "queues below q, with itself", []string{"q"}, Flat.Below("q"))
	check.Equal(t, "level of r for q", 1, Flat.Level("q", "r"))
	check.Equal(t, "fault", Fault{}, Flat.Queue("q").Fault)

	limits := Limits{Cards: card.Quota{"A": 8}, MilliCPU: Unlimited, Memory: Unlimited}
	l := newFlatLedger(map[string]Limits{"q": limits, "r": limits})
	l.SetInventory(map[card.Name]card.Count{"A": 1}, 0, 0)
	l.Charge("pod", &Charge{Queue: "q", Cards: []card.Amount{{Name: "A", Count: 5}}})
	l.Keep("other", &Charge{Queue: "r", Cards: []card.Amount{{Name: "A", Count: 4}}})
	l.StopBorrowing("q", map[Resource]bool{"A": true})

	check.Equal(t, "further A that fit q", 8-5, mostA(l, "q", QuotaLeft))
	check.Equal(t, "further A that q deserves", 8-5, mostA(l, "q", DeservedLeft))
	check.Equal(t, "A that q uses above what it deserves", int64(5-8), l.AboveDeserved("q", "A"))
}
