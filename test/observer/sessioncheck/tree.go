package sessioncheck

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/test/observer/rule"
)

// cooldown is how long a queue from which cards were taken back may not borrow that card again.
const cooldown = 5 * time.Minute

// SetTree states whether queues form a tree from now on.
func (j *Checker) SetTree(tree bool) {
	j.options.Tree = tree
	j.state.options.Tree = tree
	j.state.updateTree()
	j.state.cached = newCachedSums()
}

// updateTree rebuilds the tree after a change of a Queue, and reports whether it changed. The
// limits of each queue are those in force.
func (w *clusterState) updateTree() bool {
	before := w.tree
	w.tree = nil
	if !w.options.Tree {
		return before != nil
	}

	objects := map[string]*v1beta1.Queue{}
	for name, state := range w.queues {
		objects[name] = state.queue
	}

	w.tree = rule.NewTree(objects, w.options.Unmanaged)
	for name, state := range w.queues {
		state.limits = rule.LimitsOf(state.queue, w.options.Unmanaged)
		if q := w.tree.Queue(name); q != nil && state.limits.Closed == "" {
			state.limits.AnyCard = q.AnyCard
			state.limits.Cards = q.Cards
			state.limits.MilliCPU = q.QuotaOf(rule.CPU)
			state.limits.Memory = q.QuotaOf(rule.Memory)
			state.limits.Closed = w.tree.WhyClosed(name)
		}
	}

	return before == nil || before.String() != w.tree.String()
}

// pathOf returns a queue and its ancestors whose quota its pods count in.
func (w *clusterState) pathOf(queue string) []string {
	if w.tree == nil {
		return []string{queue}
	}
	return w.tree.PathOf(queue)
}

// isBelow reports whether a queue is another one or in its subtree; "" is root.
func (w *clusterState) isBelow(queue, ancestor string) bool {
	return (ancestor == "" && w.tree != nil) || slices.Contains(w.pathOf(queue), ancestor)
}

// subtreeUsage sums the usage of a queue and of the queues below it.
func (w *clusterState) subtreeUsage(queue string) usage {
	if w.tree == nil || !w.tree.IsParent(queue) {
		return w.queueUsage(queue)
	}

	sum := usage{cards: rule.Quota{}, terminating: rule.Quota{}}
	for name := range w.queues {
		if !w.isBelow(name, queue) {
			continue
		}

		of := w.queueUsage(name)
		for card, n := range of.cards {
			sum.cards[card] += n
		}
		for card, n := range of.terminating {
			sum.terminating[card] += n
		}

		sum.milliCPU += of.milliCPU
		sum.memory += of.memory
	}

	return sum
}

// treeUse sums the cards of pods that are selected, by queue.
func (w *clusterState) treeUse(card string, counts func(*podState) bool) rule.TreeUse {
	use := rule.TreeUse{}
	for _, state := range w.pods {
		if state.charge != nil && state.charge.Cards[card] > 0 && counts(state) {
			use[state.charge.Queue] += state.charge.Cards[card]
		}
	}
	return use
}

func everyPod(*podState) bool { return true }

// hasTreeQuota reports whether the quota of a unit's queue and of every ancestor has room for
// what it needs.
func (w *clusterState) hasTreeQuota(u *unit) bool {
	var slots int64
	request := u.pods[0].request
	for _, card := range request.Cards {
		least := int64(1 << 40)
		for _, name := range w.tree.PathOf(u.queue) {
			if q := w.tree.Queue(name); q != nil && !q.AnyCard {
				least = min(least, q.Cards[card]-w.subtreeUsage(name).cards[card])
			}
		}
		slots += max(0, least) / request.Count
	}

	return slots >= int64(u.minPods)
}

// treeFree returns how many cards a unit can certainly use in a tree beside all reservations: of
// the quota of every ancestor, of what others are not guaranteed, of what its queues deserve if
// its pods cannot be reclaimed, and of what its queue may borrow.
func (j *Checker) treeFree(u *unit, card string, claims []reservation, at time.Time) int64 {
	w := j.state
	t := w.tree
	use := w.treeUse(card, everyPod)

	leaf := t.Queue(u.queue)
	if leaf == nil {
		return 0
	}

	own := int64(0) // what the queue's own guarantee still covers
	if leaf.Stop == "" {
		own = max(0, leaf.Guarantee[card]-use[u.queue]-j.reservedBelow(u.queue, card, claims))
	}

	free := j.quotaFree(u, card, use, own, claims)
	if j.isUnreclaimable(u) {
		unreclaimable := w.treeUse(card, func(state *podState) bool { return !j.isTreeReclaimable(state) })
		for _, name := range leaf.Path {
			free = min(free, t.Queue(name).Deserved[card]-t.UsedIn(name, unreclaimable)-j.reservedBelow(name, card, claims))
		}
	}

	if j.lostCards(u.queue, at) {
		for _, name := range leaf.Path {
			free = min(free, t.Queue(name).Deserved[card]-t.UsedIn(name, use)-j.reservedBelow(name, card, claims))
		}
	}

	return max(0, free)
}

