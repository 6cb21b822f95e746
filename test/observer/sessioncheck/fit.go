package sessioncheck

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"

	"cardquota.dev/operator/test/observer/rule"
)

// isOpen reports whether a queue takes pods of a unit's namespace.
func (w *clusterState) isOpen(u *unit) bool {
	state := w.queues[u.queue]
	labels, known := w.namespaces[u.group.Namespace]
	if state == nil || state.queue.DeletionTimestamp != nil || !known {
		return false
	}
	if w.tree != nil {
		return w.tree.WhyClosed(u.queue) == "" && w.tree.Selects(u.queue, labels)
	}

	isTop := state.queue.Spec.Parent == "" || state.queue.Spec.Parent == "root"
	return state.limits.Closed == "" && state.queue.Name != "root" && isTop && state.selector.Selects(labels)
}

// canEverFit reports whether the limits of the queue allow what a unit needs, whatever else the
// queue uses.
func (w *clusterState) canEverFit(u *unit) bool {
	if !w.isOpen(u) {
		return false
	}

	limits := w.queues[u.queue].limits
	if len(u.pods) == 0 {
		for _, d := range u.announced {
			var sum int64
			for _, card := range d.cards {
				sum += limits.Cards[card]
			}
			if !limits.AnyCard && d.count > sum {
				return false
			}
		}
		return true
	}

	first := u.pods[0].request
	if first.Count == 0 || u.unsupported != "" || limits.AnyCard {
		return true
	}

	var slots int64
	for _, card := range first.Cards {
		slots += limits.Cards[card] / first.Count
	}

	// What the gang already has is charged as well.
	return slots >= int64(u.minPods+u.placed)
}

// reservation is what another unit may use before this one.
type reservation struct {
	unit *unit
	// quota and nodes report whether it uses the quota of the queue, and nodes.
	quota, nodes bool
}

// queueFree returns the cards that a unit can still use in its queue beside all reservations, and
// the CPU and memory in use with them.
func (w *clusterState) queueFree(u *unit, claims []reservation) (free rule.Quota, milliCPU, memory int64) {
	state := w.queues[u.queue]
	used := w.queueUsage(u.queue)
	free = rule.Quota{}
	milliCPU = used.milliCPU
	memory = used.memory

	for _, card := range u.pods[0].request.Cards {
		free[card] = state.limits.Cards[card] - used.cards[card]
		if used.terminating[card] > state.limits.Cards[card] {
			free[card] = 0
		}
	}

	for _, c := range claims {
		if !c.quota || c.unit.queue != u.queue {
			continue
		}
		for _, d := range c.unit.requests {
			for _, card := range d.cards {
				free[card] -= d.count
			}
			milliCPU += d.milliCPU
			memory += d.memory
		}
	}

	return free, milliCPU, memory
}

// startablePods returns how many pods of a unit can start now beside all reservations.
func (j *Checker) startablePods(u *unit, claims []reservation, at time.Time) int64 {
	w := j.state
	state := w.queues[u.queue]
	pod := u.pods[0]

	free, milliCPU, memory := w.queueFree(u, claims)
	if w.tree != nil {
		for card := range free {
			free[card] = j.treeFree(u, card, claims, at)
		}
	}

	byCard := w.podsThatFitNodes(u, true)
	var sum, taken int64
	beyondQuota := int64(1 << 40) // the least that nodes have beyond the quota of a card
	for _, card := range pod.request.Cards {
		slots := byCard[card]
		if !state.limits.AnyCard {
			slots = min(slots, max(0, free[card])/pod.request.Count)
		}

		sum += slots
		if slots > 0 {
			beyondQuota = min(beyondQuota, byCard[card]-slots)
		}
	}

	for _, c := range claims {
		if c.nodes {
			taken += w.maxSlotsTaken(c.unit, u)
		}
	}

	sum -= max(0, taken-beyondQuota)
	if w.countsCPUMemory(pod) {
		sum = min(sum, timesFitting(state.limits.MilliCPU, milliCPU, pod.request.MilliCPU), timesFitting(state.limits.Memory, memory, pod.request.Memory),
			j.timesFittingAbove(u, claims))
	}

	return max(0, sum)
}

// timesFitting returns how often an amount still fits into a limit.
func timesFitting(limit, used, each int64) int64 {
	const any = 1 << 40
	if limit == rule.Unlimited || each == 0 {
		return any
	}
	return max(0, limit-used) / each
}

