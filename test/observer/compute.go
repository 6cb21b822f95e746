package observer

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/test/observer/rule"
)

// computeNames are the names of CPU and memory, where rules name a card.
var computeNames = []string{rule.CPU, rule.Memory}

// SetReclaimsAll states that the scheduler runs with reclaimResources: All from now on, or with
// Cards.
func (o *Observer) SetReclaimsAll(all bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state.options.ReclaimsAll = all
}

// countsCompute reports whether the CPU and memory of a pod with so many cards count in its queue.
func (m *clusterState) countsCompute(cards int64) bool {
	return !m.options.UnlimitedCPUMemory || cards == 0
}

// amountIn returns how much of a card, CPU or memory a charge has.
func (m *clusterState) amountIn(charge *rule.Charge, name string) int64 {
	switch {
	case name != rule.CPU && name != rule.Memory:
		return charge.Cards[name]
	case !m.countsCompute(int64(len(charge.Cards))):
		return 0
	case name == rule.CPU:
		return charge.MilliCPU
	}
	return charge.Memory
}

// requested returns how much of a card, CPU or memory a request has.
func (m *clusterState) requested(request rule.Request, name string) int64 {
	switch {
	case name != rule.CPU && name != rule.Memory:
		if slices.Contains(request.Cards, name) {
			return request.Count
		}
		return 0
	case !m.countsCompute(request.Count):
		return 0
	case name == rule.CPU:
		return request.MilliCPU
	}

	return request.Memory
}

// computeOf returns the CPU and memory that a charge counts.
func (m *clusterState) computeOf(charge *rule.Charge) (names []string) {
	for _, name := range computeNames {
		if m.amountIn(charge, name) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// reclaimedNames returns what is reclaimed with a victim: its cards, and with reclaimResources All
// its CPU and memory.
func (m *clusterState) reclaimedNames(victim *podState) []string {
	names := slices.Sorted(maps.Keys(victim.charge.Cards))
	if m.options.ReclaimsAll {
		names = append(names, m.computeOf(victim.charge)...)
	}
	return names
}

// freesCompute reports whether a victim may be evicted because a pod lacks CPU or memory: policy
// reclaims them, and the pod requests some where the victim uses some. That is on the victim's
// node, if the pod may run there, or in the quota of their queues.
func (m *clusterState) freesCompute(reclaimer, victim *podState) bool {
	if !m.options.ReclaimsAll {
		return false
	}
	request := rule.RequestOf(reclaimer.pod, m.inventory)
	ofVictim := rule.RequestOf(victim.pod, m.inventory)
	mayRun := request.Count == 0 || request.Allows(m.inventory.CardOn(victim.pod.Spec.NodeName, request.Resource))
	helps := (request.MilliCPU > 0 && ofVictim.MilliCPU > 0) || (request.Memory > 0 && ofVictim.Memory > 0)
	if mayRun && helps {
		return true
	}
	return slices.ContainsFunc(computeNames, func(name string) bool { return m.requested(request, name) > 0 && m.requested(ofVictim, name) > 0 })
}

// allocatableOf returns the CPU and memory of a node.
func allocatableOf(node *corev1.Node) rule.Quota {
	return rule.Quota{rule.CPU: node.Status.Allocatable.Cpu().MilliValue(), rule.Memory: node.Status.Allocatable.Memory().Value()}
}

// checkTreeCompute checks a pod that was just placed against what the tree says of CPU and memory
// beyond the limits, which package sessioncheck checks: it takes no unused guarantee of others, and
// what cannot be reclaimed stays within what its queues deserve.
func (m *clusterState) checkTreeCompute(state *podState, queue string, trees []*rule.Tree, c change, report func(string)) {
	for _, name := range m.computeOf(state.charge) {
		report(m.takesGuarantee(trees, queue, name, m.amountIn(state.charge, name), m.treeUse(name, everyPod), c))
		report(m.unreclaimableAboveDeserved(state, trees, queue, name))
	}
}

// unreclaimableAboveDeserved returns which queue on the path uses more than it deserves of what cannot be
// reclaimed, "" if the pod can be reclaimed or none does.
func (m *clusterState) unreclaimableAboveDeserved(state *podState, trees []*rule.Tree, queue, name string) string {
	return inEveryTree(trees, func(t *rule.Tree) string {
		if !m.isUnreclaimable(state, t) {
			return ""
		}
		return t.AboveDeserved(queue, name, m.treeUse(name, func(other *podState) bool { return m.isUnreclaimable(other, t) }))
	})
}
