package main

// The rules of trees of queues that the observer has too: the amounts that count, the sums of a
// path, and what fits.
var treeMutants = []mutant{
	{"internal/quota/ledger.go", `			at.add(part)`, `			q.add(part)`, "a charge counts in every ancestor"},
	{"internal/quota/queueledger.go", `		q.unreclaimable.subtract(c)`, `		q.unreclaimable.subtract(&Charge{})`, "what cannot be reclaimed is given back in every ancestor"},
	{"internal/quota/queueledger.go", `		at.parent.unusedBelow[resource] += now - before`, `		at.parent.unusedBelow[resource] += min(0, now-before)`, "unused guarantees of the children add up"},
	{"internal/quota/queueledger.go", `max(below, guarantee-AddSaturating(q.used.amountOf(resource), more), 0)`, `max(guarantee-AddSaturating(q.used.amountOf(resource), more), 0)`, "a parent's unused guarantee is at least that of its children"},
	{"internal/quota/queueledger.go", `	if q.limits.IsHeld { // no queue could use`, `	if q.limits.IsHeld && more > 0 { // no queue could use`, "the unused guarantee of a held queue is not reserved"},
	{"internal/quota/check.go", `	if unused > 0 && grown > 0 && Add`, `	if unused > 0 && grown > 1 && Add`, "no request takes an unused guarantee of others"},
	{"internal/quota/check.go", `		change = at.unusedAfter(c.resource, more, change) - at.unused[c.resource]`, `		change = 0`, "a request may use the unused guarantees of its own path"},
	{"internal/quota/check.go", `		if unreclaimable > deserved {`, `		if unreclaimable > deserved+1 {`, "what cannot be reclaimed is never more than deserved"},
	{"internal/quota/treeresolve.go", `		if q.IsHeld && fault.Kind == NoFault {`, `		if q.IsHeld && at == name {`, "a stop policy holds the subtree"},
	{"internal/quota/treeresolve.go", `len(seen) > MaxDepth:`, `len(seen) > MaxDepth+1:`, "at most six queues are on a path"},
	{"internal/quota/treeresolve.go", `		case t.resolved[q.Parent] == nil:`, `		case t.resolved[q.Parent] == nil && at != name:
			return fault
		case t.resolved[q.Parent] == nil:`, "a missing parent closes everything below it"},
	{"internal/quota/treeresolve.go", `				children[i].guarantee[name] = min(children[i].guarantee[name], deserved)`, `				children[i].guarantee[name] = min(children[i].guarantee[name], deserved+9)`, "guarantees are cut to what is deserved before they are scaled"},
	{"internal/quota/treeresolve.go", `		scaled[i] = min(value, limit)
`, `		scaled[i] = value
`, "a child deserves at most what its parent does before it is scaled"},
	{"internal/quota/treeresolve.go", `	slices.SortStableFunc(order, func(a, b int) int { return remainders[b].Cmp(remainders[a]) })
`, ``, "the largest remainders get the whole cards"},
}

// The rules of the order of queues, of who may reclaim, and of what a queue enqueues. The tests of
// package quota compare them with an implementation of their own.
var treeOrderMutants = []mutant{
	{"internal/quota/queueorder.go", `	if (partA < 1) != (partB < 1) {`, `	if (partA < 1) && (partB < 1) {`, "a queue below what it deserves is before one above it"},
	{"internal/quota/queueorder.go", `		partA = shareA.borrowed
		partB = shareB.borrowed
`, ``, "above what is deserved the borrowed cards order queues"},
	{"internal/quota/queueorder.go", `averageFactor*q.averages[name])/weight)`, `averageFactor*q.averages[name]))`, "weights divide what is borrowed"},
	{"internal/quota/queueorder.go", `	for a != b && a.parent != b.parent {`, `	for a != b && a.parent == nil {`, "queues are compared below their lowest common ancestor"},
	{"internal/quota/queueorder.go", `		share = max(share, 1)
`, ``, "a queue that deserves no card is at what it deserves"},
	{"internal/quota/check.go", `used > deserved:`, `used > deserved+1:`, "a reclaimer stays within what it deserves"},
	{"internal/quota/reclaim.go", `	if requested <= at.Covered {`, `	if requested < at.Covered {`, "a reclaimer may use its own unused guarantee"},
	{"internal/quota/reclaim.go", `Quota: min(left, besideGuarantees), Covered: min(left, own)`, `Quota: left, Covered: min(left, own)`, "a reclaimer leaves the guarantees of others"},
	{"internal/quota/enqueue.go", `total > limit`, `total >= limit`, "CPU and memory may be used up"},
	{"internal/quota/enqueue.go", `requested > 0 && limit`, `limit`, "what is not asked for is not refused"},
	{"internal/quota/enqueue.go", `total > limit`, `total-requested > limit`, "CPU and memory never exceed their limits"},
	{"internal/quota/queueledger.go", `		if at.limits.AnyCard ||`, `		if (at.limits.AnyCard && at.parent != nil) ||`, "a queue without limits has room on a node"},
	{"internal/quota/queueledger.go", `	q.isShareKnown = false
	if len(c.Cards) > 0 {`, `	if len(c.Cards) > 0 {`, "a charge changes the order of queues"},
	{"internal/quota/treeledger.go", `			positions[at] = last
`, `			positions[at] = position{weight: last.weight}
`, "a deleted queue keeps its place while pods are charged to it"},
	{"internal/quota/check.go", `	case q.limits.lacksQuota(c.resource):`, `	case false:`, "a queue without quota deserves nothing"},
	{"internal/quota/enqueue.go", `	for at := q.parent; at != nil; at = at.parent {`, `	for at := q.parent; !at.isRoot; at = at.parent {`, "what is borrowed fits the inventory beside all reservations"},
	{"internal/quota/enqueue.go", `	if hasCards && c.queue.limits.AnyCard {`, `	if hasCards && false {`, "all cards of a queue without quota are borrowed"},
	{"internal/quota/check.go", `max(kept-c.usableKept(), 0)`, `kept`, "what is kept for a queue is not kept from it"},
}

