package cardreclaim

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/solver"
)

// takeKey is what a limit of a problem is about: a name that a queue and all queues below it
// use. borrowed is the limit of what they use beyond what the queue deserves, otherwise it is
// that of what they use beyond its guarantee.
type takeKey struct {
	queue    string
	name     quota.Resource
	borrowed bool
}

// treeProblem is the part of a problem that only a tree of queues needs. It stays empty if the queues are flat.
type treeProblem struct {
	// mayUse is what the queue of the pending pods may use by level, by pool. The first pool
	// has no limit.
	mayUse []quota.MayUse
	// lacksQuota is set for a pool of which an ancestor has not enough left. Then victims help
	// on any node.
	lacksQuota []bool
	// lacksInventory is set for a pool of which the inventory has not enough left beside what is
	// guaranteed to others. Then victims do not help on nodes that take no pods, or that do not offer
	// their cards: no card of the inventory becomes free with them.
	lacksInventory []bool
	// takeLimits are the indexes of the problem's limits.
	takeLimits map[takeKey]int
	// victimLevel is up to which level victims may be evicted.
	victimLevel int
}

// addPool adds a pool with what the queue of the pending pods may use of a name. In a tree, the
// queue must stay within what it deserves, because no queue evicts in order to borrow.
func (s *problemBuilder) addPool(q *problem, queue api.QueueID, name quota.Resource) int {
	pool := len(q.input.Quotas)
	q.pools[name] = pool
	if !s.plugin.IsTree() {
		q.input.Quotas = append(q.input.Quotas, flatQuota(int64(s.plugin.Rules.FreeQuota(queue, name.Card()))))
		return pool
	}

	m := s.plugin.Ledger.MayUseByLevel(string(queue), name)
	q.tree.mayUse = append(q.tree.mayUse, m)
	q.input.Quotas = append(q.input.Quotas, solver.Quota{Levels: make([]int64, len(m.Quota))})
	return pool
}

// ignoreDeserved lets only quotas limit a pool: CPU or memory that is not reclaimed, but that
// victims free as well.
func (t *treeProblem) ignoreDeserved(pool int) {
	for i := range t.mayUse[pool].Deserved {
		t.mayUse[pool].Deserved[i] = quota.Unlimited
	}
}

// flatQuota returns a quota that only the queue itself limits.
func flatQuota(free int64) solver.Quota { return solver.Quota{Levels: []int64{free}} }

// limitLevels sets what the pending pods may use at each level while victims up to a level may
// be evicted. Below that level no queue of the path may borrow, so that no other subtree is
// evicted in order to lend to it.
func (q *problem) limitLevels(level int) {
	q.tree.victimLevel = level
	for pool, m := range q.tree.mayUse {
		requested := q.requestedOf(pool)
		for i := range m.Quota {
			may := m.Limit(i, requested, level)
			if i < level {
				may = min(may, m.Deserved[i])
			}
			q.input.Quotas[pool].Levels[i] = may
		}
	}
}

// findLackingQuotas finds the pools of which the queues on the path have less left than the
// pending pods use, so that evictions are needed even if cards are free.
func (q *problem) findLackingQuotas() {
	q.tree.lacksQuota = make([]bool, len(q.input.Quotas))
	q.tree.lacksInventory = make([]bool, len(q.input.Quotas))
	for pool, m := range q.tree.mayUse {
		requested := q.requestedOf(pool)
		// Evictions in other queues release nothing of the first level, the queue's own quota.
		for i := 1; i < len(m.Quota); i++ {
			isLacking := min(m.Limit(i, requested, i), m.Deserved[i]) < requested
			q.tree.lacksQuota[pool] = q.tree.lacksQuota[pool] || isLacking
			q.tree.lacksInventory[pool] = isLacking // the last one is root
		}
	}
}

// lacksInventoryOf returns lacksInventory of a pool. It is false if the queues are flat.
func (t *treeProblem) lacksInventoryOf(pool int) bool {
	return t.lacksInventory != nil && t.lacksInventory[pool]
}

// requestedOf returns how much of a pool all pending pods use at most.
func (q *problem) requestedOf(pool int) (requested int64) {
	for i := range q.input.PodSets {
		requested = quota.AddSaturating(requested, q.usedBy(&q.input.PodSets[i], pool))
	}
	return requested
}

// usedBy returns how much of a pool the pods of a pod set use at most.
func (q *problem) usedBy(podSet *solver.PodSet, pool int) int64 {
	uses := podSet.Cards
	for _, use := range podSet.Uses {
		if use.Quota == pool {
			uses = use.Amount
		}
	}
	return quota.MultiplySaturating(uses, int64(podSet.Count))
}

