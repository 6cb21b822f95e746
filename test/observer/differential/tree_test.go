package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/seed"
	"cardquota.dev/operator/internal/workload"
	"cardquota.dev/operator/test/observer/rule"
)

var treeNames = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// drawTree draws a tree of queues. With faults some paths are missing, in a cycle or too deep, and some
// queues are closed or have no quota.
func drawTree(t *rapid.T, faults bool, unmanaged v1alpha1.UnmanagedQueues) map[string]*v1beta1.Queue {
	out := map[string]*v1beta1.Queue{}
	for i, name := range treeNames[:drawInt(t, 2, len(treeNames), "queues")] {
		q := builder.Queue(name).Annotation(v1alpha1.AnnotationCardQuota, drawAmounts(t, "quota", 9)).
			Annotation("volcano.sh/card.deserved", drawAmounts(t, "deserved", 7)).Annotation("volcano.sh/card.guarantee", drawAmounts(t, "guarantee", 4)).Obj()
		above := append([]string{""}, treeNames[:i]...)
		if faults && drawInt(t, 0, 5, "fault") == 0 {
			above = append(treeNames, "nowhere")
		}

		if drawInt(t, 0, 2, "chain") > 0 {
			above = above[len(above)-1:]
		}
		q.Spec.Parent = oneOf(t, "parent", above...)

		if drawInt(t, 0, 7, "held") == 0 {
			q.Annotations["volcano.sh/stop-policy"] = oneOf(t, "stop", "Hold", "HoldAndDrain")
		}
		if drawInt(t, 0, 7, "parent only") == 0 {
			q.Annotations["cardquota.dev/parent-only"] = "true"
		}
		if faults && drawInt(t, 0, 9, "closed") == 0 {
			q.Status.State = v1beta1.QueueStateClosed
		}
		if faults && drawInt(t, 0, 3, "unmanaged") == 0 {
			delete(q.Annotations, v1alpha1.AnnotationCardQuota)
		}

		if drawInt(t, 0, 1, "unlimited") == 0 {
			q.Annotations["volcano.sh/unlimited.resources"] = oneOf(t, "unlimited resources", "cpu", "memory", "cpu,memory", "cpus")
		}
		q.Spec.Capability = drawCompute(t, "capability")
		q.Spec.Deserved = drawCompute(t, "deserved")
		q.Spec.Guarantee.Resource = drawCompute(t, "guarantee")
		out[name] = q
	}

	return out
}

// drawAmounts draws amounts of cards as the text of an annotation.
func drawAmounts(t *rapid.T, what string, most int) string {
	text := ""
	for _, name := range ledgerCards {
		if drawInt(t, 0, 3, "whether "+what) > 0 {
			text += fmt.Sprintf(",%q:%d", name, drawInt(t, 0, most, what))
		}
	}
	return "{" + strings.TrimPrefix(text, ",") + "}"
}

// drawCompute draws amounts of CPU and memory, some of them beyond any cluster.
func drawCompute(t *rapid.T, what string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if drawInt(t, 0, 2, fmt.Sprint("whether ", what, name)) > 0 {
			list[name] = resource.MustParse(oneOf(t, fmt.Sprint(what, name), "0", "1", "2", "3", "5", "8", "1500m", "7Pi", "9E"))
		}
	}
	return list
}

// newTrees returns what both sides make of a tree.
func newTrees(queues map[string]*v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues) (*quota.Tree, *rule.Tree) {
	written := map[string]quota.TreeQueue{}
	for name, q := range queues {
		rules := workload.QueueRulesFor(q, unmanaged, nil)
		written[name] = rules.Tree
	}
	return quota.ResolveTree(written), rule.NewTree(queues, string(unmanaged))
}

// TestProductAndObserverResolveATreeAlike: in a tree the amounts in force follow from what all queues write: a quota
// may be inherited, and what children deserve is scaled to what their parent does. Trees are random, some with faults
// such as missing parents or cycles. The product and the observer, a tool of the tests, must find the same amounts of
// cards, CPU and memory. They must also agree which queues have no path to the root or keep no guarantee. A queue in
// which the product finds a fault must take no work by the rules of the observer either.
func TestProductAndObserverResolveATreeAlike(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		unmanaged := oneOf(t, "unmanaged queues", v1alpha1.UnmanagedEnforce, v1alpha1.UnmanagedIgnore, v1alpha1.UnmanagedDeny)
		product, observed := newTrees(drawTree(t, true, unmanaged), unmanaged)
		queues := maps.Collect(product.All())
		for _, name := range slices.Sorted(maps.Keys(queues)) {
			resolved := queues[name]
			q := observed.Queue(name)
			kind := resolved.Fault.Kind
			if kind != quota.NoFault {
				equal(t, "takes no work: "+name, true, observed.WhyClosed(name) != "")
			}

			equal(t, "has no path: "+name, kind == quota.ParentNotFound || kind == quota.ParentCycle || kind == quota.TooDeep, len(q.Path) == 0)
			if len(q.Path) == 0 {
				continue
			}

			equal(t, "keeps no guarantee: "+name, resolved.Limits.IsHeld, !observed.KeepsGuarantee(name))
			equal(t, "any card: "+name, resolved.Limits.AnyCard, q.AnyCard)
			for _, card := range ledgerCards {
				compareAmounts(t, q, resolved.Limits, card, quota.Resource(card), int64(resolved.Limits.Cards[cardName(card)]))
			}
			compareAmounts(t, q, resolved.Limits, rule.CPU, quota.CPU, resolved.Limits.MilliCPU)
			compareAmounts(t, q, resolved.Limits, rule.Memory, quota.Memory, resolved.Limits.Memory)
		}
	})
}

