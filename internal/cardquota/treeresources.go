package cardquota

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Family are the Queues whose CPU and memory Volcano's webhook compares with those of one
// Queue, as last read.
type Family struct {
	// Parent is nil for a Queue at the top level, which has no bounds.
	Parent *v1beta1.Queue
	// Siblings are the other children of Parent.
	Siblings, Children []*v1beta1.Queue
}

// Stage returns the placement that Volcano's webhook accepts now, on the way to the given one.
// A child must not have more than its parent, so parents are raised first and lowered last.
// Each amount gets as close as the neighbors allow, so that no order of writes ends in a
// deadlock. An amount that Volcano would refuse whatever it is stays out, see leftOut. So does a limit that is inherited,
// see leavesOut. The Wait is nil when nothing is left to do.
func (p Placement) Stage(q *v1alpha1.CardQuota, f Family) (Placement, *Wait) {
	staged := Placement{Parent: p.Parent, HoldMessage: p.HoldMessage, Limit: quota.Amounts{}, Deserved: quota.Amounts{}, Guarantee: quota.Amounts{}, Annotations: p.Annotations}
	var missing missingAmounts
	leftOut := f.leftOut()
	deservedBelow := quota.Amounts{} // of Queues that write none, because they deserve any amount

	for _, key := range quota.Compute {
		bounds := f.boundsFor(key)
		if p.deservesAny(key) && !leftOut[deservedIndex] {
			deservedBelow[key] = bounds.least[deservedIndex]
			bounds = bounds.without([len(amountNames)]bool{deservedIndex: true})
		}

		want, got, isWanted := p.nearestAmounts(key, bounds.without(leftOut))
		if p.leavesOut(key, bounds.least, got == want, f) {
			staged.Unlimited = append(staged.Unlimited, key)
			missing.addInherited(key, p.Inherits[key])
			continue
		}

		for i, list := range []quota.Amounts{staged.Limit, staged.Deserved, staged.Guarantee} {
			if !leftOut[i] && (isWanted[i] || got[i] > 0) { // the children may need what is not wanted any more
				list[key] = got[i]
			}
			if isWanted[i] || !leftOut[i] { // else nothing is missing
				missing.addAmount(key, i, got[i], want[i], bounds.least[i], leftOut[i])
			}
		}
	}

	staged.addDeserved(deservedBelow)
	return staged, p.newWait(q, f, missing.forParent, missing.forChildren)
}

// nearestAmounts returns the amounts of CPU or memory that are wanted, 0 for those that are not, the nearest ones within the
// bounds, and which are wanted. A sibling that deserves any amount leaves nothing of it. Then none is wanted: the Queue
// deserves its limit.
func (p Placement) nearestAmounts(key quota.Resource, b bounds) (want, got amounts, isWanted [len(amountNames)]bool) {
	for i, list := range []quota.Amounts{p.Limit, p.Deserved, p.Guarantee} {
		want[i], isWanted[i] = list[key]
	}

	got = b.amountsNearestTo(want)
	if want[deservedIndex] == quota.Unlimited && got[deservedIndex] == 0 {
		want[deservedIndex] = 0
		isWanted[deservedIndex] = false
	}
	return want, got, isWanted
}

// missingAmounts say what a Queue does not have yet as wanted, and is to get when its parent or its children change.
type missingAmounts struct{ forParent, forChildren []string }

// addInherited notes a limit that is left out for now, if the Queue needs one of its own.
func (m *missingAmounts) addInherited(key quota.Resource, needsLimit bool) {
	if needsLimit {
		m.forParent = append(m.forParent, "only the limit of its parent for "+key.Label())
	}
}