// solveWithVictims returns the best plan with victims, nil if there is none. In a tree it tries
// the victims of siblings first, then adds those of one more level after the other.
func (s *problemBuilder) solveWithVictims(q *problem, all bool) *solver.Plan {
	reclaimer := s.firstReclaimer(q.podSets)
	if reclaimer < 0 {
		// No pod may have victims, but some may fit without.
		return q.solve(&s.budget, all)
	}

	victimJobs := s.victims.victimJobsFor(q.podSets[reclaimer].tasks[0])
	if !s.plugin.IsTree() {
		s.addVictimJobs(q, victimJobs)
		return q.solve(&s.budget, all)
	}

	q.findLackingQuotas()
	// Pods on any node can release the quota of an ancestor, so a change anywhere is worth another
	// search.
	s.scope.everywhere = s.scope.everywhere || slices.Contains(q.tree.lacksQuota, true)

	byLevel := map[int][]*victimJob{}
	for _, g := range victimJobs {
		byLevel[g.level] = append(byLevel[g.level], g)
	}

	levels := sets.List(sets.KeySet(byLevel))
	if len(levels) == 0 {
		// Some of the pods may fit without victims.
		levels = []int{1}
	}

	for i, level := range levels {
		added := s.addVictimJobs(q, byLevel[level])
		if !added && i < len(levels)-1 {
			continue
		}

		q.limitLevels(level)
		if plan := q.solve(&s.budget, all); plan != nil || s.jobExhausted() {
			return plan
		}
	}

	return nil
}

// findInTree sets where the queue of a victim job is, seen from that of a reclaiming job. It is
// the queue that is charged for the job's pods. It returns false if that is the reclaimer's own
// queue, or not the same for all of them, after the job moved to another queue.
func (s *victimFinder) findInTree(reclaimer *api.JobInfo, g *victimJob) bool {
	queue := s.plugin.VictimQueue(g.tasks[0])
	if queue == reclaimer.Queue || slices.ContainsFunc(g.tasks, func(task *api.TaskInfo) bool { return s.plugin.VictimQueue(task) != queue }) {
		return false
	}
	g.level = s.plugin.Level(reclaimer.Queue, queue)
	g.path = s.plugin.PathBelow(reclaimer.Queue, queue)
	return true
}

// limitVictimJob sets what the eviction of a job releases, and against which limits it counts.
// isUseful is set if it frees resources where they are needed. It reports whether the job helps.
func (s *problemBuilder) limitVictimJob(q *problem, g *victimJob, shape *solver.Job, isUseful bool) bool {
	shape.Level = g.level
	usesNeeded := slices.ContainsFunc(g.tasks, func(task *api.TaskInfo) bool { return q.needsCardsOf(s.plugin.Ledger.Charged(string(task.UID))) })
	for i, task := range g.tasks {
		charge := s.plugin.Ledger.Charged(string(task.UID))
		pod := &shape.Pods[i]
		if charge == nil {
			continue
		}

		pod.Releases = q.releasesOf(charge)
		for _, release := range pod.Releases {
			isUseful = isUseful || q.tree.lacksQuota[release.Quota]
		}

		pod.OnlyCounts = !g.byTree[i]
		takes, may := s.takesOf(q, g, i, charge, usesNeeded)
		pod.Takes = takes
		if !may {
			pod.Protected = true
			shape.Whole = false
		}
	}

	return isUseful && (shape.Whole || slices.ContainsFunc(shape.Pods, func(pod solver.Pod) bool { return !pod.Protected }))
}

// needsCardsOf reports whether the pending pods could use cards of a charge.
func (q *problem) needsCardsOf(charge *quota.Charge) bool {
	return charge != nil && slices.ContainsFunc(charge.Cards, func(c card.Amount) bool { return q.pools[quota.Resource(c.Name)] > 0 })
}

// releasesOf returns what the pools get back with a charge.
func (q *problem) releasesOf(charge *quota.Charge) []solver.QuotaAmount {
	var releases []solver.QuotaAmount
	for name, amount := range charge.Amounts() {
		pool := q.pools[name]
		isInVain := q.tree.lacksInventoryOf(pool) && !charge.IsInInventory(name)
		if pool > 0 && !isInVain {
			releases = append(releases, solver.QuotaAmount{Quota: pool, Amount: amount})
		}
	}

	return releases
}

