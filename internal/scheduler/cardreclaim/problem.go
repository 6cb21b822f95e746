package cardreclaim

// This file puts the search for nodes and victims as a problem to package solver, which knows only amounts and indexes.
// addWork and addPairWork count work, which a budget bounds.

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// problem is a problem for the solver, and the objects behind its indexes. A pool is the index of a quota of the
// problem: of a card name, of CPU or of memory. Pool 0 has no limit.
type problem struct {
	input   solver.Problem
	podSets []*podSet
	// victimJobs are the jobs of input, in the same order.
	victimJobs []*victimJob
	// pools are the pools by name.
	pools map[quota.Resource]int
	tree  treeProblem

	dimensions dimensions
	// wantedNodes reports which nodes any of the pod sets could run on. cardResources are the
	// card resources that they request.
	wantedNodes   []bool
	cardResources map[string]bool
}

// problemBuilder puts the choice of nodes and victims as a problem to the solver.
type problemBuilder struct {
	*searchSession
	victims *victimFinder
	finder  *nodeFinder
}

// newProblem returns a problem with the pending pods of a job, and with what is free for them on nodes and in quotas.
// It has no victims yet. It is incomplete if the job's budget ends, which then solves no problem any more.
func (b *problemBuilder) newProblem(job *api.JobInfo, podSets []*podSet) *problem {
	p := &problem{
		podSets: podSets, dimensions: dimensionsOf(podSets), wantedNodes: make([]bool, len(b.nodes)+1), cardResources: map[string]bool{},
		pools: map[quota.Resource]int{}, tree: treeProblem{mayUse: make([]quota.Levels, 1), takeLimits: map[takeKey]int{}},
	}

	b.addWork(len(podSets) * p.dimensions.count)
	// One more stands for all nodes that the session does not have, see indexOfNode.
	p.input.Nodes = make([]solver.Node, len(b.nodes)+1)

	// Pool 0 is for nodes on which no card is requested, or cards of
	// several names. There the plugin checks the quota when a pod is placed.
	p.input.Quotas = []solver.Quota{{Levels: []int64{int64(card.MaxCount)}}}

	cardsOnNodes := make([]card.Name, len(b.nodes)+1)
	// What is kept from the first pod is kept from all, so what is free for it is the most that any may use.
	first := firstByPriority(podSets)
	for at := range podSets {
		if b.jobExhausted() {
			break
		}
		b.addPodSet(p, job.Queue, at, first, cardsOnNodes)
	}

	// Nothing is free for these pods where none of them could run.
	b.addWork(len(p.input.Nodes))
	for i := range p.input.Nodes {
		if !p.wantedNodes[i] {
			p.input.Nodes[i].Free = make(solver.Amounts, p.dimensions.count)
		}
	}

	p.limitLevels(1) // the victims of sibling queues; solveWithVictims sets the level of others

	return p
}

// addPodSet adds the at-th pod set to a problem, with what is free on its nodes and the pools of their cards.
// first is the pod for which that is free. cardsOnNodes are the cards that the pod sets before it use, by node.
func (b *problemBuilder) addPodSet(p *problem, queue api.QueueID, at int, first *api.TaskInfo, cardsOnNodes []card.Name) {
	set := p.podSets[at]
	nodes := b.finder.nodesOf(set)
	b.addWork(workPerNode * len(nodes))
	podSet := solver.PodSet{Request: p.dimensions.requestOf(at, set), Cards: int64(set.request.Count), Count: len(set.tasks), Nodes: nodes}
	// With flat queues, mayReclaimCPUMemory has checked CPU and memory: no victim of another queue frees them.
	if b.IsTree() {
		podSet.Uses = b.usesOf(p, queue, &set.request)
	}

	// What is free on a node, and the pool of its card, are needed only where some pod set could run.
	for _, i := range nodes {
		if !p.wantedNodes[i] {
			p.wantedNodes[i] = true
			p.input.Nodes[i].Free = b.freeOn(p, first, b.nodes[i], i)
		}

		name, _ := b.CardOn(set.tasks[0], b.nodes[i].Name)
		pool, known := p.pools[quota.Resource(name)]
		if !known && name != "" {
			pool = b.addPool(p, queue, quota.Resource(name))
		}
		p.setNodePool(i, pool, name, cardsOnNodes)
	}

	if set.request.Count > 0 {
		p.cardResources[string(b.RequestFor(set.tasks[0]).Resource)] = true
	}

	p.input.PodSets = append(p.input.PodSets, podSet)
}

