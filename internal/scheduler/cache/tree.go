package cache

import (
	"maps"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// observationInterval is the time between two observations of what queues have borrowed, whose
// averages are over half an hour.
const observationInterval = 10 * time.Second

// LoadTree puts the queues into their tree, flat queues into one of depth one. In a tree it replaces in rules the
// rules of each queue by those in the tree: with the amounts that count there, and with the refusal of a queue that
// takes no work because of its place. A tree is resolved again only when a queue changed. owners give the service type
// of pods that name none. It returns what is wrong with the tree.
func (c *Cache) LoadTree(rules map[api.QueueID]*workload.QueueRules, isFlat bool, owners servicetype.OwnerKinds) []treeNotice {
	t := &c.Tree
	isSame := t.IsFlat() == isFlat // whether the queues so far leave the tree as it was resolved
	if !isSame {
		*t = Tree{Tree: t.Tree, queues: map[api.QueueID]*resolvedQueue{}, observedAt: c.Now()}
		c.RequestGeneration++ // only in a tree a request says whether it can be reclaimed
	}
	if !isFlat {
		c.observeBorrowing(owners)
	}

	for id := range rules {
		isSame = t.loadQueue(rules, id, isSame)
	}

	if !isSame || len(rules) != len(t.queues) { // a queue has changed, or one is gone
		maps.DeleteFunc(t.queues, func(id api.QueueID, _ *resolvedQueue) bool { _, exists := rules[id]; return !exists })
		c.resolveTree(rules, isFlat)
	}
	return t.notices
}

// observeBorrowing updates the averages of what queues have borrowed, at most once in an interval.
// New arguments only start the interval, and let all pods be read again.
func (c *Cache) observeBorrowing(owners servicetype.OwnerKinds) {
	t := &c.Tree
	now := c.Now()
	switch elapsed := now.Sub(t.observedAt); {
	case !maps.Equal(t.owners, owners):
		c.RequestGeneration++ // what pods request says now whether it can be reclaimed
		t.observedAt = now
		t.owners = owners
	case elapsed >= observationInterval:
		c.Ledger.ObserveBorrowing(elapsed)
		t.observedAt = now
	}
}

// loadQueue compares the rules of a queue with those by which the tree was resolved, and replaces them in rules by
// its rules in the tree. isSame is whether the queues before it leave the tree as it was resolved. loadQueue returns
// whether that is still true: if not, the tree must be resolved again.
func (t *Tree) loadQueue(rules map[api.QueueID]*workload.QueueRules, id api.QueueID, isSame bool) bool {
	q := t.queues[id]
	written := rules[id]
	if q == nil || q.written != written {
		isSame = isSame && q != nil && q.written.IsSameInTree(written, t.Queue(string(id)))
		if isSame {
			q.written = written
			q.rules = written.InTree(string(id), t.Queue(string(id)))
		} else {
			q = &resolvedQueue{written, written} // resolveTree replaces the rules by those in the tree
			t.queues[id] = q
		}
	}

	rules[id] = q.rules
	return isSame
}

// resolveTree computes the amounts that count in the tree, and writes them to the ledger and into rules. It
// collects which queues above each one have a namespace selector, and what is wrong with the tree. The Queue root is
// no part of a tree, so it counts as a flat queue.
func (c *Cache) resolveTree(rules map[api.QueueID]*workload.QueueRules, isFlat bool) {
	t := &c.Tree
	written := map[string]quota.TreeQueue{}
	flat := make(map[string]quota.Limits, len(t.queues))
	for id, q := range t.queues {
		if isFlat || id == workload.RootQueue {
			flat[string(id)] = q.written.Limits
		} else {
			written[string(id)] = q.written.Tree
		}
	}

	t.Tree = quota.Flat
	if !isFlat {
		t.Tree = quota.ResolveTree(written)
		t.Version++
	}

	t.Tree = t.WithFlat(flat)
	c.Ledger.SetTree(t.Tree)
	t.nodes = nil // SetTree made a new root without inventory, so SetInventory must set it
	t.notices = nil

	t.Selectors = map[api.QueueID][]api.QueueID{}
	for name, resolved := range t.All() {
		id := api.QueueID(name)
		q := t.queues[id]
		q.rules = q.written.InTree(name, resolved)
		rules[id] = q.rules
		for _, ancestor := range t.Ancestors(name) {
			if t.queues[api.QueueID(ancestor)].written.Namespaces != nil {
				t.Selectors[id] = append(t.Selectors[id], api.QueueID(ancestor))
			}
		}
		t.addNotices(id, resolved)
	}
}

// addNotices adds what is wrong with the place of a queue, and which of the amounts that it states do not count. Of
// each of these kinds a queue has one notice at a time.
func (t *Tree) addNotices(id api.QueueID, r *quota.Resolved) {
	if r.Fault.HasNoPath() {
		refusal := workload.RefusalForFault(string(id), r.Fault)
		t.notices = append(t.notices, treeNotice{id, "/fault", refusal.Reason(), refusal.Message()})
	}
	if len(r.Excess) > 0 {
		reason, message := workload.DescribeExcesses(string(id), r.Excess)
		t.notices = append(t.notices, treeNotice{id, "/excess", reason, message})
	}
}