// takesOf returns the limits that a victim counts against. It is false if one of them allows no
// eviction of it at all. usesNeeded is set if the pod's job uses cards that are needed. A victim
// by the matrix uses up what its queues have borrowed, so that the tree does not take that too.
func (s *problemBuilder) takesOf(q *problem, g *victimJob, i int, charge *quota.Charge, usesNeeded bool) (takes []solver.TakeAmount, may bool) {
	may = true
	add := func(name quota.Resource, amount int64, borrowed bool) {
		for _, queue := range g.path {
			limit, most := s.takeLimitFor(q, takeKey{queue, name, borrowed}, amount)
			takes = append(takes, solver.TakeAmount{Limit: limit, Amount: amount})
			may = may && allowsTake(most, amount, borrowed, g.byTree[i])
		}
	}

	// By whatever rule a pod is a victim, its queues keep their guarantees.
	for name, amount := range charge.Amounts() {
		if name.IsCard() || s.plugin.ReclaimsAll() {
			add(name, amount, false)
		}
	}

	names, allowed := s.borrowedNames(q, g, charge, usesNeeded)
	for _, name := range names {
		add(name, charge.Amount(name), true)
	}

	return takes, may && (allowed || !g.byTree[i])
}

// allowsTake reports whether a limit allows the eviction of a victim of an amount. That of what is
// borrowed may be less than the amount, and counts only for a victim by the tree.
func allowsTake(most, amount int64, borrowed, byTree bool) bool {
	if borrowed {
		return most > 0 || !byTree
	}
	return most > 0 && most >= amount
}

// borrowedNames returns of which names the victim's queues must use more than they deserve, so
// that a pod may be evicted by the tree: of its cards that are needed. If only CPU and memory are
// needed, it is the cards that the pod uses, and CPU or memory. It is false if the queues use
// no more than they deserve of either.
func (s *problemBuilder) borrowedNames(q *problem, g *victimJob, charge *quota.Charge, usesNeeded bool) (names []quota.Resource, may bool) {
	for _, c := range charge.Cards {
		if name := quota.Resource(c.Name); c.Count > 0 && (!usesNeeded || q.pools[name] > 0) {
			names = append(names, name)
		}
	}

	if usesNeeded || !s.plugin.ReclaimsAll() {
		return names, true
	}

	for _, name := range quota.Compute {
		isAbove := func(queue string) bool { return s.plugin.Ledger.AboveDeserved(queue, name) > 0 }
		if charge.Amount(name) > 0 && !slices.ContainsFunc(g.path, func(queue string) bool { return !isAbove(queue) }) {
			return append(names, name), true
		}
	}

	return names, false
}

// takeLimitFor returns the index of a limit in the problem, and the most that may be taken. It
// adds a victim of an amount to what the search looked at.
func (s *problemBuilder) takeLimitFor(q *problem, key takeKey, amount int64) (index int, most int64) {
	index, known := q.tree.takeLimits[key]
	if !known {
		index = len(q.input.TakeLimits)
		q.tree.takeLimits[key] = index
		q.input.TakeLimits = append(q.input.TakeLimits, solver.TakeLimit{Most: s.mostTaken(key), Borrowed: key.borrowed})
	}
	most = q.input.TakeLimits[index].Most
	s.scope.addTake(key, most, amount)
	return index, most
}

// mostTaken returns the most that may be taken by a limit.
func (s *searchSession) mostTaken(key takeKey) int64 {
	if key.borrowed {
		return max(0, s.plugin.Ledger.AboveDeserved(key.queue, key.name))
	}
	return max(0, s.plugin.Ledger.AboveGuarantee(key.queue, key.name))
}

// reclaimedNames returns what is reclaimed with a charge, which may be nil.
func (s *problemBuilder) reclaimedNames(charge *quota.Charge) (names []quota.Resource) {
	if charge == nil {
		return nil
	}

	for name := range charge.Amounts() {
		if name.IsCard() || s.plugin.ReclaimsAll() {
			names = append(names, name)
		}
	}

	return names
}

// borrowersOf returns the queues that lose cards with a plan and use more of them than they
// deserve, with the names of those cards. If CPU and memory are reclaimed too, it has these as well.
func (s *problemBuilder) borrowersOf(q *problem, plan *solver.Plan) map[string][]quota.Resource {
	borrowers := map[string][]quota.Resource{}
	for _, victims := range plan.Victims {
		g := q.victimJobs[victims.Job]
		for _, task := range g.tasks {
			for _, name := range s.reclaimedNames(s.plugin.Ledger.Charged(string(task.UID))) {
				for _, queue := range g.path {
					if !slices.Contains(borrowers[queue], name) && s.plugin.Ledger.AboveDeserved(queue, name) > 0 {
						borrowers[queue] = append(borrowers[queue], name)
					}
				}
			}
		}
	}

	return borrowers
}