// setNodePool sets the pool of a node to that of a card that pods use there. A node on which pods use cards of several
// names gets pool 0. known are the cards that pods of earlier pod sets use, by node; the name is added.
func (p *problem) setNodePool(node, pool int, name card.Name, known []card.Name) {
	switch {
	case name == "" || name == known[node]:
	case known[node] == "":
		p.input.Nodes[node].Quota = pool
		known[node] = name
	default:
		p.input.Nodes[node].Quota = 0
	}
}

// addVictimJobs adds the useful ones of some victim jobs to a problem: jobs that use what is needed on a node
// that a pending pod could run on. In a tree, also jobs that release needed quota are useful. It reports
// whether it added any.
func (b *problemBuilder) addVictimJobs(p *problem, victimJobs []*victimJob) (added bool) {
	for _, victim := range victimJobs {
		if b.jobExhausted() {
			break
		}

		solverJob := victim.solverJob
		isUseful := false
		// Each problem has usages and limits of its own, so it gets a copy of what all of them share.
		solverJob.Pods = slices.Clone(victim.solverJob.Pods)
		for i, task := range victim.tasks {
			solverJob.Pods[i].Usage = b.usageOf(p, task)
			usesNeeded := b.usesNeeded(p, task)
			// A pod that uses nothing needed is evicted only with its whole job.
			if !usesNeeded {
				solverJob.Pods[i].Protected = true
			}
			isUseful = isUseful || (usesNeeded && p.wantedNodes[solverJob.Pods[i].Node])
		}

		if b.IsTree() {
			isUseful = b.limitVictimJob(p, victim, &solverJob, isUseful)
		}

		if isUseful {
			p.input.Jobs = append(p.input.Jobs, solverJob)
			p.victimJobs = append(p.victimJobs, victim)
			added = true
		}
	}
	return added
}

// solve returns the best plan that places all pods or, unless allOrNone is set, as many as possible. It returns nil if
// it finds none within a budget. After a plan for fewer pods, the problem is left with their counts.
func (p *problem) solve(budget *budget, allOrNone bool) *solver.Plan {
	if plan := budget.solveProblem(&p.input); plan != nil || allOrNone {
		return plan
	}

	// Bisection finds the largest count of a pod set that has a plan, for one pod set after
	// the other. The pod sets after it have no pods meanwhile.
	counts := make([]int, len(p.input.PodSets))
	for i := range p.input.PodSets {
		counts[i] = p.input.PodSets[i].Count
		p.input.PodSets[i].Count = 0
	}

	var best *solver.Plan
	for i := range counts {
		low := 0
		high := counts[i]
		for low < high {
			p.setCount(i, (low+high+1)/2)
			if plan := budget.solveProblem(&p.input); plan != nil {
				low = p.input.PodSets[i].Count
				best = plan
			} else {
				high = p.input.PodSets[i].Count - 1
			}
		}
		p.setCount(i, low)
	}

	if best == nil { // the caller solves the problem again with more victims
		for i := range counts {
			p.setCount(i, counts[i])
		}
	}

	return best
}

// setCount sets how many pods of a pod set are to be placed, and what all pods may use then. That depends on the count:
// the unused guarantees of their queue cover all pods or none, so they may cover fewer.
func (p *problem) setCount(i, count int) {
	p.input.PodSets[i].Count = count
	p.limitLevels(p.tree.victimLevel)
}

