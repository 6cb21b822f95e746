package cardquota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Tree is a tree of CardQuotas, and of Queues without one below theirs, with the numbers in
// force. It may have only the part that decides about one CardQuota: its ancestors, the other
// children of each, and everything below all of these. It is immutable.
type Tree struct {
	// queues is the tree of their queues.
	queues *quota.Tree
	// quotas are the CardQuotas of the tree by name, owners by queue.
	quotas, owners map[string]*v1alpha1.CardQuota
}

// Flat is the tree of flat queues, which no CardQuota is part of.
var Flat = &Tree{queues: quota.Flat}

// maxNamedQueues is the number of Queues or CardQuotas that a message names.
const maxNamedQueues = 5

// missingParent begins the name of a parent that no CardQuota of the tree has. No queue has such a name.
const missingParent = "CardQuota "

// NewTree returns the tree of CardQuotas and of the Queues below others that no CardQuota owns:
// they were retained, or written by hand. Of several CardQuotas for one queue only the owner is
// part of it. unmanaged says what Queues without card.quota may use.
func NewTree(quotas []*v1alpha1.CardQuota, queues []*v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues) *Tree {
	return newTree(quotas, queues, unmanaged, quota.ResolveTree)
}

// NewWrittenTree is NewTree to judge what each CardQuota writes: no amount is cut, so an excess shows only where it is
// written (see quota.ResolveWritten). Of a Queue without a CardQuota the amounts count that its own quota allows: no
// CardQuota is judged by what such a Queue exceeds.
func NewWrittenTree(quotas []*v1alpha1.CardQuota, queues []*v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues) *Tree {
	return newTree(quotas, queues, unmanaged, func(written map[string]quota.TreeQueue) *quota.Tree {
		for _, queue := range queues {
			amounts := written[queue.Name]
			for name, limit := range amounts.Quota {
				amounts.Deserved.Limit(name, limit)
				amounts.Guarantee.Limit(name, limit)
			}
		}
		return quota.ResolveWritten(written)
	})
}

// newTree is NewTree with resolve, which returns the amounts in force from those that are written, by queue.
func newTree(quotas []*v1alpha1.CardQuota, queues []*v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues, resolve func(map[string]quota.TreeQueue) *quota.Tree) *Tree {
	owners := OwnersByQueue(quotas)
	t := &Tree{quotas: make(map[string]*v1alpha1.CardQuota, len(owners)), owners: owners}
	for _, q := range owners {
		t.quotas[q.Name] = q
	}

	written := make(map[string]quota.TreeQueue, len(owners))
	// Names of CardQuotas and Queues can differ, and the tree that the scheduler enforces is that
	// of the Queues.
	for queue, q := range owners {
		queueInTree := TreeQueueFor(q)
		if parent := t.quotas[q.Spec.Parent]; parent != nil {
			queueInTree.Parent = parent.QueueName()
		} else if q.Spec.Parent != "" {
			queueInTree.Parent = missingParent + q.Spec.Parent // no queue, so that the path ends here
		}
		written[queue] = queueInTree
	}

	for _, queue := range queues {
		if owners[queue.Name] != nil {
			continue
		}

		// The scheduler enforces these Queues as well, so they take part of what their parents
		// have.
		if rules := workload.QueueRulesFor(queue, unmanaged, nil); rules.Tree.Parent != "" {
			written[queue.Name] = rules.Tree
		}
	}

	t.queues = resolve(written)
	return t
}

// TreeInForce returns the tree of CardQuotas, as NewTree does, and Flat while the policy in force has flat queues. A policy
// may be nil.
func TreeInForce(inForce *v1alpha1.ServiceTypePolicy, quotas []*v1alpha1.CardQuota, queues []*v1beta1.Queue) *Tree {
	if !policy.IsTree(inForce) {
		return Flat
	}
	return NewTree(quotas, queues, policy.UnmanagedQueues(inForce))
}

// Queues returns the tree of the queues.
func (t *Tree) Queues() *quota.Tree { return t.queues }

// IsFlat reports whether the queues are flat.
func (t *Tree) IsFlat() bool { return t.queues.IsFlat() }

// Resolved returns the queue of a CardQuota in the tree. That of a CardQuota which is not part of it has
// no parent and no amounts.
func (t *Tree) Resolved(name string) *quota.Resolved { return t.queues.Queue(t.queueOf(name)) }

// queueOf returns the queue that a CardQuota owns, "" if it is not part of the tree.
func (t *Tree) queueOf(name string) string {
	if q := t.Quota(name); q != nil {
		return q.QueueName()
	}
	return ""
}

// nameOf returns what messages call a queue of the tree: its CardQuota, or itself without one.
func (t *Tree) nameOf(queue string) string {
	if owner := t.owners[queue]; owner != nil {
		return owner.Name
	}
	if name, isMissing := strings.CutPrefix(queue, missingParent); isMissing || queue == "" {
		return name
	}
	return "queue " + queue
}

// Excess returns the amounts of a CardQuota that are too large, with the names that messages use.
func (t *Tree) Excess(name string) []quota.Excess { return t.withNames(t.Resolved(name).Excess) }

