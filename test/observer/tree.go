package observer

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/observer/rule"
)

// treeState is what is known about the tree of queues. It is empty while queues are flat.
type treeState struct {
	// isTree is the plugin argument queueHierarchy: whether it is Tree.
	isTree timeline[bool]
	// trees are the trees that the Queues formed.
	trees timeline[*rule.Tree]
	// schedulable are the cards of the nodes that take pods, with the names of the other nodes.
	schedulable timeline[schedulable]
	// unschedulable reports which nodes take no pods now, allocatable is the CPU and memory of nodes.
	unschedulable map[string]bool
	allocatable   map[string]rule.Quota
	// ended are pods that stopped to use cards without an eviction, oldest first.
	ended []endedCharge
}

// schedulable is the inventory of the nodes that take pods, with CPU and memory.
type schedulable struct {
	cards  rule.Quota
	closed map[string]bool
}

// endedCharge is what a pod used until it ended by itself.
type endedCharge struct {
	charge rule.Charge
	at     time.Time
}

// SetTree states that the scheduler runs with queueHierarchy: Tree from now on, or with Flat.
func (o *Observer) SetTree(tree bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state.setTree(tree, time.Now())
}

func (m *clusterState) setTree(tree bool, at time.Time) {
	m.options.Tree = tree
	if tree || len(m.tree.isTree.periods) > 0 {
		m.tree.isTree.setValue(tree, at)
	}
	if m.sessionChecker != nil {
		m.sessionChecker.SetTree(tree)
	}
	m.recordTree(at)
	m.recordSchedulable(at)
}

// knowsTree reports whether queues form a tree, or did so before.
func (m *clusterState) knowsTree() bool { return len(m.tree.isTree.periods) > 0 }

// isTreeSince reports whether queues formed a tree at all times, or at some time, since a moment.
func (m *clusterState) isTreeSince(moment time.Time) (always, sometimes bool) {
	if !m.knowsTree() {
		return false, false
	}
	always = true
	for _, tree := range m.tree.isTree.valuesSince(moment) {
		always = always && tree
		sometimes = sometimes || tree
	}
	return always, sometimes
}

// recordTree records the tree after a change of a Queue.
func (m *clusterState) recordTree(at time.Time) {
	if m.knowsTree() {
		m.tree.trees.setValue(rule.NewTree(m.queues, m.options.Unmanaged), at)
	}
}

// currentTree returns the tree now.
func (m *clusterState) currentTree() *rule.Tree { return m.tree.trees.current() }

// recordSchedulable records the schedulable inventory after a change of a node.
func (m *clusterState) recordSchedulable(at time.Time) {
	if !m.knowsTree() {
		return
	}

	now := schedulable{cards: rule.Quota{}, closed: map[string]bool{}}
	for name, node := range m.nodes {
		if m.tree.unschedulable[name] {
			now.closed[name] = true
			continue
		}

		for _, offer := range node.Cards {
			now.cards[offer.Card] += offer.Count
		}
		for resource, amount := range m.tree.allocatable[name] {
			now.cards[resource] += amount
		}
	}
	m.tree.schedulable.setValue(now, at)
}

// recordNodeSpec records whether a node takes pods, and its CPU and memory.
func (m *clusterState) recordNodeSpec(node *corev1.Node, c change) {
	if c.deleted {
		delete(m.tree.unschedulable, node.Name)
		delete(m.tree.allocatable, node.Name)
		return
	}
	m.tree.unschedulable[node.Name] = node.Spec.Unschedulable || !rule.IsReady(node)
	m.tree.allocatable[node.Name] = allocatableOf(node)
}

// recordEnd remembers a pod that no longer uses cards and was not evicted.
func (m *clusterState) recordEnd(before *rule.Charge, state *podState, c change) {
	hasEnded := before != nil && (state.charge == nil || c.deleted)
	if !m.knowsTree() || !hasEnded || state.evicted != nil {
		return
	}
	m.tree.ended = append(m.tree.ended, endedCharge{*before, c.seen})
	for len(m.tree.ended) > 0 && m.tree.ended[0].at.Before(c.seen.Add(-historyPeriod)) {
		m.tree.ended = m.tree.ended[1:]
	}
}

// treeUse sums a card, CPU or memory of all charged pods that are selected, by queue.
func (m *clusterState) treeUse(name string, counts func(*podState) bool) rule.TreeUse {
	use := rule.TreeUse{}
	for _, state := range m.pods {
		if state.charge == nil {
			continue
		}
		if amount := m.amountIn(state.charge, name); amount > 0 && counts(state) {
			use[state.charge.Queue] += amount
		}
	}
	return use
}

func everyPod(*podState) bool { return true }

// isUnreclaimable reports whether a pod cannot be reclaimed in a tree.
func (m *clusterState) isUnreclaimable(state *podState, tree *rule.Tree) bool {
	queue := tree.Queue(m.queueOf(state))
	var ofGroup map[string]string
	if group := m.groupOf(state.pod); group != nil {
		ofGroup = group.Annotations
	}
	return queue == nil || !queue.Reclaimable || !rule.IsEvictable(state.pod, ofGroup) || !m.isKnownType(m.serviceType(state))
}

// isKnownType reports whether the reclaim matrix knows a service type.
func (m *clusterState) isKnownType(name string) bool {
	if _, reclaims := m.options.ReclaimFrom[name]; reclaims {
		return true
	}
	for _, from := range m.options.ReclaimFrom {
		for _, other := range from {
			if other == name {
				return true
			}
		}
	}
	return false
}