// addAmount notes an amount that differs from what is wanted. kind is its index in amountNames, least is what the children have
// together. An amount that is smaller than wanted waits for the parent to grow, a larger one for the children to shrink.
// One that is left out waits for the children if they have more than is wanted, else for the parent.
func (m *missingAmounts) addAmount(key quota.Resource, kind int, got, want, least int64, isLeftOut bool) {
	text := fmt.Sprintf("%s %s of %s", amountNames[kind], formatAmount(key, got), formatAmount(key, want))
	if isLeftOut {
		text = fmt.Sprintf("no %s of %s", amountNames[kind], formatAmount(key, want))
	}

	switch {
	case got > want, isLeftOut && least > want:
		m.forChildren = append(m.forChildren, text)
	case kind == deservedIndex && want == quota.Unlimited && !isLeftOut: // what is left of any amount is enough
	case got < want, isLeftOut:
		m.forParent = append(m.forParent, text)
	}
}

// addDeserved gives the Queue what the Queues below it deserve, of which it writes none. Once it deserves memory, Volcano
// compares its children with the CPU that it deserves as well.
func (p *Placement) addDeserved(below quota.Amounts) {
	for key, sum := range below {
		if len(p.Deserved) > 0 && sum > 0 {
			p.Deserved[key] = sum
		}
	}
}

// leavesOut reports whether a Queue carries no amount of CPU or memory, because its limit is that of its parent. Volcano
// needs a number where children have some, and where it allows the number that amounts here or below need. Below another
// parent than that of which the limit is, the Queue carries the limit: it must not get more there.
func (p Placement) leavesOut(key quota.Resource, ofChildren amounts, isAllowed bool, f Family) bool {
	needsLimit, inherits := p.Inherits[key]
	if !inherits || ofChildren != (amounts{}) || (needsLimit && isAllowed) {
		return false
	}
	isInPlace := p.InheritsFrom != "" && f.Parent != nil && f.Parent.Name == p.InheritsFrom
	return isInPlace || p.Limit[key] == quota.Unlimited
}

// newWait returns why a Queue does not have all of its placement yet: amounts that wait for its parent, or
// for its children. It is nil when there are none.
func (p Placement) newWait(q *v1alpha1.CardQuota, f Family, forParent, forChildren []string) *Wait {
	switch {
	case len(forParent) > 0:
		return &Wait{Reason: v1alpha1.ReasonWaitingForParent, Message: fmt.Sprintf(
			"queue %s has %s until its parent queue %s, or the other children of it, leave room: Volcano refuses children that have more than their parent",
			q.QueueName(), strings.Join(forParent, ", "), p.Parent)}
	case len(forChildren) > 0:
		return &Wait{Reason: v1alpha1.ReasonWaitingForChildren, Message: fmt.Sprintf(
			"queue %s has %s until its child queues %s are lowered: Volcano refuses children that have more than their parent",
			q.QueueName(), strings.Join(forChildren, ", "), joinQueueNames(f.Children))}
	}
	return nil
}

// amounts are the limit, what is deserved, and the guarantee, in this order. Each is at most the one before it.
type amounts [3]int64

// The indexes of amounts.
const (
	limitIndex = iota
	deservedIndex
	guaranteeIndex
)

// amountNames are the names of amounts in messages.
var amountNames = [...]string{"limit", "deserved", "guarantee"}

// bounds are the least that the children of a Queue need, and the most that its parent allows.
type bounds struct{ least, most amounts }

// leftOut returns which amounts a Queue must not have yet: its children have more together than its parent allows
// it, so Volcano would refuse any amount. Without the amount Volcano accepts it, because it compares the children
// with the limit of the Queue then. A guarantee without what is deserved is left out as well.
func (f Family) leftOut() (leftOut [len(amountNames)]bool) {
	for _, key := range quota.Compute {
		b := f.boundsFor(key)
		for i := deservedIndex; i < len(amountNames); i++ {
			leftOut[i] = leftOut[i] || b.least[i] > b.most[i]
		}
	}
	leftOut[guaranteeIndex] = leftOut[guaranteeIndex] || leftOut[deservedIndex]
	return leftOut
}