// ExcessOfChildren returns what the children of a CardQuota exceed, see quota.Tree.ExcessOfChildren, with the
// names that messages use.
func (t *Tree) ExcessOfChildren(name string) []quota.Excess {
	return t.withNames(t.queues.ExcessOfChildren(t.queueOf(name)))
}

// withNames returns a copy of a list, in which queues have the names that messages use.
func (t *Tree) withNames(list []quota.Excess) []quota.Excess {
	named := slices.Clone(list)
	for i := range named {
		named[i].Parent = t.nameOf(named[i].Parent)
		named[i].Parts = slices.Clone(named[i].Parts)
		for j := range named[i].Parts {
			named[i].Parts[j].Queue = t.nameOf(named[i].Parts[j].Queue)
		}
	}
	return named
}

// Quota returns a CardQuota of the tree, nil if it is not part of it.
func (t *Tree) Quota(name string) *v1alpha1.CardQuota { return t.quotas[name] }

// HasViews reports whether tenants see a queue in their namespaces by the selector of its own CardQuota.
func (t *Tree) HasViews(queue string) bool {
	owner := t.owners[queue]
	return owner != nil && workload.ExplicitSelector(owner.Spec.NamespaceSelector) != nil
}

// Below returns the names of the CardQuotas whose path leads through the given one, by level.
func (t *Tree) Below(name string) []string {
	var below []string
	for _, queue := range t.queues.Below(t.queueOf(name))[1:] { // the first is the given one
		if owner := t.owners[queue]; owner != nil {
			below = append(below, owner.Name)
		}
	}
	return below
}

// TreeQueueFor returns a CardQuota as part of a tree. An amount that it does not write has no entry.
func TreeQueueFor(q *v1alpha1.CardQuota) quota.TreeQueue {
	out := quota.TreeQueue{
		Parent: q.Spec.Parent, IsHeld: workload.StopsWork(q.Spec.StopPolicy), IsParentOnly: q.Spec.ServiceType == "",
		Quota: quota.Amounts{}, Deserved: quota.Amounts{}, Guarantee: quota.Amounts{},
	}

	for _, c := range q.Spec.Cards {
		for _, amount := range []struct {
			into  quota.Amounts
			count *int64
		}{{out.Quota, c.Quota}, {out.Deserved, c.Deserved}, {out.Guarantee, c.Guarantee}} {
			if amount.count != nil {
				amount.into[quota.Resource(c.Name)] = *amount.count
			}
		}
	}

	if resources := q.Spec.Resources; resources != nil {
		setAmounts(out.Quota, &v1alpha1.ResourceAmounts{CPU: resources.CPU, Memory: resources.Memory})
		setAmounts(out.Deserved, resources.Deserved)
		setAmounts(out.Guarantee, resources.Guarantee)
	}

	return out
}

// FlatLimits returns the limits of the queues of CardQuotas while queues are flat, by queue.
func FlatLimits(owners map[string]*v1alpha1.CardQuota) map[string]quota.Limits {
	limits := make(map[string]quota.Limits, len(owners))

	for queue, owner := range owners {
		amounts := quota.Amounts{quota.CPU: quota.Unlimited, quota.Memory: quota.Unlimited}
		maps.Copy(amounts, TreeQueueFor(owner).Quota) // what is not written is not limited
		limits[queue] = quota.Limits{Cards: QuotaOf(owner), MilliCPU: amounts[quota.CPU], Memory: amounts[quota.Memory]}
	}
	return limits
}

// setAmounts sets the amounts of CPU, in millicores, and of memory, in bytes.
func setAmounts(out quota.Amounts, amounts *v1alpha1.ResourceAmounts) {
	if amounts == nil {
		return
	}
	if amounts.CPU != nil {
		out[quota.CPU] = max(0, amounts.CPU.MilliValue())
	}
	if amounts.Memory != nil {
		out[quota.Memory] = max(0, amounts.Memory.Value())
	}
}

// IsMadeFrom reports whether the tree was made from this spec of a CardQuota.
func (t *Tree) IsMadeFrom(q *v1alpha1.CardQuota) bool {
	known := t.quotas[q.Name]
	return known != nil && known.UID == q.UID && known.Generation == q.Generation
}

// Children returns the names of the CardQuotas that name the given one as their parent, sorted.
func (t *Tree) Children(name string) []string {
	return slices.DeleteFunc(t.childNames(name), func(child string) bool { return t.quotas[child] == nil })
}

// childNames returns what messages call the children of a CardQuota, sorted.
func (t *Tree) childNames(name string) []string {
	var names []string
	for _, child := range t.Resolved(name).Children {
		names = append(names, t.nameOf(child))
	}
	slices.Sort(names)
	return names
}

// Ancestors returns the CardQuotas above the given one, the nearest first. It ends before a
// missing one, and before one that repeats.
func (t *Tree) Ancestors(name string) []*v1alpha1.CardQuota {
	var above []*v1alpha1.CardQuota
	for _, queue := range t.queues.WrittenAncestors(t.queueOf(name)) {
		above = append(above, t.owners[queue])
	}
	return above
}