// podsThatFitNodes returns how many pods of a unit fit the nodes, by card.
func (w *clusterState) podsThatFitNodes(u *unit, ending bool) rule.Quota {
	byCard := rule.Quota{}
	used := w.nodeUsage(ending)
	pod := u.pods[0]

	kept := w.nodesWithAntiAffinity()
	for name, node := range w.nodes {
		card := w.inventory.CardOn(name, pod.request.Resource)
		if !pod.request.Allows(card) || !w.acceptsPods(node.Node, u) || kept[name] || kept[""] {
			continue
		}

		free := node.allocatable
		slots := free[corev1.ResourcePods] - used[name][corev1.ResourcePods]
		if _, stated := free[corev1.ResourcePods]; !stated {
			slots = 1 << 40
		}

		for resource, each := range pod.requests {
			if each > 0 {
				slots = min(slots, max(0, free[resource]-used[name][resource])/each)
			}
		}
		byCard[card] += max(0, slots)
	}

	return byCard
}

// acceptsPods reports whether a node accepts the plain pods of a unit, apart from free
// resources.
func (w *clusterState) acceptsPods(node *corev1.Node, u *unit) bool {
	pod := u.pods[0].pod
	if node.Spec.Unschedulable || !rule.IsReady(node) || node.DeletionTimestamp != nil || !w.inNodeGroup(node, u.queue) {
		return false
	}

	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}

	_, untolerated := v1helper.FindMatchingUntoleratedTaint(node.Spec.Taints, pod.Spec.Tolerations, func(taint *corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
	})
	return !untolerated
}

// inNodeGroup reports whether Volcano's plugin nodegroup certainly allows a queue to use a
// node: both are in one group, or neither is in any.
func (w *clusterState) inNodeGroup(node *corev1.Node, queue string) bool {
	group, grouped := node.Labels["volcano.sh/nodegroup-name"]
	affinity := w.queues[queue].queue.Spec.Affinity
	if affinity == nil || affinity.NodeGroupAffinity == nil {
		return affinity == nil && !grouped
	}
	return grouped && slices.Contains(affinity.NodeGroupAffinity.RequiredDuringSchedulingIgnoredDuringExecution, group)
}

// nodesWithAntiAffinity returns the nodes with a pod that has required anti-affinity; "" stands
// for every node.
func (w *clusterState) nodesWithAntiAffinity() map[string]bool {
	if w.cached.antiAffine != nil {
		return w.cached.antiAffine
	}

	kept := map[string]bool{}
	for _, state := range w.pods {
		affinity := state.pod.Spec.Affinity
		if state.pod.Spec.NodeName == "" || affinity == nil || affinity.PodAntiAffinity == nil {
			continue
		}

		for _, term := range affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if term.TopologyKey == corev1.LabelHostname {
				kept[state.pod.Spec.NodeName] = true
			} else {
				kept[""] = true
			}
		}
	}

	w.cached.antiAffine = kept
	return kept
}

// maxSlotsTaken returns how many places for pods of a unit the pods of another unit can take at
// most, wherever they start. A pod takes the largest part of a place over all resources,
// rounded up.
func (w *clusterState) maxSlotsTaken(other, u *unit) int64 {
	pod := u.pods[0]
	var sum int64
	for _, state := range other.pods {
		if state.request.Count > 0 && !slices.ContainsFunc(state.request.Cards, func(card string) bool { return slices.Contains(pod.request.Cards, card) }) {
			// It may run on a node with both cards, and use CPU there.
			if !w.sharesNode(state, pod) {
				continue
			}
		}

		most := int64(1)
		for resource, amount := range state.requests {
			if each := pod.requests[resource]; each > 0 {
				most = max(most, (amount+each-1)/each)
			}
		}
		sum += most
	}

	return sum
}

// sharesNode reports whether some node has a card for each of two pods. The answer is cached
// until nodes change.
func (w *clusterState) sharesNode(a, b *podState) bool {
	kinds := [2]string{a.kind, b.kind}
	isShared, known := w.nodeCache.isShared[kinds]
	if !known {
		isShared = w.findSharedNode(a, b)
		w.nodeCache.isShared[kinds] = isShared
	}
	return isShared
}

func (w *clusterState) findSharedNode(a, b *podState) bool {
	for name := range w.nodes {
		if a.request.Allows(w.inventory.CardOn(name, a.request.Resource)) && b.request.Allows(w.inventory.CardOn(name, b.request.Resource)) {
			return true
		}
	}
	return false
}