// compareAmounts compares the amounts in force of one card, of CPU or of memory.
func compareAmounts(t *rapid.T, q *rule.TreeQueue, limits quota.Limits, observed string, product quota.Resource, most int64) {
	isCompute := observed == rule.CPU || observed == rule.Memory
	if limits.AnyCard && !isCompute {
		return
	}

	deserved, isWritten := limits.Deserved[product]
	if !isWritten && isCompute {
		deserved = most
	}
	equal(t, "quota "+q.Name+observed, most, q.QuotaOf(observed))
	equal(t, "deserved "+q.Name+observed, deserved, q.DeservedOf(observed))
	equal(t, "guarantee "+q.Name+observed, limits.Guarantee[product], q.GuaranteeOf(observed))
}

func cardName(name string) card.Name { return card.Name(name) }

// treePod is what a pod uses in the recount.
type treePod struct {
	queue, card                string
	count                      int64
	isUnreclaimable, isOffline bool
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

// TestTheLedgerOfATreeAllowsWhatARecountAllows: a request fits a tree under three conditions. The quotas of its queue
// and all ancestors suffice. Unused guarantees of others stay free. What cannot be reclaimed stays within deserved.
// The product's ledger keeps running sums for that; the observer, a tool of the tests, counts all pods again. After
// each random step (charge or release a pod) both must say the same of a random request. Cards of pods that are
// offline (IsOffInventory) are not in the inventory, and so take none of its free cards. isUnreclaimable is a pod that
// cannot be reclaimed.
func TestTheLedgerOfATreeAllowsWhatARecountAllows(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		product, observed := newTrees(drawTree(t, false, v1alpha1.UnmanagedEnforce), v1alpha1.UnmanagedEnforce)
		ledger := quota.New(0)

		names := []string{}
		for name := range product.All() {
			if len(observed.Queue(name).Path) > 0 {
				names = append(names, name)
			}
		}

		slices.Sort(names)
		leaves := slices.DeleteFunc(slices.Clone(names), observed.IsParent)
		if len(leaves) == 0 {
			return // a chain that is too deep
		}

		ledger.SetTree(product)
		inventory := map[card.Name]card.Count{}
		for _, name := range ledgerCards {
			inventory[card.Name(name)] = card.Count(drawInt(t, 0, 14, "inventory"))
		}

		ledger.SetInventory(inventory, 1<<40, 1<<40) // more CPU and memory than pods use
		pods := map[string]treePod{}
		for range perDraw {
			name := fmt.Sprint("p", drawInt(t, 0, 5, "pod"))
			if drawInt(t, 0, 3, "what happens") == 0 {
				ledger.Release(name)
				delete(pods, name)
			} else {
				p := treePod{
					queue:           oneOf(t, "queue", names...),
					card:            oneOf(t, "card", ledgerCards...),
					count:           int64(drawInt(t, 1, 4, "count")),
					isUnreclaimable: drawInt(t, 0, 3, "unreclaimable") == 0,
					isOffline:       drawInt(t, 0, 5, "offline") == 0,
				}
				pods[name] = p
				ledger.Charge(name, &quota.Charge{
					Queue:           p.queue,
					Cards:           []card.Amount{{Name: card.Name(p.card), Count: card.Count(p.count)}},
					IsUnreclaimable: p.isUnreclaimable,
					IsOffInventory:  p.isOffline,
				})
			}

			queue := oneOf(t, "queue of the request", leaves...)
			name = oneOf(t, "card", ledgerCards...)
			for _, unreclaimable := range []bool{false, true} {
				compareWhetherItFits(t, ledger, observed, pods, treePod{queue, name, int64(drawInt(t, 1, 4, "request")), unreclaimable, false}, int64(inventory[card.Name(name)]))
			}
		}
	})
}

// compareWhetherItFits compares whether a request, written as the pod that it would become, fits beside all pods.
func compareWhetherItFits(t *rapid.T, ledger *quota.Ledger, tree *rule.Tree, pods map[string]treePod, request treePod, inventory int64) {
	use := treeUse(pods, request.card, func(treePod) bool { return true })
	for _, n := range treeUse(pods, request.card, func(p treePod) bool { return p.isOffline }) {
		inventory += n
	}

	use[request.queue] += request.count
	why := tree.AboveQuota(request.queue, request.card, use)
	if why == "" {
		why = tree.TakesGuarantee(request.queue, request.card, request.count, use, inventory)
	}

	if why == "" && request.isUnreclaimable {
		unreclaimable := treeUse(pods, request.card, func(p treePod) bool { return p.isUnreclaimable })
		unreclaimable[request.queue] += request.count
		why = tree.AboveDeserved(request.queue, request.card, unreclaimable)
	}

	fits := ledger.Fits(request.queue, quota.Request{
		Names: []card.Name{card.Name(request.card)}, Count: card.Count(request.count), IsUnreclaimable: request.isUnreclaimable,
	}, quota.Within{})
	if fits != (why == "") {
		t.Fatalf("%+v beside %+v in %s: the ledger says %t, the observer %q (inventory %d)", request, pods, tree, fits, why, inventory)
	}
}