// dimensions are the indexes of solver.Amounts: CPU, memory, pods of a node, and other
// resources. Then follows one for each pod set of which a node accepts only so many pods, whatever it has free: each of
// these pods uses 1 of it.
type dimensions struct {
	resources []corev1.ResourceName
	// limited are the indexes of those pod sets, by pod set, -1 for the others.
	limited []int
	// count is the number of indexes.
	count int
}

// Indexes of what every node has.
const (
	cpu = iota
	memory
	podsOfNode
	others
)

// dimensionsOf returns the dimensions of a problem with some pod sets: what every node has, the other
// resources that they request, and one for each pod set of which a node accepts only so many pods.
func dimensionsOf(podSets []*podSet) dimensions {
	d := dimensions{limited: make([]int, len(podSets))}
	known := map[corev1.ResourceName]bool{}
	for _, set := range podSets {
		for name, quantity := range set.tasks[0].InitResreq.ScalarResources {
			if quantity > 0 && !api.IsIgnoredScalarResource(name) && !known[name] {
				known[name] = true
				d.resources = append(d.resources, name)
			}
		}
	}

	// Equal sessions have equal problems, whatever the order of maps.
	slices.Sort(d.resources)
	d.count = others + len(d.resources)
	for i, set := range podSets {
		d.limited[i] = -1
		if set.isAlone || set.maxSkew > 0 || len(set.maxByNode) > 0 {
			d.limited[i] = d.count
			d.count++
		}
	}

	return d
}

// amountsOf returns Volcano's resources by dimension, 0 for the number of pods and for limited pod sets.
func (d *dimensions) amountsOf(r *api.Resource) solver.Amounts {
	amounts := make(solver.Amounts, d.count)
	amounts[cpu] = r.MilliCPU
	amounts[memory] = r.Memory
	for i, name := range d.resources {
		amounts[others+i] = r.ScalarResources[name]
	}
	return amounts
}

// requestOf returns what each pod of the i-th pod set needs, by dimension. One pod is one of the node's pods, and one of
// its own pod set if that is limited.
func (d *dimensions) requestOf(i int, set *podSet) solver.Amounts {
	request := d.amountsOf(set.tasks[0].InitResreq)
	request[podsOfNode] = 1
	if at := d.limited[i]; at >= 0 {
		request[at] = 1
	}
	return request
}

// usageOf returns what a node gets back when a pod is gone: its resources, its place among the node's pods, and the
// places of pods that conflict with it.
func (b *problemBuilder) usageOf(p *problem, task *api.TaskInfo) solver.Amounts {
	usage := p.dimensions.amountsOf(task.Resreq)
	b.addWork(p.dimensions.count)
	usage[podsOfNode] = 1
	b.forEachConflict(p, task, func(at int) { usage[at] = 1 })
	return usage
}

// firstByPriority returns a pod of the highest task priority. What is kept from it is kept from all
// others.
func firstByPriority(podSets []*podSet) (first *api.TaskInfo) {
	for _, set := range podSets {
		for _, task := range set.tasks {
			if first == nil || task.Priority > first.Priority {
				first = task
			}
		}
	}
	return first
}

// freeOn returns what a node has free, or will have once terminating pods are gone, without the cards that are kept for
// others than a pending pod. index is that of the node.
func (b *problemBuilder) freeOn(p *problem, pending *api.TaskInfo, node *api.NodeInfo, index int) solver.Amounts {
	left := p.dimensions.amountsOf(b.kept.IdleFor(pending, node))
	b.addWork(p.dimensions.count)

	left[podsOfNode] = float64(node.Allocatable.MaxTaskNum)
	// A pod set of which nodes accept only so many pods has a dimension for that, the others have -1.
	for i, set := range p.podSets {
		if at := p.dimensions.limited[i]; at >= 0 {
			left[at] = float64(set.maxOnNode(index))
		}
	}

	for _, task := range node.Tasks {
		// The pending pods start only once terminating pods are gone.
		if task.Status == api.Releasing {
			continue
		}
		left[podsOfNode]--
		// No pod of a set fits beside a pod that conflicts with the set.
		b.forEachConflict(p, task, func(at int) { left[at]-- })
	}

	return left
}

