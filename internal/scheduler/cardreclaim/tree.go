package cardreclaim

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/solver"
)

// treeProblem is the part of a problem that depends on the tree of queues. A pool is the index of a quota, see problem.
// A level is how many queues a queue is above that of the pending pods, which is level 0. Flat queues have only that,
// and nothing but mayUse.
type treeProblem struct {
	// mayUse is what the queue of the pending pods may use by level, by pool. Pool 0 has no limit.
	mayUse []quota.Levels
	// lacksQuota is set for a pool of which an ancestor has not enough left. Then victims help
	// on any node.
	lacksQuota []bool
	// lacksInventory is set for a pool of which the inventory has not enough left beside what is
	// guaranteed to others. Then victims do not help on nodes that take no pods, or that do not offer
	// their cards: no card of the inventory becomes free with them.
	lacksInventory []bool
	// takeLimits are the indexes of the problem's take limits.
	takeLimits map[takeKey]int
	// victimLevel is up to which level victims may be evicted.
	victimLevel int
}

// addPool adds a pool with what the queue of the pending pods may use of a card, CPU or memory, and returns it.
// limitLevels sets the amounts: they depend on how far up victims are.
func (b *problemBuilder) addPool(p *problem, queue api.QueueID, name quota.Resource) int {
	pool := len(p.input.Quotas)
	p.pools[name] = pool
	mayUse := b.Ledger.MayUseByLevel(string(queue), name)
	p.tree.mayUse = append(p.tree.mayUse, mayUse)
	p.input.Quotas = append(p.input.Quotas, solver.Quota{Levels: make([]int64, len(mayUse))})
	return pool
}

// ignoreDeserved lets only quotas limit a pool, not what queues deserve. It is for CPU or memory that is not reclaimed,
// but that victims free as well.
func (t *treeProblem) ignoreDeserved(pool int) {
	for i := range t.mayUse[pool] {
		t.mayUse[pool][i].Deserved = quota.Unlimited
	}
}

// limitLevels sets what the pending pods may use at each level while victims up to a level may
// be evicted. Below that level no queue of the path may use more than it deserves: no queue evicts in order to borrow.
func (p *problem) limitLevels(level int) {
	p.tree.victimLevel = level
	for pool, mayUse := range p.tree.mayUse {
		requested := p.requestedOf(pool)
		for i := range mayUse {
			limit := mayUse.Limit(i, requested, level)
			if i < level {
				limit = min(limit, mayUse[i].Deserved)
			}
			p.input.Quotas[pool].Levels[i] = limit
		}
	}
}

// findLackingQuotas sets lacksQuota and lacksInventory: the pools of which the queues above the pending pods' have less
// left than the pods use, so that evictions are needed even if cards are free.
func (p *problem) findLackingQuotas() {
	p.tree.lacksQuota = make([]bool, len(p.input.Quotas))
	p.tree.lacksInventory = make([]bool, len(p.input.Quotas))
	for pool, mayUse := range p.tree.mayUse {
		requested := p.requestedOf(pool)

		// Evictions in other queues release nothing of level 0, the queue's own quota. Limit is what quotas and guarantees
		// leave at a level, here without any eviction below it.
		for i := 1; i < len(mayUse); i++ {
			isLacking := min(mayUse.Limit(i, requested, i), mayUse[i].Deserved) < requested
			p.tree.lacksQuota[pool] = p.tree.lacksQuota[pool] || isLacking
			p.tree.lacksInventory[pool] = isLacking // the last level is root: what the inventory has
		}
	}
}

// lacksInventoryOf returns lacksInventory of a pool. It is false before findLackingQuotas.
func (t *treeProblem) lacksInventoryOf(pool int) bool {
	return t.lacksInventory != nil && t.lacksInventory[pool]
}

// requestedOf returns how much of a pool all pending pods use, if all of them run on nodes of that pool.
func (p *problem) requestedOf(pool int) (requested int64) {
	for i := range p.input.PodSets {
		requested = quota.AddSaturating(requested, p.usedBy(&p.input.PodSets[i], pool))
	}
	return requested
}

// usedBy returns how much of a pool the pods of a pod set use: of CPU or memory what they request, of a card what they
// request if all run on nodes with it.
func (p *problem) usedBy(podSet *solver.PodSet, pool int) int64 {
	uses := podSet.Cards
	if pool > 0 && (pool == p.pools[quota.CPU] || pool == p.pools[quota.Memory]) { // Uses lacks what they do not request
		uses = 0
	}

	for _, use := range podSet.Uses {
		if use.Quota == pool {
			uses = use.Amount
		}
	}

	return quota.MultiplySaturating(uses, int64(podSet.Count))
}

// limitVictimJob sets what the eviction of a job and of each pod releases in the quotas of a tree, and against which
// limits it counts. isUseful is set if it frees resources where they are needed. It reports whether the job helps: by
// that, or by quota that it releases.
func (b *problemBuilder) limitVictimJob(p *problem, victim *victimJob, solverJob *solver.Job, isUseful bool) bool {
	solverJob.Level = victim.level
	usesNeeded := slices.ContainsFunc(victim.tasks, func(task *api.TaskInfo) bool { return p.needsCardsOf(b.Ledger.Charged(string(task.UID))) })
	for i, task := range victim.tasks {
		charge := b.Ledger.Charged(string(task.UID))
		pod := &solverJob.Pods[i]
		if charge == nil { // it uses nothing of a quota
			continue
		}

		pod.Releases = p.releasesOf(charge)
		for _, release := range pod.Releases {
			isUseful = isUseful || p.tree.lacksQuota[release.Quota]
		}

		// Limits of what is borrowed refuse only pods that are victims by the tree, not those by the reclaim
		// matrix.
		pod.OnlyCounts = !victim.byTree[i]
		takes, isAllowed := b.takesOf(p, victim, i, charge, usesNeeded)
		pod.Takes = takes
		// A limit that protects one pod protects its whole job.
		if !isAllowed {
			pod.Protected = true
			solverJob.Whole = false
		}
	}

	return isUseful && (solverJob.Whole || slices.ContainsFunc(solverJob.Pods, func(pod solver.Pod) bool { return !pod.Protected }))
}