// The rules of the order of flat queues, which the scenes of package capacitycard show.
var queueOrderMutants = []mutant{
	{"internal/scheduler/capacitycard/allocate.go", `a.Ledger.DominantShare(queue.Name) / float64(max(1, queue.Queue.Spec.Weight))`, `a.Ledger.DominantShare(queue.Name)`, "weights divide cards among flat queues"},
	{"internal/scheduler/capacitycard/allocate.go", `cmp.Compare(right.Queue.Spec.Priority, left.Queue.Spec.Priority); c != 0 {`, `cmp.Compare(right.Queue.Spec.Priority, left.Queue.Spec.Priority); c > 1 {`, "the weight does not come before the priority"},
}

// The rules of what is kept for a gang once a quota is lowered, which the scenes of package
// capacitycard show.
var loweredQuotaMutants = []mutant{
	{"internal/scheduler/keptcards/reclaimed.go", `		request := k.RequestFor(task)
		if !slices.ContainsFunc(request.Names`, `		request := k.RequestFor(task)
		if true || !slices.ContainsFunc(request.Names`, "a pod that lost its cards may use another one"},
	{"internal/scheduler/keptcards/reclaimed.go", `		for _, task := range others {`, `		for _, task := range others[:0] {`, "a pod that lost its cards still counts in its gang"},
}

// The rules of what may be taken from a queue, which package solver compares with an oracle.
var takeMutants = []mutant{
	{"internal/scheduler/solver/takes.go", `		case excess <= 0 || s.refusable[x.limit] == 0:`, `		case excess <= 0 || x.onlyCounts:`, "one plan takes by two rules only once what is borrowed"},
	{"internal/scheduler/solver/takes.go", `		case excess <= 0 || s.refusable[x.limit] == 0:`, `		case excess <= 0:`, "what is taken by the service types is not refused as what is borrowed, in the solver"},
}

// The bounds of the search for victims.
var solverSearchMutants = []mutant{
	{"internal/scheduler/solver/searchbyrank.go", `		m.allowSearchingAll()`, `		m.allowRefining()`, "a bound on a search cuts its refinement, not its first answer"},
	{"internal/scheduler/solver/refine.go", `	sharedSearchFactor = 8`, `	sharedSearchFactor = 1`, "a search tries more sets of victims that release quotas"},
	{"internal/scheduler/solver/bounds.go", `		if s.releases != nil && !wholly[j]`, `		if s.releases == nil && !wholly[j]`, "no search begins if elastic pods release too little"},
}