// Fault returns why the queue of a CardQuota takes no new jobs, with the names that messages use.
func (t *Tree) Fault(name string) quota.Fault {
	fault := t.Resolved(name).Fault
	if fault.Kind != quota.NoFault {
		fault.Queue = t.nameOf(fault.Queue)
		fault.Parent = t.nameOf(fault.Parent)
	}
	return fault
}

// holdMessage says to users of the Queue why the operator holds it, "" if the path leads to the
// top level.
func (t *Tree) holdMessage(name string) string {
	if t.isPlaced(name) {
		return ""
	}
	_, cause, help := t.explainFault(name)
	return fmt.Sprintf("CardQuota %s: %s; %s", name, cause, help)
}

// explainFault returns why a path does not lead to the top level, and what would help.
func (t *Tree) explainFault(name string) (reason, cause, help string) {
	fault := t.Fault(name)
	where := "spec.parent"
	if fault.Queue != name {
		where = "its ancestor " + fault.Queue
	}

	switch fault.Kind {
	case quota.ParentNotFound:
		return v1alpha1.ReasonParentNotFound, fmt.Sprintf("%s names CardQuota %s, which does not exist or does not own its queue", where, fault.Parent), "create it, or name another parent"
	case quota.ParentCycle:
		return v1alpha1.ReasonParentCycle, fmt.Sprintf("%s names CardQuota %s, and these parents form a cycle", where, fault.Parent), "give one of them another parent"
	default: // quota.TooDeep
		return v1alpha1.ReasonTooDeep, fmt.Sprintf("this CardQuota is %d levels below the root, and at most %d are possible", len(t.Ancestors(name))+1, quota.MaxDepth), "move it up"
	}
}

// describeFault returns the reason and the message of a path that does not lead to the top
// level.
func (t *Tree) describeFault(name string) (reason, message string) {
	reason, cause, help := t.explainFault(name)
	return reason, cause + ": nothing new starts here and below; " + help
}

// isPlaced reports whether a CardQuota has a path to the top level.
func (t *Tree) isPlaced(name string) bool { return !t.Resolved(name).Fault.HasNoPath() }

// QuotaFor returns the quota in force of a CardQuota: in a tree with what it inherits, and no
// larger than that of any ancestor.
func (t *Tree) QuotaFor(q *v1alpha1.CardQuota) card.Quota {
	queue := t.queueOf(q.Name)
	if queue == "" {
		return QuotaOf(q)
	}

	out := make(card.Quota, len(q.Spec.Cards))
	for _, c := range q.Spec.Cards {
		out[card.Name(c.Name)] = card.Count(t.queues.Limit(queue, quota.Resource(c.Name)))
	}
	return out
}

// ChangedQueues returns, sorted, the queues whose numbers, fault or children differ from those of
// an earlier tree, and those below a queue whose limits differ. All queues differ between a tree
// and flat queues.
func (t *Tree) ChangedQueues(before *Tree) []string {
	var changed []string
	for _, side := range []*Tree{before, t} {
		for queue := range side.owners {
			if !isSameQueue(before, t, queue) {
				changed = append(changed, queue)
			}
		}
	}

	slices.Sort(changed)
	return slices.Compact(changed)
}

// isSameQueue reports whether a queue has the same owner, numbers, fault and children in two trees, and
// whether every ancestor has the same parent, limits and stop policy. They bind it as well.
func isSameQueue(a, b *Tree, queue string) bool {
	if a.owners[queue] == nil || b.owners[queue] == nil || a.nameOf(queue) != b.nameOf(queue) || !b.queues.Queue(queue).Equal(a.queues.Queue(queue)) {
		return false
	}

	for _, above := range b.queues.WrittenAncestors(queue) {
		was := a.queues.Queue(above)
		is := b.queues.Queue(above)
		if was.Parent != is.Parent || !sameQuota(&was.Limits, &is.Limits) || a.stopPolicyOf(above) != b.stopPolicyOf(above) {
			return false
		}
	}

	return true
}

// sameQuota reports whether two queues have the same quota of cards, CPU and memory.
func sameQuota(a, b *quota.Limits) bool {
	return a.MilliCPU == b.MilliCPU && a.Memory == b.Memory && maps.Equal(a.Cards, b.Cards)
}

// stopPolicyOf returns the stop policy of the CardQuota of a queue, None for a Queue without one.
func (t *Tree) stopPolicyOf(queue string) v1alpha1.StopPolicy {
	if q := t.owners[queue]; q != nil && q.Spec.StopPolicy != "" {
		return q.Spec.StopPolicy
	}
	return v1alpha1.StopPolicyNone
}

// joinQueueNames lists the names of Queues.
func joinQueueNames(queues []*v1beta1.Queue) string {
	names := make([]string, len(queues))
	for i, queue := range queues {
		names[i] = queue.Name
	}
	slices.Sort(names)
	return conditions.JoinFirst(names, maxNamedQueues)
}