// quotaFree returns the free quota at every level up to root.
func (j *Checker) quotaFree(u *unit, card string, use rule.TreeUse, own int64, claims []reservation) int64 {
	w := j.state
	t := j.state.tree

	least := int64(1 << 40)
	for _, name := range t.PathOf(u.queue) {
		q := t.Queue(name)
		if q.AnyCard {
			continue
		}

		reserved := j.reservedBelow(name, card, claims)
		free := q.Cards[card] - t.UsedIn(name, use) - reserved
		if name != u.queue {
			free = min(free, own+max(0, q.Cards[card]-t.Occupied(name, card, use)-reserved))
		}

		if w.subtreeUsage(name).terminating[card] > q.Cards[card] {
			free = 0
		}
		least = min(least, free)
	}

	return min(least, own+max(0, w.schedulable(card, nil)-t.Occupied("", card, use)-j.reservedBelow("", card, claims)))
}

// reservedBelow sums what other units may use before this one in a queue and its subtree, ""
// for root.
func (j *Checker) reservedBelow(queue, card string, claims []reservation) int64 {
	var sum int64
	for _, c := range claims {
		if !c.quota || !j.state.isBelow(c.unit.queue, queue) {
			continue
		}
		for _, d := range c.unit.requests {
			if slices.Contains(d.cards, card) {
				sum += d.count
			}
		}
	}

	return sum
}

// schedulable returns the cards of nodes that take pods, and of the pods on other nodes that stay.
func (w *clusterState) schedulable(card string, gone []*podState) int64 {
	var sum int64
	for name, node := range w.nodes {
		if offers, known := w.inventory.Node(name); known && !node.Spec.Unschedulable && rule.IsReady(node.Node) {
			for _, offer := range offers.Cards {
				if offer.Card == card {
					sum += offer.Count
				}
			}
		}
	}

	for _, n := range w.treeUse(card, func(state *podState) bool {
		node, known := w.nodes[state.pod.Spec.NodeName]
		return !slices.Contains(gone, state) && (!known || node.Spec.Unschedulable || !rule.IsReady(node.Node))
	}) {
		sum += n
	}

	return sum
}

// isUnreclaimable reports whether some pod of a unit cannot be reclaimed.
func (j *Checker) isUnreclaimable(u *unit) bool {
	return slices.ContainsFunc(u.pods, func(state *podState) bool { return !j.isTreeReclaimable(state) })
}

// isTreeReclaimable reports whether a pod is certainly reclaimable in a tree.
func (j *Checker) isTreeReclaimable(state *podState) bool {
	group := j.state.groups[groupKey(state.pod)]
	queue := rule.QueueOf(state.pod, group, "")
	if state.charge != nil {
		queue = state.charge.Queue
	}
	q := j.state.tree.Queue(queue)
	var ofGroup map[string]string
	if group != nil {
		ofGroup = group.Annotations
	}
	return q != nil && q.Reclaimable && rule.IsEvictable(state.pod, ofGroup) && j.knowsType(j.serviceType(state, queue))
}

// knowsType reports whether the reclaim matrix knows a service type.
func (j *Checker) knowsType(name string) bool {
	matrix := j.options.ReclaimFrom
	if matrix == nil {
		matrix = rule.DefaultReclaimFrom()
	}
	if _, known := matrix[name]; known {
		return true
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(matrix)), func(from []string) bool { return slices.Contains(from, name) })
}

// recordReclaimed remembers from which queues cards were taken back.
func (j *Checker) recordReclaimed(pod *corev1.Pod, at time.Time) {
	if state := j.state.pods[pod.UID]; state != nil && state.charge != nil && evictedBy(pod) == "cardreclaim" {
		j.reclaimed[state.charge.Queue] = at
	}
}

// lostCards reports whether cards were taken back a short time ago from a queue, or from a queue
// with an ancestor in common.
func (j *Checker) lostCards(queue string, at time.Time) bool {
	path := j.state.pathOf(queue)
	for name, last := range j.reclaimed {
		others := j.state.pathOf(name)
		if path[len(path)-1] == others[len(others)-1] && at.Sub(last) < cooldown+j.options.Lag {
			return true
		}
	}
	return false
}

// timesFittingAbove returns how often the CPU and memory of a unit's pod fit into every ancestor
// of its queue beside all reservations.
func (j *Checker) timesFittingAbove(u *unit, claims []reservation) int64 {
	w := j.state
	times := int64(1 << 40)
	for _, name := range w.pathOf(u.queue)[1:] {
		sum := w.subtreeUsage(name)
		for _, c := range claims {
			if !c.quota || !w.isBelow(c.unit.queue, name) {
				continue
			}
			for _, d := range c.unit.requests {
				sum.milliCPU += d.milliCPU
				sum.memory += d.memory
			}
		}

		limits := w.queues[name].limits
		request := u.pods[0].request
		times = min(times, timesFitting(limits.MilliCPU, sum.milliCPU, request.MilliCPU), timesFitting(limits.Memory, sum.memory, request.Memory))
	}

	return times
}
