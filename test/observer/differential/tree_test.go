package differential

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/test/observer/rule"
)

var treeNames = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// drawnQueue is a queue of a tree in both forms.
type drawnQueue struct {
	theirs quota.TreeQueue
	ours   *v1beta1.Queue
}

// drawTree draws a tree of queues; with faults some paths are missing, in a cycle or too deep.
func drawTree(t *rapid.T, faults bool) map[string]drawnQueue {
	out := map[string]drawnQueue{}
	for i, name := range treeNames[:drawInt(t, 2, len(treeNames), "queues")] {
		q := drawnQueue{ours: builder.Queue(name).Obj()}
		above := append([]string{""}, treeNames[:i]...)
		if faults && drawInt(t, 0, 5, "fault") == 0 {
			above = append(treeNames, "nowhere")
		}

		if drawInt(t, 0, 2, "chain") > 0 {
			above = above[len(above)-1:]
		}

		q.theirs.Parent = oneOf(t, "parent", above...)
		q.ours.Spec.Parent = q.theirs.Parent
		q.theirs.IsHeld = drawInt(t, 0, 7, "held") == 0
		if q.theirs.IsHeld {
			q.annotate("volcano.sh/stop-policy", oneOf(t, "stop", "Hold", "HoldAndDrain"))
		}

		q.theirs.IsParentOnly = drawInt(t, 0, 7, "parent only") == 0
		if q.theirs.IsParentOnly {
			q.annotate("cardquota.dev/parent-only", "true")
		}

		q.theirs.Quota = q.drawShares(t, "volcano.sh/card.quota", 9)
		q.theirs.Deserved = q.drawShares(t, "volcano.sh/card.deserved", 7)
		q.theirs.Guarantee = q.drawShares(t, "volcano.sh/card.guarantee", 4)
		out[name] = q
	}

	return out
}

func (q *drawnQueue) annotate(key, value string) {
	if q.ours.Annotations == nil {
		q.ours.Annotations = map[string]string{}
	}
	q.ours.Annotations[key] = value
}

// drawShares draws amounts of cards and writes them to an annotation.
func (q *drawnQueue) drawShares(t *rapid.T, annotation string, most int) quota.Shares {
	shares := quota.Shares{}
	text := ""
	for _, name := range ledgerCards {
		if drawInt(t, 0, 3, "whether "+annotation) == 0 {
			continue
		}
		n := drawInt(t, 0, most, annotation)
		shares[card.Name(name)] = int64(n)
		text += fmt.Sprintf(",%q:%d", name, n)
	}

	q.annotate(annotation, "{"+text[min(1, len(text)):]+"}")
	return shares
}

// newTrees returns what both sides make of a tree.
func newTrees(drawn map[string]drawnQueue) (map[string]quota.Resolved, *rule.Tree) {
	written := map[string]quota.TreeQueue{}
	objects := map[string]*v1beta1.Queue{}
	for name, q := range drawn {
		written[name] = q.theirs
		objects[name] = q.ours
	}
	return quota.ResolveTree(written), rule.NewTree(objects, rule.UnmanagedEnforce)
}

// TestBothResolveATreeAlike compares the amounts in force and which queues take no work.
func TestBothResolveATreeAlike(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		drawn := drawTree(t, true)
		theirs, ours := newTrees(drawn)
		for _, name := range slices.Sorted(maps.Keys(drawn)) {
			resolved := theirs[name]
			q := ours.Queue(name)
			kind := resolved.Fault.Kind
			equal(t, "takes no work: "+name, kind != quota.NoFault, ours.WhyClosed(name) != "")
			equal(t, "has no path: "+name, kind == quota.ParentNotFound || kind == quota.ParentCycle || kind == quota.TooDeep, len(q.Path) == 0)
			if len(q.Path) == 0 {
				continue
			}

			equal(t, "keeps no guarantee: "+name, resolved.Limits.IsHeld, !ours.KeepsGuarantee(name))
			for _, card := range ledgerCards {
				equal(t, "deserved "+name+" "+card, resolved.Limits.Deserved[cardName(card)], q.Deserved[card])
				equal(t, "guarantee "+name+" "+card, resolved.Limits.Guarantee[cardName(card)], q.Guarantee[card])
				equal(t, "quota "+name+" "+card, int64(resolved.Limits.Cards[cardName(card)]), q.Cards[card])
			}
		}
	})
}

