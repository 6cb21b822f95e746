package capacitycard

import (
	"cmp"
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// treeReclaim is the search for victims on one node of a tree, for Volcano's action reclaim.
type treeReclaim struct {
	p         *plugin
	reclaimer checkInput
	node      *api.NodeInfo
	// queue is that of the reclaimer, name the card of the node, "" for a pod without cards.
	queue api.QueueID
	name  card.Name
	// taken is what the victims selected so far used, by queue.
	taken map[api.QueueID]map[card.Name]int64
}

// treeVictim is a pod that may be evicted, and by which rule.
type treeVictim struct {
	task  *api.TaskInfo
	kind  ReclaimKind
	level int
	// path are its queue and the ancestors below the lowest common ancestor.
	path   []api.QueueID
	charge *quota.Charge
}

// reclaimableInTree selects the victims on one node for a pod of a tree. It searches level by
// level, so that no queue further away loses what siblings can release. In each search the
// ancestors of the pod below that level stay within what they deserve.
func (p *plugin) reclaimableInTree(r checkInput, node *api.NodeInfo, reclaimees []*api.TaskInfo) []*api.TaskInfo {
	name, _ := p.cardFor(r.request, node.Name)
	s := &treeReclaim{p: p, reclaimer: r, node: node, queue: r.job.Queue, name: name}
	if !p.deservesCard(r, name) {
		return nil
	}
	candidates := s.listVictims(reclaimees)
	last := 0
	for _, candidate := range candidates {
		if candidate.level == last {
			continue
		}
		last = candidate.level
		allowed := candidates
		if end := slices.IndexFunc(candidates, func(v *treeVictim) bool { return v.level > last }); end >= 0 {
			allowed = candidates[:end]
		}
		if victims := s.selectVictims(allowed, last); len(victims) > 0 {
			p.recordReclaimPlan(r.task, victims)
			return tasksOf(victims)
		}
	}
	return nil
}

// tasksOf returns the tasks of victims, in their order.
func tasksOf(victims []*treeVictim) []*api.TaskInfo {
	tasks := make([]*api.TaskInfo, len(victims))
	for i, victim := range victims {
		tasks[i] = victim.task
	}
	return tasks
}

// listVictims returns the possible victims in the order of eviction: siblings first, then up
// the tree. With reclaimResources All, pods without cards come before others of their priority.
func (s *treeReclaim) listVictims(reclaimees []*api.TaskInfo) (victims []*treeVictim) {
	p, resource := s.p, s.reclaimer.request.Resource
	for _, reclaimee := range reclaimees {
		request := p.RequestFor(reclaimee)
		isUseful := request.Count > 0 && request.Resource == resource || p.ReclaimsAll() && (request.Count == 0 || resource == "")
		if !isUseful || !p.hasReachedMinRuntime(reclaimee) || p.isEvictionInProgress(reclaimee) {
			continue
		}
		charge := p.ledger.Charged(string(reclaimee.UID))
		if kind := p.ReclaimKind(s.reclaimer.task, reclaimee); kind != NotReclaimable && charge != nil {
			from := p.VictimQueue(reclaimee)
			victims = append(victims, &treeVictim{reclaimee, kind, p.Level(s.queue, from), p.PathBelow(s.queue, from), charge})
		}
	}
	slices.SortStableFunc(victims, func(a, b *treeVictim) int {
		return cmp.Or(cmp.Compare(a.level, b.level), p.compareByVictimOrder(a.task, b.task))
	})
	return victims
}

// selectVictims selects as few victims as release what the node and the quotas lack, with
// evictions up to a level. It returns none if they do not suffice.
func (s *treeReclaim) selectVictims(candidates []*treeVictim, level int) []*treeVictim {
	s.taken = map[api.QueueID]map[card.Name]int64{}
	ofNode := missingResources(s.reclaimer.task.InitResreq, s.p.FutureIdleOn(s.node))
	missing := s.addMissingQuota(ofNode.clone(), level)
	conflicting, _, useful := s.p.splitConflicting(s.reclaimer.task, s.node, tasksOf(candidates))
	if !useful {
		return nil
	}
	var selected []*treeVictim
	for _, must := range []bool{true, false} {
		for _, candidate := range candidates {
			released := s.releasedBy(candidate)
			if slices.Contains(conflicting, candidate.task) != must || !must && !missing.isReducedBy(released) || !s.mayTake(candidate) {
				continue
			}
			s.take(candidate, 1)
			missing.add(released, -1)
			selected = append(selected, candidate)
		}
		if must && len(selected) < len(conflicting) {
			return nil
		}
	}
	if !missing.isZero() {
		return nil
	}
	selected = s.dropUnneeded(selected, len(conflicting), missing)
	if len(selected) > 1 && !s.isIrreducible(selected, ofNode) {
		return nil
	}
	return selected
}

// dropUnneeded removes the victims without which nothing is missing either, the last ones first.
// It keeps the first ones of a given number.
func (s *treeReclaim) dropUnneeded(selected []*treeVictim, kept int, missing amounts) []*treeVictim {
	for i := len(selected) - 1; i >= kept; i-- {
		released := s.releasedBy(selected[i])
		if missing.clone().add(released, 1).isZero() {
			missing.add(released, 1)
			selected = slices.Delete(selected, i, i+1)
		}
	}
	return selected
}

// isIrreducible reports whether the node needs each of the victims. Volcano stops to evict when
// the node has room. It would leave some victims although the quota needs them.
func (s *treeReclaim) isIrreducible(selected []*treeVictim, missing amounts) bool {
	remaining := missing.clone()
	for _, victim := range selected {
		remaining.add(s.releasedBy(victim), -1)
	}
	return !slices.ContainsFunc(selected, func(victim *treeVictim) bool {
		return remaining.clone().add(s.releasedBy(victim), 1).isZero()
	})
}

// levelKey names the quota of a name at a level.
func levelKey(name card.Name, level int) string {
	return fmt.Sprintf("quota of %s at level %d", name, level)
}

// requested returns what the reclaimer requests of a card, CPU or memory.
func (s *treeReclaim) requested(name card.Name) int64 {
	switch name {
	case quota.CPUName:
		return s.reclaimer.request.MilliCPU
	case quota.MemoryName:
		return s.reclaimer.request.Memory
	}
	return int64(s.reclaimer.request.Count)
}

// addMissingQuota adds what the ancestors lack for the reclaimer, with evictions up to a level.
func (s *treeReclaim) addMissingQuota(missing amounts, level int) amounts {
	for _, name := range []card.Name{s.name, quota.CPUName, quota.MemoryName} {
		requested := s.requested(name)
		if requested <= 0 {
			continue
		}
		mayUse := s.p.MayUseByLevel(s.queue, name)
		for i := 1; i < len(mayUse.Quota); i++ {
			limit := mayUse.Limit(i, requested, level)
			if i < level && (name == s.name || s.p.ReclaimsAll()) {
				limit = min(limit, mayUse.Deserved[i])
			}
			if requested > limit {
				missing[levelKey(name, i)] = float64(requested) - float64(limit)
			}
		}
	}
	return missing
}

// releasedBy returns what the eviction of a victim releases: on the node, and at its level and
// above it.
func (s *treeReclaim) releasedBy(victim *treeVictim) amounts {
	released := resourceAmounts(victim.task.Resreq)
	forEachCharged(victim.charge, func(name card.Name, amount int64) {
		for i := victim.level; i <= len(s.p.pathOf(s.queue)); i++ {
			released[levelKey(name, i)] += float64(amount)
		}
	})
	return released
}

// mayTake reports whether a victim may be evicted after those that are taken: all guarantees
// stay, and by the rule of the tree its queues still have borrowed.
func (s *treeReclaim) mayTake(victim *treeVictim) bool {
	may := true
	for _, queue := range victim.path {
		forEachCharged(victim.charge, func(name card.Name, amount int64) {
			may = may && s.p.AboveGuarantee(queue, name)-s.taken[queue][name] >= amount
		})
	}
	return may && (victim.kind == ReclaimableByMatrix || s.p.stillBorrows(s.reclaimer.request.Count > 0, victim.charge, victim.path, s.taken))
}

func (s *treeReclaim) take(victim *treeVictim, sign int64) {
	for _, queue := range victim.path {
		if s.taken[queue] == nil {
			s.taken[queue] = map[card.Name]int64{}
		}
		forEachCharged(victim.charge, func(name card.Name, amount int64) { s.taken[queue][name] += sign * amount })
	}
}

// stillBorrows reports whether each queue of a path uses more than it deserves of what a pod
// holds, without what is taken. That is its cards, or CPU or memory if the pod or its reclaimer
// has no cards.
func (p *plugin) stillBorrows(forCards bool, charge *quota.Charge, path []api.QueueID, taken map[api.QueueID]map[card.Name]int64) bool {
	borrows := func(name card.Name) bool {
		return !slices.ContainsFunc(path, func(queue api.QueueID) bool { return p.AboveDeserved(queue, name) <= taken[queue][name] })
	}
	switch {
	case len(path) == 0:
		return false
	case forCards && len(charge.Cards) > 0:
		return !slices.ContainsFunc(charge.Cards, func(amount card.Amount) bool { return !borrows(amount.Name) })
	}
	return charge.MilliCPU > 0 && borrows(quota.CPUName) || charge.Memory > 0 && borrows(quota.MemoryName)
}

// forEachCharged calls with each card, and with CPU and memory, of a charge.
func forEachCharged(charge *quota.Charge, call func(card.Name, int64)) {
	for _, amount := range charge.Cards {
		call(amount.Name, int64(amount.Count))
	}
	if charge.MilliCPU > 0 {
		call(quota.CPUName, charge.MilliCPU)
	}
	if charge.Memory > 0 {
		call(quota.MemoryName, charge.Memory)
	}
}

// reclaimPlan is what Volcano's action reclaim evicts for a pod.
type reclaimPlan struct {
	reclaimer *api.TaskInfo
	// borrowed are the cards that the victims' queues had borrowed.
	borrowed map[api.QueueID]map[card.Name]bool
}

// recordReclaimPlan records the victims that Volcano evicts for a pod. They count when the pod
// is pipelined at the end of the session.
func (p *plugin) recordReclaimPlan(reclaimer *api.TaskInfo, victims []*treeVictim) {
	plan := reclaimPlan{reclaimer, map[api.QueueID]map[card.Name]bool{}}
	for _, victim := range victims {
		queue := p.VictimQueue(victim.task)
		forEachCharged(victim.charge, func(name card.Name, _ int64) {
			if p.AboveDeserved(queue, name) <= 0 {
				return
			}
			if plan.borrowed[queue] == nil {
				plan.borrowed[queue] = map[card.Name]bool{}
			}
			plan.borrowed[queue][name] = true
		})
	}
	if p.reclaimPlans == nil {
		p.reclaimPlans = map[api.TaskID]reclaimPlan{}
	}
	p.reclaimPlans[reclaimer.UID] = plan
}

// applyReclaimPlans keeps what Volcano's action reclaim freed in this session for the pods that
// reclaimed it.
func (p *plugin) applyReclaimPlans() {
	for _, plan := range p.reclaimPlans {
		job := p.ssn.Jobs[plan.reclaimer.Job]
		if job == nil {
			continue
		}
		task := job.TaskStatusIndex[api.Pipelined][plan.reclaimer.UID]
		if task == nil || !p.ssn.JobPipelined(job) {
			continue
		}
		p.KeepReclaimedRoom(task)
		for queue, names := range plan.borrowed {
			for name := range names {
				p.RecordReclaimed(queue, name)
			}
		}
	}
}
