package sessioncheck

import (
	"maps"
	"slices"

	"cardquota.dev/operator/test/observer/rule"
)

// mustReclaimInTree reports whether cards must be taken back in a tree for a unit that cannot
// start: one plain pod that stays within what its queue and every ancestor below the common one
// deserve, and a node that one gang of a borrowing queue can clear.
func (j *Checker) mustReclaimInTree(u *unit, units []*unit) bool {
	if !j.mayReclaimInTree(u) || j.isOvertakenInTree(u, units) {
		return false
	}

	seen := map[string]bool{}
	for _, state := range j.state.pods {
		key := groupKey(state.pod)
		if seen[key.String()] || state.charge == nil || state.charge.Queue == u.queue {
			continue
		}

		seen[key.String()] = true
		if j.canTakeGang(u, state) {
			return true
		}
	}

	return false
}

// mayReclaimInTree reports whether a unit is one plain pod for one card that may reclaim in a tree.
func (j *Checker) mayReclaimInTree(u *unit) bool {
	w := j.state
	if len(j.options.ReclaimFrom) == 0 || !isOnePlainPod(u) || !isEnqueued(u) || !w.isOpen(u) {
		return false
	}
	request := u.pods[0].request
	return request.Count != 0 && request.Denial == "" && len(request.Cards) == 1 && w.hasCPUMemory(u) && j.knowsType(j.serviceType(u.pods[0], u.queue))
}

// isOvertakenInTree reports whether an eviction is under way, or another unit may reclaim or start
// first.
func (j *Checker) isOvertakenInTree(u *unit, units []*unit) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(j.state.pods)), func(state *podState) bool {
		return isLeaving(state.pod) || state.pod.Status.NominatedNodeName != ""
	}) || slices.ContainsFunc(units, func(other *unit) bool { return other != u && j.state.isOpen(other) && j.state.canEverFit(other) })
}

// canTakeGang reports whether the whole gang of a pod is certainly reclaimable for a unit by the
// tree, and clears a node for it.
func (j *Checker) canTakeGang(u *unit, member *podState) bool {
	card := u.pods[0].request.Cards[0]
	gang, taken := j.reclaimableGang(member, card)
	return len(gang) > 0 && j.state.treeAllowsTaking(u, member.charge.Queue, card, gang, taken) && j.state.clearsNode(u, func(state *podState) bool { return slices.Contains(gang, state) })
}

// reclaimableGang returns the gang of a pod and how many of a card it uses, none if some pod of it
// is not certainly reclaimable.
func (j *Checker) reclaimableGang(member *podState, card string) (gang []*podState, taken int64) {
	w := j.state
	if group := w.groups[groupKey(member.pod)]; group == nil || !rule.IsPreemptable(group.Annotations, group.Labels) {
		return nil, 0
	}

	for _, state := range w.pods {
		if groupKey(state.pod) != groupKey(member.pod) || state.charge == nil {
			continue
		}
		if !j.isTreeReclaimable(state) || state.pod.Spec.Affinity != nil || state.charge.Queue != member.charge.Queue || state.charge.Cards[card] == 0 {
			return nil, 0
		}
		gang = append(gang, state)
		taken += state.charge.Cards[card]
	}

	return gang, taken
}

// treeAllowsTaking reports whether the amounts of all queues let a unit start when a victim queue
// loses a gang and the cards it uses: what is deserved and guaranteed, and the quotas.
func (w *clusterState) treeAllowsTaking(u *unit, victim, card string, gang []*podState, taken int64) bool {
	t := w.tree
	use := w.treeUse(card, everyPod)
	count := u.pods[0].request.Count

	for _, name := range t.Below(victim, u.queue) {
		if q := t.Queue(name); q == nil || t.UsedIn(name, use) <= q.Deserved[card] || t.UsedIn(name, use)-taken < q.Guarantee[card] {
			return false
		}
	}

	for _, name := range t.Below(u.queue, victim) {
		if t.UsedIn(name, use)+count > t.Queue(name).Deserved[card] {
			return false
		}
	}

	after := maps.Clone(use)
	after[victim] -= taken
	after[u.queue] += count
	return taken >= count && t.AboveQuota(u.queue, card, after) == "" && t.TakesGuarantee(u.queue, card, count, after, w.schedulable(card, gang)) == ""
}
