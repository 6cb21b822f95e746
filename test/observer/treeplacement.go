package observer

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/observer/rule"
)

// checkTreePlacement checks a pod that was just placed against the tree: the quota of its queue
// and of every ancestor, the unused guarantees of others, what its queues deserve if it cannot be
// reclaimed, uses, and inner queues. Any tree of the window may have been in force.
func (m *clusterState) checkTreePlacement(state *podState, c change) {
	queue := m.namedQueue(state)
	if queue == "" || (len(state.charge.Cards) == 0 && len(m.computeOf(state.charge)) == 0) {
		return
	}

	object := "pod/" + state.pod.Namespace + "/" + state.pod.Name
	trees := m.tree.trees.valuesSince(m.windowStart(c.seen))
	report := func(why string) {
		if why != "" {
			m.addViolation(Quota, c.seen, object, "was placed on node %s in queue <%s>: %s in the %s before (revision %d)",
				state.pod.Spec.NodeName, queue, why, c.seen.Sub(m.windowStart(c.seen)), c.revision)
		}
	}

	closed := inEveryTree(trees, func(t *rule.Tree) string { return t.WhyClosed(queue) })
	report(closed)
	if closed == "" {
		m.checkTreeCompute(state, queue, trees, c, report)
	}

	for _, card := range slices.Sorted(maps.Keys(state.charge.Cards)) {
		count := state.charge.Cards[card]
		use := m.treeUse(card, everyPod)
		if state.charge.Queue != queue {
			use[queue] += count // its record does not count, and it is placed all the same
		}

		above := inEveryTree(trees, func(t *rule.Tree) string { return t.AboveQuota(queue, card, use) })
		report(above)
		if above != "" || closed != "" {
			continue
		}

		report(m.takesGuarantee(trees, queue, card, count, use, c))
		report(m.unreclaimableAboveDeserved(state, trees, queue, card))
		for _, name := range trees[len(trees)-1].PathOf(queue) {
			m.checkTreeTerminating(object, name, card, count, trees, c)
		}
	}
}

// takesGuarantee returns which unused guarantee of others a placement took, or "".
func (m *clusterState) takesGuarantee(trees []*rule.Tree, queue, card string, count int64, use rule.TreeUse, c change) string {
	why := ""
	for _, inventory := range m.tree.schedulable.valuesSince(m.windowStart(c.seen)) {
		elsewhere := m.treeUse(card, func(other *podState) bool {
			return inventory.closed[other.pod.Spec.NodeName] || m.isOnNoNode(other.pod)
		})

		limit := inventory.cards[card]
		for _, n := range elsewhere {
			limit += n
		}

		why = inEveryTree(trees, func(t *rule.Tree) string { return t.TakesGuarantee(queue, card, count, use, limit) })
		if why == "" {
			return ""
		}
	}

	return why
}

// isOnNoNode reports whether a pod is on a node that is gone.
func (m *clusterState) isOnNoNode(pod *corev1.Pod) bool {
	_, known := m.nodes[pod.Spec.NodeName]
	return !known
}

// checkTreeTerminating is checkTerminating for a queue and its subtree.
func (m *clusterState) checkTreeTerminating(object, queue, card string, count int64, trees []*rule.Tree, c change) {
	now := trees[len(trees)-1]
	ending := rule.TreeUse{}
	for _, state := range m.pods {
		if state.terminating != nil {
			ending[state.terminating.Queue] = m.terminatingIn(state.terminating.Queue, card, c.seen)
		}
	}

	used := now.UsedIn(queue, m.treeUse(card, everyPod))
	leaving := now.UsedIn(queue, ending)

	most := int64(0)
	for _, t := range trees {
		q := t.Queue(queue)
		if q == nil || q.AnyCard {
			return
		}
		most = max(most, q.Cards[card])
	}

	if used <= most && used+leaving > most+most {
		m.addViolation(Quota, c.seen, object, "was placed with %d of <%s>: the subtree of queue <%s> now uses %d and %d more by pods that are being deleted, and its quota was at most %d (revision %d)",
			count, card, queue, used, leaving, most, c.revision)
	}
}

// inEveryTree returns why something was wrong in the last tree, "" when it was right in any.
func inEveryTree(trees []*rule.Tree, wrong func(*rule.Tree) string) string {
	why := ""
	for _, t := range trees {
		why = wrong(t)
		if why == "" {
			return ""
		}
	}
	return why
}

// allowsNamespaceInTree reports whether some tree since a moment lets a queue take a namespace
// with any of these labels: the selectors of ancestors bind the subtree.
func (m *clusterState) allowsNamespaceInTree(queue string, labels []map[string]string, c change) bool {
	return slices.ContainsFunc(m.tree.trees.valuesSince(m.windowStart(c.seen)), func(t *rule.Tree) bool {
		return slices.ContainsFunc(labels, func(of map[string]string) bool { return t.Selects(queue, of) })
	})
}
