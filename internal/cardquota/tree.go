package cardquota

import (
	"slices"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Tree is a tree of CardQuotas, and of Queues without one below theirs, with the numbers in
// force. It may hold only the part that decides about one CardQuota: its ancestors, the other
// children of each, and its own children. Where CPU or memory are limited, everything below these
// decides as well. A nil Tree means flat queues. It is immutable.
//
// A node is the name of a CardQuota, or otherQueue of a Queue without one.
type Tree struct {
	quotas   map[string]*v1alpha1.CardQuota
	queues   map[string]string // by node
	nodes    map[string]string // by queue
	children map[string][]string
	resolved map[string]quota.Resolved
	parents  map[string]string
}

// otherQueue returns the node of a Queue without a CardQuota, and its name in messages.
func otherQueue(name string) string { return "queue " + name }

// NewTree returns the tree of CardQuotas and of the Queues below others that no CardQuota owns:
// they were retained, or written by hand. Of several CardQuotas for one queue only the owner is
// part of it. unmanaged says what Queues without card.quota may use.
func NewTree(quotas []*v1alpha1.CardQuota, queues []*v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues) *Tree {
	owners := OwnersByQueue(quotas)
	t := &Tree{quotas: make(map[string]*v1alpha1.CardQuota, len(owners)), queues: map[string]string{}, nodes: map[string]string{}, children: map[string][]string{}, parents: map[string]string{}}
	written := make(map[string]quota.TreeQueue, len(owners))
	for _, q := range owners {
		t.quotas[q.Name] = q
		t.queues[q.Name] = q.QueueName()
		written[q.Name] = TreeQueueFor(q)
	}

	for _, queue := range queues {
		if owners[queue.Name] != nil || queue.Spec.Parent == "" || queue.Spec.Parent == workload.RootQueue {
			continue
		}

		node := otherQueue(queue.Name)
		rules := workload.QueueRulesFor(queue, unmanaged, nil)
		rules.Tree.Parent = otherQueue(queue.Spec.Parent)
		if owners[queue.Spec.Parent] != nil {
			rules.Tree.Parent = owners[queue.Spec.Parent].Name
		}

		t.queues[node] = queue.Name
		written[node] = rules.Tree
	}

	for node, queue := range t.queues {
		t.nodes[queue] = node
	}

	for node, q := range written {
		t.parents[node] = q.Parent
		if q.Parent != "" {
			t.children[q.Parent] = append(t.children[q.Parent], node)
		}
	}

	for _, names := range t.children {
		slices.Sort(names)
	}

	t.resolved = quota.ResolveTree(written)
	return t
}

// TreeQueueFor returns a CardQuota as part of a tree.
func TreeQueueFor(q *v1alpha1.CardQuota) quota.TreeQueue {
	out := quota.TreeQueue{
		Parent: q.Spec.Parent, IsHeld: IsHeld(q.Spec.StopPolicy), IsParentOnly: q.Spec.ServiceType == "",
		Quota: quota.Amounts{}, Deserved: quota.Amounts{}, Guarantee: quota.Amounts{},
	}

	for _, c := range q.Spec.Cards {
		for _, amount := range []struct {
			of    quota.Amounts
			count *int64
		}{{out.Quota, c.Quota}, {out.Deserved, c.Deserved}, {out.Guarantee, c.Guarantee}} {
			if amount.count != nil {
				amount.of[quota.Resource(c.Name)] = *amount.count
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
	return slices.DeleteFunc(slices.Clone(t.children[name]), func(child string) bool { return t.quotas[child] == nil })
}

// Ancestors returns the CardQuotas above the given one, the nearest first. It ends before a
// missing one, and before one that repeats.
func (t *Tree) Ancestors(name string) []*v1alpha1.CardQuota {
	if t == nil {
		return nil
	}
	var above []*v1alpha1.CardQuota
	for _, node := range t.nodesAbove(name) {
		if q := t.quotas[node]; q != nil {
			above = append(above, q)
		}
	}
	return above
}

// nodesAbove returns the nodes above the given one, as Ancestors does.
func (t *Tree) nodesAbove(node string) []string {
	var above []string
	for at := t.parents[node]; at != "" && at != node && t.queues[at] != "" && !slices.Contains(above, at); at = t.parents[at] {
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
func (t *Tree) computeLimit(name string, key quota.Resource) int64 {
	own := t.resolved[name]
	limit := own.Limits.Quota(key)
	if t.isPlaced(name) {
		for _, above := range t.Ancestors(name) {
			bound := t.resolved[above.Name]
			limit = min(limit, bound.Limits.Quota(key))
		}
	}
	return limit
}

// QuotaFor returns the quota in force of a CardQuota: in a tree with what it inherits, and no
// larger than that of any ancestor.
func (t *Tree) QuotaFor(q *v1alpha1.CardQuota) card.Quota {
	if t == nil || t.quotas[q.Name] == nil {
		return QuotaOf(q)
	}

	path := []string{q.Name}
	if t.isPlaced(q.Name) {
		path = append(path, t.nodesAbove(q.Name)...)
	}

	out := make(card.Quota, len(q.Spec.Cards))
	for _, c := range q.Spec.Cards {
		name := card.Name(c.Name)
		limit := card.MaxCount
		for _, node := range path {
			limit = min(limit, t.resolved[node].Limits.Cards[name])
		}
		out[name] = limit
	}

	return out
}

// ChangedQueues returns, sorted, the queues whose numbers, fault or children differ from those of
// an earlier tree, and those below a queue whose limits differ. All queues differ between a tree
// and flat queues.
func (t *Tree) ChangedQueues(before *Tree) []string {
	var changed []string
	for _, side := range []*Tree{before, t} {
		if side == nil {
			continue
		}
		for name, q := range side.quotas {
			if side == before && t != nil && t.quotas[name] != nil {
				continue // compared once, with the other side
			}
			if before == nil || t == nil || !sameNode(before, t, name) || !sameLimitsAbove(before, t, name) {
				changed = append(changed, q.QueueName())
			}
		}
	}

	slices.Sort(changed)
	return slices.Compact(changed)
}
