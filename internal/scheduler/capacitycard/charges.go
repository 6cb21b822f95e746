package capacitycard

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// chargePod charges a pod on its node to a queue.
func (c *sharedCache) chargePod(pod *corev1.Pod, state *podState, queue, node string, as chargeKind) {
	if !c.updateCharge(state, queue, node) || state.chargedAs != as {
		c.recordCharge(pod, state, as)
	}
}

// recordCharge writes the charge of a pod to the ledger.
func (c *sharedCache) recordCharge(pod *corev1.Pod, state *podState, as chargeKind) {
	state.chargedAs = as
	if as == chargedAsUsed {
		c.ledger.Charge(string(pod.UID), state.charge)
	} else {
		c.ledger.ChargeTerminating(string(pod.UID), state.charge, workload.TerminationGracePeriod(pod))
	}
}

// updateCharge computes the charge of a pod on a node, and reports whether it was up to date.
func (c *sharedCache) updateCharge(state *podState, queue, node string) (unchanged bool) {
	isChargedHere := state.chargedInventory != nil && state.charge.Queue == queue && state.chargedNode == node
	unchanged = isChargedHere && (state.chargedInventory == c.inventory || c.hasSameCharge(state)) && c.hasSameTreeCharge(state)
	if !unchanged {
		last := state.charge
		if state.chargedNode != node {
			last = nil // it was for another node
		}

		charge := workload.ChargeFor(&state.request, queue, node, c.inventory, last)
		if !c.tree.IsFlat() {
			charge.IsUnreclaimable = state.request.IsUnreclaimable
			charge.IsOffInventory = c.isOffInventory(node)
			state.treeGeneration = c.tree.generation
		}

		state.charge = &charge
		state.chargedNode = node
		state.chargedInventory = c.inventory
	}

	return unchanged
}

// hasSameCharge reports whether the charged card is still the one of the node in a new
// inventory. It is for most pods when some node changed.
func (c *sharedCache) hasSameCharge(state *podState) bool {
	request := &state.request
	charged := state.charge.Cards
	if len(request.ExtraResources) > 0 || len(charged) > 1 || (len(charged) == 0) != (request.Count == 0) {
		return false
	}

	if len(charged) == 1 {
		name, isKnown := c.inventory.CardInUseOnNode(state.chargedNode, request.Resource)
		_, isOffered := c.inventory.CardOnNode(state.chargedNode, request.Resource)
		isSame := isKnown && name == charged[0].Name && request.Count == charged[0].Count
		if !isSame || isOffered != (len(state.charge.NotOffered) == 0) {
			return false
		}
	}

	state.chargedInventory = c.inventory
	return true
}

// setInventory sets in the ledger what the nodes have that take pods: they are ready and not
// cordoned. It does nothing if the queues are flat.
func (c *sharedCache) setInventory(nodes map[string]*corev1.Node) {
	t := &c.tree
	if t.IsFlat() {
		return
	}
	// A node that has not changed must cost nothing in the next session.
	if t.inventory == c.inventory && hasSameNodes(nodes, t.nodes) {
		return
	}

	cards := map[card.Name]card.Count{}
	off := map[string]bool{}
	var milliCPU, memory int64
	for name, node := range nodes {
		if node.Spec.Unschedulable || !workload.NodeReady(node) {
			off[name] = true
			continue
		}
		known, _ := c.inventory.Node(name)
		for _, offered := range known.Cards {
			cards[offered.Name] = cards[offered.Name].Add(offered.Count)
		}

		milliCPU = quota.AddSaturating(milliCPU, node.Status.Allocatable.Cpu().MilliValue())
		memory = quota.AddSaturating(memory, node.Status.Allocatable.Memory().Value())
	}

	if t.inventory != c.inventory || !maps.Equal(off, t.offInventory) {
		t.generation++
	}

	t.nodes = nodes
	t.inventory = c.inventory
	t.offInventory = off
	c.ledger.SetInventory(cards, milliCPU, memory)
}

// hasSameNodes reports whether no node changed.
func hasSameNodes(nodes, last map[string]*corev1.Node) bool {
	if len(nodes) != len(last) {
		return false
	}
	for name, node := range nodes {
		if last[name] != node {
			return false
		}
	}
	return true
}

// isOffInventory reports whether a node is not part of the inventory of a tree.
func (c *sharedCache) isOffInventory(node string) bool {
	return c.tree.offInventory[node] || c.nodes.Node(node) == nil
}

// hasSameTreeCharge reports whether a charge still says the right for a tree.
func (c *sharedCache) hasSameTreeCharge(state *podState) bool {
	t := &c.tree
	if t.IsFlat() {
		return true
	}
	if state.charge.IsUnreclaimable != state.request.IsUnreclaimable {
		return false
	}
	if state.treeGeneration != t.generation && state.charge.IsOffInventory != c.isOffInventory(state.chargedNode) {
		return false
	}

	state.treeGeneration = t.generation
	return true
}