func cardName(name string) card.Name { return card.Name(name) }

// treePod is what a pod holds in the recount.
type treePod struct {
	queue, card        string
	count              int64
	isFixed, isOffline bool
}

func treeUse(pods map[string]treePod, card string, counts func(treePod) bool) rule.TreeUse {
	use := rule.TreeUse{}
	for _, p := range pods {
		if p.card == card && counts(p) {
			use[p.queue] += p.count
		}
	}
	return use
}

// TestTheLedgerOfATreeAgreesWithARecount compares for every leaf and card what fits: the quotas
// of all ancestors, guarantees of others, and what cannot be reclaimed.
func TestTheLedgerOfATreeAgreesWithARecount(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		drawn := drawTree(t, false)
		theirs, ours := newTrees(drawn)
		ledger := quota.New(0)

		names := []string{}
		positions := map[string]quota.Position{}
		for name, r := range theirs {
			if len(ours.Queue(name).Path) > 0 {
				positions[name] = quota.Position{Parent: r.Parent, Weight: 1}
				names = append(names, name)
			}
		}

		slices.Sort(names)
		leaves := slices.DeleteFunc(slices.Clone(names), ours.IsParent)
		if len(leaves) == 0 {
			return // a chain that is too deep
		}

		ledger.SetTree(positions)
		for _, name := range names {
			ledger.SetLimits(name, theirs[name].Limits)
		}

		inventory := map[card.Name]card.Count{}
		for _, name := range ledgerCards {
			inventory[card.Name(name)] = card.Count(drawInt(t, 0, 14, "inventory"))
		}

		ledger.SetInventory(inventory, 1<<40, 1<<40)
		ledger.Refresh()
		pods := map[string]treePod{}
		for range perDraw {
			name := fmt.Sprint("p", drawInt(t, 0, 5, "pod"))
			if drawInt(t, 0, 3, "what happens") == 0 {
				ledger.Release(name)
				delete(pods, name)
			} else {
				p := treePod{oneOf(t, "queue", names...), oneOf(t, "card", ledgerCards...), int64(drawInt(t, 1, 4, "count")), drawInt(t, 0, 3, "fixed") == 0, drawInt(t, 0, 5, "offline") == 0}
				pods[name] = p
				ledger.Charge(name, &quota.Charge{Queue: p.queue, Cards: []card.Amount{{Name: card.Name(p.card), Count: card.Count(p.count)}}, IsFixed: p.isFixed, IsOffInventory: p.isOffline})
			}

			queue := oneOf(t, "asking", leaves...)
			name = oneOf(t, "card", ledgerCards...)
			for _, fixed := range []bool{false, true} {
				compareRoom(t, ledger, ours, pods, treePod{queue, name, int64(drawInt(t, 1, 4, "request")), fixed, false}, int64(inventory[card.Name(name)]))
			}
		}
	})
}

func compareRoom(t *rapid.T, ledger *quota.Ledger, tree *rule.Tree, pods map[string]treePod, asks treePod, inventory int64) {
	use := treeUse(pods, asks.card, func(treePod) bool { return true })
	for _, n := range treeUse(pods, asks.card, func(p treePod) bool { return p.isOffline }) {
		inventory += n
	}

	use[asks.queue] += asks.count
	why := tree.AboveQuota(asks.queue, asks.card, use)
	if why == "" {
		why = tree.TakesGuarantee(asks.queue, asks.card, asks.count, use, inventory)
	}

	if why == "" && asks.isFixed {
		fixed := treeUse(pods, asks.card, func(p treePod) bool { return p.isFixed })
		fixed[asks.queue] += asks.count
		why = tree.AboveDeserved(asks.queue, asks.card, fixed)
	}

	fits := ledger.FitsCard(asks.queue, card.Name(asks.card), card.Count(asks.count), asks.isFixed)
	if fits != (why == "") {
		t.Fatalf("%+v beside %+v in %s: the ledger says %t, the rule %q (inventory %d)", asks, pods, tree, fits, why, inventory)
	}
}