// forEachConflict calls a function with the dimension of every pod set of which no pod can run beside a pod. Only pod
// sets whose pods conflict with each other have such a dimension.
func (b *problemBuilder) forEachConflict(p *problem, task *api.TaskInfo, call func(at int)) {
	for i, set := range p.podSets {
		if !set.isAlone || b.jobExhausted() {
			continue
		}
		b.addPairWork(set.tasks[0].Pod, task.Pod)
		if workload.ConflictOnNode(set.tasks[0].Pod, task.Pod) {
			call(p.dimensions.limited[i])
		}
	}
}

// usesNeeded reports whether a running pod uses what the pending pods need, so that it may be evicted alone for them:
// cards that they request. If CPU and memory are reclaimed too, that may also be a pod without cards,
// or any pod if the pending pods request no cards.
func (b *problemBuilder) usesNeeded(p *problem, task *api.TaskInfo) bool {
	request := b.RequestFor(task)
	if p.cardResources[string(request.Resource)] {
		return true
	}
	return b.ReclaimsAll() && (request.Count == 0 || len(p.cardResources) == 0)
}

// usesOf returns what each pod of a request uses of the quotas of CPU and memory, by pool. It adds the pools to the
// problem if they are new.
func (b *problemBuilder) usesOf(p *problem, queue api.QueueID, request *quota.Request) []solver.QuotaAmount {
	var uses []solver.QuotaAmount
	for _, name := range quota.Compute {
		amount := request.Amount(name)
		if amount <= 0 {
			continue
		}

		pool, known := p.pools[name]
		if !known {
			pool = b.addPool(p, queue, name)
			if !b.ReclaimsAll() {
				// Only what is reclaimed must be deserved. CPU and memory that are not may be borrowed.
				p.tree.ignoreDeserved(pool)
			}
		}
		uses = append(uses, solver.QuotaAmount{Quota: pool, Amount: amount})
	}

	return uses
}

// solveWithVictims adds the victim jobs to a problem and returns the best plan, nil if it finds none. In a tree it tries
// the victims of siblings first, then adds those of one more level after the other. In flat queues all have one level.
func (b *problemBuilder) solveWithVictims(p *problem, allOrNone bool) *solver.Plan {
	reclaimer := b.firstReclaimer(p.podSets)
	if reclaimer < 0 {
		// No pod may have victims, but some may fit without.
		return p.solve(&b.budget, allOrNone)
	}

	victimJobs := b.victims.victimJobsFor(p.podSets[reclaimer].tasks[0])
	p.findLackingQuotas()
	// Pods on any node can release the quota of an ancestor, so a change anywhere is worth another
	// search.
	b.scope.everywhere = b.scope.everywhere || slices.Contains(p.tree.lacksQuota, true)

	byLevel := map[int][]*victimJob{}
	for _, victim := range victimJobs {
		byLevel[victim.level] = append(byLevel[victim.level], victim)
	}

	levels := sets.List(sets.KeySet(byLevel))
	if len(levels) == 0 { // some pods may fit without victims
		levels = []int{1}
	}

	for i, level := range levels {
		added := b.addVictimJobs(p, byLevel[level])
		// A level without useful victims is left out, except the last one: some of the pods may fit without victims.
		if !added && i < len(levels)-1 {
			continue
		}

		p.limitLevels(level)
		if plan := p.solve(&b.budget, allOrNone); plan != nil || b.jobExhausted() {
			return plan
		}
	}

	return nil
}