// The rules of reclaim and drain in a tree, which the scenes of package cardreclaim show.
var treeReclaimMutants = []mutant{
	{"internal/scheduler/cardreclaim/tree.go", `p.tree.lacksInventoryOf(pool) && !charge.IsInInventory(name)`, `false`, "victims on cordoned nodes release no guaranteed cards"},
	{"internal/scheduler/cardreclaim/problem.go", `	p.limitLevels(p.tree.victimLevel)`, `	_ = p.tree`, "a guarantee covers fewer pods if it does not cover all"},
	{"internal/scheduler/cardreclaim/problem.go", `		byLevel[victim.level] = append(byLevel[victim.level], victim)`, `		byLevel[1] = append(byLevel[1], victim)`, "victims of siblings come first"},
	{"internal/scheduler/cardreclaim/tree.go", `			if i < level {`, `			if i < 0 {`, "no subtree borrows cards that are reclaimed for it"},
	{"internal/scheduler/cardreclaim/searchsession.go", `	return max(0, s.Ledger.AboveGuarantee(key.queue, key.name))`, `	return max(1, s.Ledger.AboveGuarantee(key.queue, key.name)+1)`, "no victim is taken from a guarantee"},
	{"internal/scheduler/cardreclaim/searchsession.go", `		return max(0, s.Ledger.AboveDeserved(key.queue, key.name))`, `		return max(1, s.Ledger.AboveDeserved(key.queue, key.name)+1)`, "the tree takes only what is beyond what is deserved"},
	{"internal/scheduler/cardreclaim/tree.go", `		for _, queue := range victim.path {
			limit, most`, `		for _, queue := range victim.path[:1] {
			limit, most`, "every queue above a victim keeps its guarantee and what it deserves"},
	{"internal/scheduler/snapshot/checks.go", `&& s.Ledger.LimitsCards(string(r.Job.Queue))`, ``, "a queue without a quota takes no cards back"},
	{"internal/scheduler/snapshot/checks.go", `	return s.CheckWithin(r, r.Request.Request, s.WithinReclaimable())`, `	return s.CheckWithin(r, r.Request.Request, r.Within())`, "no queue evicts in order to borrow"},
	{"internal/scheduler/cardreclaim/tree.go", `		pod.OnlyCounts = !victim.byTree[i]
`, ``, "what is taken by the service types is not refused as what is borrowed"},
	{"internal/scheduler/capacitycard/treeorder.go", `	for node := queue; node.parent != nil; node = node.parent {`, `	for node := queue; node == queue; node = node.parent {`, "a placement changes the order of all queues of its tenant"},
	{"internal/scheduler/reclaimrules/drains.go", `range d.Cache.Tree.Path(string(queue)) {`, `range d.Cache.Tree.Path(string(queue))[:1] {`, "a stop policy drains the subtree"},
	{"internal/scheduler/actions/drain.go", `api.AllocatedStatus(task.Status) || workload.IsCritical(task.Pod):`, `api.AllocatedStatus(task.Status):`, "a drain leaves system-critical pods"},
	{"internal/scheduler/actions/drain.go", `		case !gang.IsOnNode(task.Status):
			return nil
`, `		case !gang.IsOnNode(task.Status):
`, "a drain takes whole jobs"},
}

// What fits once pods have ended.
var releaseMutants = []mutant{
	{"internal/quota/check.go", `c.count+change-changeByRelease)`, `more+change)`, "a pod that ends releases no guarantee of others to another pod"},
	{"internal/quota/check.go", `c.count+change-changeByRelease)`, `c.count+change)`, "a request may use the guarantee that a release opens"},
	{"internal/quota/check.go", `at.unusedAfter(c.resource, -released, changeByRelease)`, `at.unusedAfter(c.resource, -released, 0)`, "a release opens the guarantees of all ancestors together"},
	{"internal/quota/queueledger.go", `released.amount(resource) - released.offInventory[resource]`, `released.amount(resource)`, "a pod off the inventory releases nothing of it"},
}

// Cards that pods use and that their nodes do not offer.
var notOfferedMutants = []mutant{
	{"internal/workload/resolver.go", `			charge.NotOffered = notOffered(&charge, 0, inv, node, request.Resource)
`, ``, "withheld cards are not part of the inventory of a tree"},
	{"internal/scheduler/cache/charges.go", `!isSame || isOffered != (len(state.Charge.NotOffered) == 0)`, `!isSame || (isOffered && len(state.Charge.NotOffered) > 0)`, "a charge leaves the inventory when its node withholds its cards"},
	{"internal/quota/queueledger.go", `	return c.inInventory()`, `	return c`, "what nodes do not offer is not charged against the inventory"},
}

// The rules of the pauses of a queue that lost what it had borrowed.
var borrowStopMutants = []mutant{
	{"internal/scheduler/reclaimrules/borrowstop.go", `min(2*s.cooldown, maxBorrowCooldown)`, `s.cooldown`, "a queue that loses again what it borrowed again waits longer"},
	{"internal/scheduler/reclaimrules/borrowstop.go", `	case s.isForgotten(now):
		cooldown = borrowCooldown
`, `	case s.cooldown == 0:
		cooldown = borrowCooldown
`, "an old reclaim makes no pause longer"},
	{"internal/scheduler/reclaimrules/borrowstop.go", `if isBorrowing && now.After(from) {`, `if now.After(from) {`, "a queue that could not borrow what it lost forgets no reclaim"},
}
