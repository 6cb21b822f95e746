package cardquota

import (
	"slices"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// Tree is a tree of CardQuotas with the numbers in force. It may hold only the part that
// decides about one CardQuota: its ancestors, the other children of each, and its own
// children. A nil Tree means flat queues. It is immutable.
type Tree struct {
	quotas   map[string]*v1alpha1.CardQuota
	children map[string][]string
	resolved map[string]quota.Resolved
}

// NewTree returns the tree of CardQuotas. Of several CardQuotas for one queue only the owner
// is part of it.
func NewTree(quotas []*v1alpha1.CardQuota) *Tree {
	owners := map[string]*v1alpha1.CardQuota{}
	for _, q := range quotas {
		owner := owners[q.QueueName()]
		if owner == nil {
			owner = q
		}
		owners[q.QueueName()] = QueueOwner([]*v1alpha1.CardQuota{q, owner})
	}
	t := &Tree{quotas: make(map[string]*v1alpha1.CardQuota, len(owners)), children: map[string][]string{}}
	queues := make(map[string]quota.TreeQueue, len(owners))
	for _, q := range owners {
		t.quotas[q.Name], queues[q.Name] = q, treeQueueFor(q)
		if q.Spec.Parent != "" {
			t.children[q.Spec.Parent] = append(t.children[q.Spec.Parent], q.Name)
		}
	}
	for _, names := range t.children {
		slices.Sort(names)
	}
	t.resolved = quota.ResolveTree(queues)
	return t
}

// treeQueueFor returns a CardQuota as part of a tree.
func treeQueueFor(q *v1alpha1.CardQuota) quota.TreeQueue {
	out := quota.TreeQueue{
		Parent: q.Spec.Parent, IsHeld: IsHeld(q.Spec.StopPolicy), IsParentOnly: q.Spec.ServiceType == "",
		Quota: quota.Shares{}, Deserved: quota.Shares{}, Guarantee: quota.Shares{},
	}
	for _, c := range q.Spec.Cards {
		for _, amount := range []struct {
			shares quota.Shares
			count  *int64
		}{{out.Quota, c.Quota}, {out.Deserved, c.Deserved}, {out.Guarantee, c.Guarantee}} {
			if amount.count != nil {
				amount.shares[card.Name(c.Name)] = *amount.count
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

// setAmounts sets the amounts of CPU, in millicores, and of memory, in bytes.
func setAmounts(shares quota.Shares, amounts *v1alpha1.ResourceAmounts) {
	if amounts == nil {
		return
	}
	if amounts.CPU != nil {
		shares[quota.CPUName] = max(0, amounts.CPU.MilliValue())
	}
	if amounts.Memory != nil {
		shares[quota.MemoryName] = max(0, amounts.Memory.Value())
	}
}

// IsHeld reports whether a stop policy lets nothing new start.
func IsHeld(policy v1alpha1.StopPolicy) bool {
	return policy != "" && policy != v1alpha1.StopPolicyNone
}

// Holds reports whether the tree was made from this spec of a CardQuota.
func (t *Tree) Holds(q *v1alpha1.CardQuota) bool {
	if t == nil {
		return false
	}
	known := t.quotas[q.Name]
	return known != nil && known.UID == q.UID && known.Generation == q.Generation
}

// Children returns the names of the CardQuotas that name the given one as their parent, sorted.
func (t *Tree) Children(name string) []string {
	if t == nil {
		return nil
	}
	return t.children[name]
}

// Ancestors returns the CardQuotas above the given one, the nearest first. It ends before a
// missing one, and before one that repeats.
func (t *Tree) Ancestors(name string) []*v1alpha1.CardQuota {
	if t == nil || t.quotas[name] == nil {
		return nil
	}
	var above []*v1alpha1.CardQuota
	for at := t.quotas[t.quotas[name].Spec.Parent]; at != nil && at.Name != name && !slices.Contains(above, at); at = t.quotas[at.Spec.Parent] {
		above = append(above, at)
	}
	return above
}

// Fault returns why the queue of a CardQuota takes no new jobs.
func (t *Tree) Fault(name string) quota.Fault {
	if t == nil {
		return quota.Fault{}
	}
	return t.resolved[name].Fault
}

// isPlaced reports whether a CardQuota has a path to the top level.
func (t *Tree) isPlaced(name string) bool {
	switch t.resolved[name].Fault.Kind {
	case quota.ParentNotFound, quota.ParentCycle, quota.TooDeep:
		return false
	default:
		return true
	}
}

// computeLimit returns the limit in force of CPU or memory: no larger than that of any ancestor.
func (t *Tree) computeLimit(name string, key card.Name) int64 {
	limit := computeLimitOf(t.resolved[name], key)
	if t.isPlaced(name) {
		for _, above := range t.Ancestors(name) {
			limit = min(limit, computeLimitOf(t.resolved[above.Name], key))
		}
	}
	return limit
}

// computeLimitOf returns the limit of a queue regardless of its ancestors.
func computeLimitOf(r quota.Resolved, key card.Name) int64 {
	if key == quota.CPUName {
		return r.Limits.MilliCPU
	}
	return r.Limits.Memory
}

// QuotaFor returns the quota of a CardQuota, with what it inherits in a tree.
func (t *Tree) QuotaFor(q *v1alpha1.CardQuota) card.Quota {
	if t == nil || t.quotas[q.Name] == nil {
		return QuotaOf(q)
	}
	out := make(card.Quota, len(q.Spec.Cards))
	for _, c := range q.Spec.Cards {
		out[card.Name(c.Name)] = t.resolved[q.Name].Limits.Cards[card.Name(c.Name)]
	}
	return out
}

// ChangedQueues returns, sorted, the queues whose numbers, fault or children differ from those of
// an earlier tree. All queues differ between a tree and flat queues.
func (t *Tree) ChangedQueues(before *Tree) []string {
	var changed []string
	for _, side := range []*Tree{before, t} {
		if side == nil {
			continue
		}
		for name, q := range side.quotas {
			if before == nil || t == nil || !sameNode(before, t, name) {
				changed = append(changed, q.QueueName())
			}
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}
