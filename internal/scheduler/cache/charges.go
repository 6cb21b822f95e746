package cache

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// ChargePod charges a pod on its node to a queue. It writes to the ledger only what has changed, because most
// pods are charged as in the last session.
func (c *Cache) ChargePod(pod *corev1.Pod, state *PodState, queue, node string, as ChargeKind) {
	if !c.updateCharge(state, queue, node) || state.ChargedAs != as {
		c.RecordCharge(pod, state, as)
	}
}

// RecordCharge writes the charge of a pod, which ChargePod has computed, to the ledger.
func (c *Cache) RecordCharge(pod *corev1.Pod, state *PodState, as ChargeKind) {
	state.ChargedAs = as
	if as == ChargedAsUsed {
		c.Ledger.Charge(string(pod.UID), state.Charge)
	} else {
		c.Ledger.ChargeTerminating(string(pod.UID), state.Charge, workload.TerminationGracePeriod(pod))
	}
}

// updateCharge computes the charge of a pod on a node unless it is up to date, and reports whether it was.
func (c *Cache) updateCharge(state *PodState, queue, node string) (unchanged bool) {
	// A pod without chargedInventory is new or was read again, so its charge must be computed.
	isChargedHere := state.chargedInventory != nil && state.Charge.Queue == queue && state.ChargedNode == node
	unchanged = isChargedHere && (state.chargedInventory == c.Inventory || c.hasSameCharge(state)) && c.hasSameTreeCharge(state)
	if !unchanged {
		last := state.Charge // its card stays charged if the node has lost its label
		if state.ChargedNode != node {
			last = nil
		}

		charge := workload.ChargeFor(&state.Request, queue, node, c.Inventory, last)
		if !c.Tree.IsFlat() {
			charge.IsUnreclaimable = state.Request.IsUnreclaimable
			charge.IsOffInventory = c.isOffInventory(node)
			state.treeGeneration = c.Tree.generation
		}

		state.Charge = &charge
		state.ChargedNode = node
		state.chargedInventory = c.Inventory
	}

	return unchanged
}

// hasSameCharge reports whether the charged card is still the one of the node in a new inventory, and then
// remembers the inventory. A change of one node makes a new inventory, so this spares most pods a new charge.
func (c *Cache) hasSameCharge(state *PodState) bool {
	// Charges of several cards are rare, so they are computed again. So is that of a pod that requests cards
	// and was charged none, because its node named no card.
	request := &state.Request
	charged := state.Charge.Cards
	if len(request.ExtraResources) > 0 || len(charged) > 1 || (len(charged) == 0) != (request.Count == 0) {
		return false
	}

	if len(charged) == 1 {
		name, isKnown := c.Inventory.CardInUseOnNode(state.ChargedNode, request.Resource)
		_, isOffered := c.Inventory.CardOnNode(state.ChargedNode, request.Resource)
		isSame := isKnown && name == charged[0].Name && request.Count == charged[0].Count
		// The charge says in NotOffered that the node does not offer the card any more. It must say so now as
		// well.
		if !isSame || isOffered != (len(state.Charge.NotOffered) == 0) {
			return false
		}
	}

	state.chargedInventory = c.Inventory
	return true
}

// SetInventory sets in the ledger what the nodes have that take pods: they are ready and not
// cordoned. Only a tree needs it, for its guarantees, so it does nothing if the queues are flat.
func (c *Cache) SetInventory(nodes map[string]*corev1.Node) {
	t := &c.Tree
	if t.IsFlat() {
		return
	}
	// A node that has not changed must cost nothing in the next session.
	if t.inventory == c.Inventory && maps.Equal(nodes, t.nodes) {
		return
	}

	// Cards of a node that takes no pods serve no guarantee.
	cards := map[card.Name]card.Count{}
	off := map[string]bool{}
	var milliCPU, memory int64
	for name, node := range nodes {
		if node.Spec.Unschedulable || !workload.NodeReady(node) {
			off[name] = true
			continue
		}
		known, _ := c.Inventory.Node(name)
		for _, offered := range known.Cards {
			cards[offered.Name] = cards[offered.Name].Add(offered.Count)
		}

		milliCPU = quota.AddSaturating(milliCPU, node.Status.Allocatable.Cpu().MilliValue())
		memory = quota.AddSaturating(memory, node.Status.Allocatable.Memory().Value())
	}

	if t.inventory != c.Inventory || !maps.Equal(off, t.offInventory) {
		t.generation++ // so each charge is checked again for whether its node is part of the inventory
	}

	t.nodes = nodes
	t.inventory = c.Inventory
	t.offInventory = off
	c.Ledger.SetInventory(cards, milliCPU, memory)
}

// isOffInventory reports whether a node is not part of the inventory of a tree: it takes no pods, or is gone.
func (c *Cache) isOffInventory(node string) bool {
	return c.Tree.offInventory[node] || c.Nodes.Node(node) == nil
}

// hasSameTreeCharge reports whether a charge still says what a tree needs to know: whether it can be reclaimed,
// and whether its node is part of the inventory. It then remembers the generation of the tree.
func (c *Cache) hasSameTreeCharge(state *PodState) bool {
	t := &c.Tree
	if t.IsFlat() {
		return true
	}
	if state.Charge.IsUnreclaimable != state.Request.IsUnreclaimable {
		return false
	}
	if state.treeGeneration != t.generation && state.Charge.IsOffInventory != c.isOffInventory(state.ChargedNode) {
		return false
	}

	state.treeGeneration = t.generation
	return true
}