// needsCardsOf reports whether the pending pods could use cards of a charge.
func (p *problem) needsCardsOf(charge *quota.Charge) bool {
	return charge != nil && slices.ContainsFunc(charge.Cards, func(c card.Amount) bool { return p.pools[quota.Resource(c.Name)] > 0 })
}

// releasesOf returns what the pools get back with a charge. It leaves out names of which the pending pods use no quota,
// which have no pool, and cards that help no pending pod: see lacksInventory.
func (p *problem) releasesOf(charge *quota.Charge) []solver.QuotaAmount {
	var releases []solver.QuotaAmount
	for name, amount := range charge.Amounts() {
		pool := p.pools[name]
		isInVain := p.tree.lacksInventoryOf(pool) && !charge.IsInInventory(name)
		if pool > 0 && !isInVain {
			releases = append(releases, solver.QuotaAmount{Quota: pool, Amount: amount})
		}
	}

	return releases
}

// takesOf returns the limits that the i-th pod of a victim job counts against, with its amounts. isAllowed is false if
// one of them allows no eviction of it, or if only the tree allows to evict it, but its queues have borrowed nothing
// of what is needed. usesNeeded is set if the job uses cards that the pending pods need.
func (b *problemBuilder) takesOf(p *problem, victim *victimJob, i int, charge *quota.Charge, usesNeeded bool) (takes []solver.TakeAmount, isAllowed bool) {
	isAllowed = true
	// borrowed: the limit protects what the queues deserve, otherwise their guarantees.
	add := func(name quota.Resource, amount int64, borrowed bool) {
		for _, queue := range victim.path {
			limit, most := b.takeLimitFor(p, takeKey{queue, name, borrowed}, amount)
			takes = append(takes, solver.TakeAmount{Limit: limit, Amount: amount})
			isAllowed = isAllowed && allowsTake(most, amount, borrowed, victim.byTree[i])
		}
	}

	// By whatever rule a pod is a victim, its queues keep their guarantees.
	for name, amount := range charge.Amounts() {
		if name.IsCard() || b.ReclaimsAll() {
			add(name, amount, false)
		}
	}

	// By the tree a pod is a victim only if its queues have borrowed. A victim by the service types counts
	// too: what it gives back, the tree does not take again.
	names, isBorrower := b.borrowedNames(p, victim, charge, usesNeeded)
	for _, name := range names {
		add(name, charge.Amount(name), true)
	}

	return takes, isAllowed && (isBorrower || !victim.byTree[i])
}

// allowsTake reports whether a limit of most allows to evict a pod that uses an amount. Of a guarantee nothing may be
// taken, so the limit must cover the amount. A limit of what is borrowed may be exceeded by the last victim, and it
// protects no pod that the reclaim matrix allows to evict.
func allowsTake(most, amount int64, borrowed, byTree bool) bool {
	if borrowed {
		return most > 0 || !byTree
	}
	return most > 0 && most >= amount
}

// borrowedNames returns what the victim's queues must have borrowed so that the tree allows to evict a pod:
// the cards of the pod that are needed. A job that uses no needed cards is evicted for CPU and memory. Then
// it is all cards of the pod, which go with it, and the first of CPU and memory that all of its queues have
// borrowed. isBorrower is false if they have borrowed neither. usesNeeded is set if the job uses cards that
// the pending pods need.
func (b *problemBuilder) borrowedNames(p *problem, victim *victimJob, charge *quota.Charge, usesNeeded bool) (names []quota.Resource, isBorrower bool) {
	for _, c := range charge.Cards {
		// Only what the pending pods need has a pool above 0.
		if name := quota.Resource(c.Name); c.Count > 0 && (!usesNeeded || p.pools[name] > 0) {
			names = append(names, name)
		}
	}

	if usesNeeded || !b.ReclaimsAll() {
		return names, true
	}

	for _, name := range quota.Compute {
		isAbove := func(queue string) bool { return b.Ledger.AboveDeserved(queue, name) > 0 }
		if charge.Amount(name) > 0 && !slices.ContainsFunc(victim.path, func(queue string) bool { return !isAbove(queue) }) {
			return append(names, name), true
		}
	}

	return names, false
}

// takeLimitFor returns the index of a limit in the problem, and the most that may be taken. It adds the limit if it is
// new. It records for the search history that a victim counts an amount against the limit.
func (b *problemBuilder) takeLimitFor(p *problem, key takeKey, amount int64) (index int, most int64) {
	index, known := p.tree.takeLimits[key]
	if !known {
		index = len(p.input.TakeLimits)
		p.tree.takeLimits[key] = index
		p.input.TakeLimits = append(p.input.TakeLimits, solver.TakeLimit{Most: b.mostTaken(key), Borrowed: key.borrowed})
	}
	most = p.input.TakeLimits[index].Most
	b.scope.addTake(key, most, amount)
	return index, most
}

// reclaimedNames returns the cards of a charge, and its CPU and memory if these are reclaimed too. A nil charge has none.
func (b *problemBuilder) reclaimedNames(charge *quota.Charge) (names []quota.Resource) {
	if charge == nil {
		return nil
	}

	for name := range charge.Amounts() {
		if name.IsCard() || b.ReclaimsAll() {
			names = append(names, name)
		}
	}

	return names
}
