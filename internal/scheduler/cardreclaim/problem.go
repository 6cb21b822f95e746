package cardreclaim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// problem is a problem for the solver, and the objects behind its indexes.
type problem struct {
	input   solver.Problem
	podSets []*podSet
	// victimJobs are the jobs of input, in the same order.
	victimJobs []*victimJob
	// pools are the indexes of the quotas of input, by name.
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

// newProblem returns a problem with the pending pods and what is free for them. It is
// incomplete if the budget ends.
func (s *problemBuilder) newProblem(job *api.JobInfo, podSets []*podSet) *problem {
	dims := dimensionsOf(podSets)
	q := &problem{
		podSets: podSets, dimensions: dims, wantedNodes: make([]bool, len(s.nodes)+1), cardResources: map[string]bool{},
		pools: map[quota.Resource]int{}, tree: treeProblem{mayUse: make([]quota.MayUse, 1), takeLimits: map[takeKey]int{}},
	}

	s.addWork(len(podSets) * dims.count)
	// One more stands for all nodes that the session does not have, see indexOfNode.
	q.input.Nodes = make([]solver.Node, len(s.nodes)+1)

	// The first quota has no limit. It is for nodes on which no card is requested, or cards of
	// several names. There the plugin checks the quota when a pod is placed.
	q.input.Quotas = []solver.Quota{flatQuota(int64(card.MaxCount))}

	names := make([]card.Name, len(s.nodes)+1)
	first := firstByPriority(podSets)
	for place, c := range podSets {
		if s.jobExhausted() {
			break
		}

		nodes := s.finder.nodesOf(c)
		s.addWork(workPerNode * len(nodes))
		podSet := solver.PodSet{Request: dims.requestOf(place, c), Cards: int64(c.request.Count), Count: len(c.tasks), Nodes: nodes}
		if s.plugin.IsTree() {
			podSet.Uses = s.usesOf(q, job.Queue, &c.request)
		}

		for _, i := range nodes {
			if !q.wantedNodes[i] {
				q.wantedNodes[i] = true
				q.input.Nodes[i].Free = s.freeOn(q, first, s.nodes[i], i)
			}

			name, _ := s.plugin.CardOn(c.tasks[0], s.nodes[i].Name)
			pool, known := q.pools[quota.Resource(name)]
			if !known && name != "" {
				pool = s.addPool(q, job.Queue, quota.Resource(name))
			}
			q.setNodePool(i, pool, name, names)
		}

		if c.request.Count > 0 {
			q.cardResources[string(s.plugin.RequestFor(c.tasks[0]).Resource)] = true
		}

		q.input.PodSets = append(q.input.PodSets, podSet)
	}

	s.addWork(len(q.input.Nodes))
	for i := range q.input.Nodes {
		if !q.wantedNodes[i] {
			q.input.Nodes[i].Free = make(solver.Amounts, dims.count)
		}
	}

	q.limitLevels(1)

	return q
}

// setNodePool sets the quota of a node to the pool of a card that pods use there. A node on which
// they use several has the first quota. names are the cards so far, by node.
func (q *problem) setNodePool(node, pool int, name card.Name, names []card.Name) {
	switch {
	case name == "" || name == names[node]:
	case names[node] == "":
		q.input.Nodes[node].Quota = pool
		names[node] = name
	default:
		q.input.Nodes[node].Quota = 0
	}
}

// addVictimJobs adds those of some jobs that use what is needed on a wanted node. In a tree, it
// also adds those that release quota that is needed. It reports whether it added any.
func (s *problemBuilder) addVictimJobs(q *problem, victimJobs []*victimJob) (added bool) {
	for _, g := range victimJobs {
		if s.jobExhausted() {
			break
		}

		shape := g.solverJob
		isUseful := false
		// Each problem has usages and limits of its own, and the victim job serves all of them.
		shape.Pods = slices.Clone(g.solverJob.Pods)
		for i, task := range g.tasks {
			shape.Pods[i].Usage = s.usageOf(q, task)
			usesNeeded := s.usesNeeded(q, task)
			// A pod that uses nothing needed goes only with its whole job.
			if !usesNeeded {
				shape.Pods[i].Protected = true
			}
			isUseful = isUseful || (usesNeeded && q.wantedNodes[shape.Pods[i].Node])
		}

		if s.plugin.IsTree() {
			isUseful = s.limitVictimJob(q, g, &shape, isUseful)
		}

		if isUseful {
			q.input.Jobs = append(q.input.Jobs, shape)
			q.victimJobs = append(q.victimJobs, g)
			added = true
		}
	}
	return added
}

// solve returns the best plan that places all pods, or as many as possible, within a budget.
// It returns nil if there is none.
func (p *problem) solve(budget *budget, all bool) *solver.Plan {
	if plan := budget.solveProblem(&p.input); plan != nil || all {
		return plan
	}

	// Bisection finds the largest count of a pod set that has a plan, for one pod set after
	// the other.
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

	if best == nil { // the problem is solved again with more victims
		for i := range counts {
			p.setCount(i, counts[i])
		}
	}

	return best
}

// setCount sets how many pods of a pod set are to be placed. Fewer pods may fit the unused guarantees of
// their queue, which cover all pods or none.
func (p *problem) setCount(i, count int) {
	p.input.PodSets[i].Count = count
	p.limitLevels(p.tree.victimLevel)
}

// dimensions are the indexes of solver.Amounts: CPU, memory, pods of a node, and other
// resources. Then follows one for each pod set of which a node accepts only so many pods.
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

func dimensionsOf(podSets []*podSet) dimensions {
	d := dimensions{limited: make([]int, len(podSets))}
	known := map[corev1.ResourceName]bool{}
	for _, c := range podSets {
		for name, quantity := range c.tasks[0].InitResreq.ScalarResources {
			if quantity > 0 && !api.IsIgnoredScalarResource(name) && !known[name] {
				known[name] = true
				d.resources = append(d.resources, name)
			}
		}
	}

	// Equal sessions have equal problems, whatever the order of maps.
	slices.Sort(d.resources)
	d.count = others + len(d.resources)
	for i, c := range podSets {
		d.limited[i] = -1
		if c.isAlone || c.maxSkew > 0 || len(c.maxByNode) > 0 {
			d.limited[i] = d.count
			d.count++
		}
	}

	return d
}

// amountsOf converts resources.
func (d *dimensions) amountsOf(r *api.Resource) solver.Amounts {
	amounts := make(solver.Amounts, d.count)
	amounts[cpu] = r.MilliCPU
	amounts[memory] = r.Memory
	for i, name := range d.resources {
		amounts[others+i] = r.ScalarResources[name]
	}
	return amounts
}

// requestOf returns what each pod of the i-th pod set needs.
func (d *dimensions) requestOf(i int, c *podSet) solver.Amounts {
	request := d.amountsOf(c.tasks[0].InitResreq)
	request[podsOfNode] = 1
	if at := d.limited[i]; at >= 0 {
		request[at] = 1
	}
	return request
}

// usageOf returns what a node gets back when a pod is gone.
func (s *problemBuilder) usageOf(q *problem, task *api.TaskInfo) solver.Amounts {
	usage := q.dimensions.amountsOf(task.Resreq)
	s.addWork(q.dimensions.count)
	usage[podsOfNode] = 1
	s.forEachConflict(q, task, func(at int) { usage[at] = 1 })
	return usage
}

// firstByPriority returns a pod of the highest task priority. What is kept from it is kept from all
// others.
func firstByPriority(podSets []*podSet) (first *api.TaskInfo) {
	for _, c := range podSets {
		for _, task := range c.tasks {
			if first == nil || task.Priority > first.Priority {
				first = task
			}
		}
	}
	return first
}

// freeOn returns what a node has free or will have, without what is kept from the first pod.
func (s *problemBuilder) freeOn(q *problem, first *api.TaskInfo, node *api.NodeInfo, place int) solver.Amounts {
	left := q.dimensions.amountsOf(s.plugin.Kept.IdleFor(first, node))
	s.addWork(q.dimensions.count)

	left[podsOfNode] = float64(node.Allocatable.MaxTaskNum)
	for i, c := range q.podSets {
		if at := q.dimensions.limited[i]; at >= 0 {
			left[at] = float64(c.maxOnNode(place))
		}
	}

	for _, task := range node.Tasks {
		// The pending pods start only once terminating pods are gone.
		if task.Status == api.Releasing {
			continue
		}
		left[podsOfNode]--
		s.forEachConflict(q, task, func(at int) { left[at]-- })
	}

	return left
}

// forEachConflict calls with the index of every pod set that conflicts with a pod on its node.
func (s *problemBuilder) forEachConflict(q *problem, task *api.TaskInfo, call func(at int)) {
	for i, c := range q.podSets {
		if !c.isAlone || s.jobExhausted() {
			continue
		}
		s.addPairWork(c.tasks[0].Pod, task.Pod)
		if workload.ConflictOnNode(c.tasks[0].Pod, task.Pod) {
			call(q.dimensions.limited[i])
		}
	}
}