// without returns the bounds of a Queue that leaves amounts out. Its limit must cover those of the children
// instead, because Volcano compares them with it then.
func (b bounds) without(leftOut [len(amountNames)]bool) bounds {
	for i := deservedIndex; i < len(amountNames); i++ {
		if leftOut[i] {
			b.least[limitIndex] = max(b.least[limitIndex], b.least[i])
			b.least[i] = 0
			b.most[i] = 0
		}
	}
	return b
}

// amountsNearestTo returns the amounts nearest to the wanted ones within the bounds. What the children need comes before
// what the parent allows.
func (b bounds) amountsNearestTo(want amounts) amounts {
	var got amounts
	for i := range want {
		got[i] = max(min(want[i], b.most[i]), b.least[i])
	}

	// Deserved is at most the limit, and the guarantee at most deserved: lower each as far as the children let it,
	// then raise the one before.
	for i := 1; i < len(got); i++ {
		got[i] = min(got[i], max(got[i-1], b.least[i]))
	}
	for i := len(got) - 1; i > 0; i-- {
		got[i-1] = max(got[i-1], got[i])
	}

	return got
}

// boundsFor returns between which amounts of CPU or memory Volcano's webhook accepts the Queue: the least for
// its children, and the most that its parent and siblings leave. A Queue without a parent has no upper bound.
func (f Family) boundsFor(key quota.Resource) bounds {
	b := bounds{most: amounts{math.MaxInt64, math.MaxInt64, math.MaxInt64}}
	for _, child := range f.Children {
		live := liveAmounts(child, key)
		b.least[limitIndex] = max(b.least[limitIndex], live[limitIndex])
		b.least[deservedIndex] = quota.AddSaturating(b.least[deservedIndex], live[deservedIndex])
		b.least[guaranteeIndex] = quota.AddSaturating(b.least[guaranteeIndex], live[guaranteeIndex])
	}

	if f.Parent == nil {
		return b
	}

	// The webhook reads the missing limit of a parent as 0, so it allows no limit of a child.
	above := liveAmounts(f.Parent, key)
	b.most = above

	// Without amounts of its own, the webhook compares with the parent's limits.
	if len(f.Parent.Spec.Deserved) == 0 {
		b.most[deservedIndex] = limitOrNone(f.Parent, above[limitIndex])
	}
	if len(f.Parent.Spec.Guarantee.Resource) == 0 {
		b.most[guaranteeIndex] = limitOrNone(f.Parent, above[limitIndex])
	}

	// The webhook sums deserved and guarantee over the children. It compares each limit with
	// the parent's alone, so siblings do not lower what is left of that.
	for _, sibling := range f.Siblings {
		live := liveAmounts(sibling, key)
		b.most[deservedIndex] = max(0, b.most[deservedIndex]-live[deservedIndex])
		b.most[guaranteeIndex] = max(0, b.most[guaranteeIndex]-live[guaranteeIndex])
	}

	return b
}

// limitOrNone returns a limit of a Queue, no bound for one that limits neither CPU nor memory.
func limitOrNone(queue *v1beta1.Queue, limit int64) int64 {
	if len(queue.Spec.Capability) == 0 {
		return math.MaxInt64
	}
	return limit
}

// liveAmounts returns the CPU, in millicores, or the memory, in bytes, of a Queue.
func liveAmounts(queue *v1beta1.Queue, key quota.Resource) amounts {
	var out amounts
	for i, list := range []corev1.ResourceList{queue.Spec.Capability, queue.Spec.Deserved, queue.Spec.Guarantee.Resource} {
		if key == quota.CPU {
			out[i] = max(0, list.Cpu().MilliValue())
		} else {
			out[i] = max(0, list.Memory().Value())
		}
	}
	return out
}

// formatAmount formats an amount as Kubernetes writes it, with the name of its resource.
func formatAmount(key quota.Resource, amount int64) string {
	if amount == quota.Unlimited {
		return "unlimited " + key.Label()
	}
	return workload.FormatTreeAmount(key, amount) + " " + key.Label()
}
