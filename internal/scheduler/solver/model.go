package solver

// This file lays a Problem out for the search. A unit is what is evicted in one step: one elastic pod, or a whole job.
// u is the index of a unit, and most other ints are indexes too. A jobNode is one job on one of its nodes.

import (
	"cmp"
	"math"
	"slices"
)

// model is a problem laid out for the search, with valid numbers. An amount that is NaN,
// wrongly negative, or for an unknown index frees nothing and fits nowhere.
type model struct {
	quotaLevels
	dims        int       // how many resources nodes have
	nodeFree    []float64 // by node and resource
	tolerances  []float64 // by resource: by how much requests may exceed what a node has
	nodeQuota   []int     // by node: the index of its quota
	podSets     []podSet
	order       []int // the pod sets, the hardest to place first
	jobs        []job
	pods        []pod
	jobNodes    []jobNode
	releases    [][]release // by unit, nil if no unit has any or counts against a limit
	releasable  []bool      // by quota: whether any unit releases some of it
	takes       [][]take    // by unit, nil like releases
	limits      []takeLimit
	roleElastic []int // by role of all jobs: how many pods are elastic
	units       []unit
	wantedNodes []bool         // by node: whether any pod set could run there
	unitsOn     [][]unitOnNode // by node: the units that free something there
	unitRanks   []int          // by unit, numbered from 0 without gaps
	currentRank int            // the rank that the search decides about
	preselected []bool         // by unit: already a victim when the choice begins
	budget
}

// unitOnNode is a unit that frees something on a node, and the jobNode of its job there.
type unitOnNode struct{ unit, jobNode int }

// podSet is a PodSet, and what the search often asks about it.
type podSet struct {
	PodSet
	wantsNode []bool // by node
	// needed are the resources that it requests, usually few of all.
	needed []neededResource
}

type neededResource struct {
	resource int
	amount   float64
}

// maxAmount bounds an amount of a resource. Sums of larger ones would not be exact.
const maxAmount = 1e18

// newModel lays out quotas, nodes and pod sets. addJobs follows when jobs are needed: most reclaimers fit without victims.
func newModel(p *Problem) *model {
	m := &model{dims: 1, nodeQuota: make([]int, len(p.Nodes))} // one resource always exists: the scarcest one
	m.maxShared = maxLevel / int64(1+countPods(p))
	m.addQuotas(p)
	m.subtractUses(p)
	for i := range p.PodSets {
		m.dims = max(m.dims, len(p.PodSets[i].Request))
	}
	for i := range p.Nodes {
		m.dims = max(m.dims, len(p.Nodes[i].Free))
	}

	// Amounts that a node or a request leaves out are 0.
	m.nodeFree = make([]float64, len(p.Nodes)*m.dims)
	m.tolerances = make([]float64, m.dims)
	for i, node := range p.Nodes {
		m.nodeQuota[i] = node.Quota
		for r, amount := range node.Free {
			m.nodeFree[i*m.dims+r] = m.boundAmount(r, amount)
		}
	}

	for i := range p.PodSets {
		m.podSets = append(m.podSets, m.newPodSet(&p.PodSets[i]))
	}

	// The quotas of cards are those of nodes that pods with cards could run on.
	for i := range m.podSets {
		if m.podSets[i].Cards > 0 {
			for _, node := range m.podSets[i].Nodes {
				m.ofCards[m.nodeQuota[node]] = true
			}
		}
	}

	m.order = hardestFirst(m.podSets)
	return m
}

// boundAmount returns an amount within maxAmount, and notes for its resource whether it is whole.
func (m *model) boundAmount(resource int, amount float64) float64 {
	m.noteFraction(resource, amount)
	return min(max(amount, -maxAmount), maxAmount)
}

// noteFraction allows the tolerance for a resource if an amount is not whole. Whole amounts
// must fit exactly.
func (m *model) noteFraction(resource int, amount float64) {
	if amount != math.Trunc(amount) {
		m.tolerances[resource] = Tolerance
	}
}

// newPodSet lays out a pod set: which resources it needs, and by node whether it could run there.
func (m *model) newPodSet(from *PodSet) podSet {
	set := podSet{PodSet: *from, wantsNode: make([]bool, len(m.nodeQuota))}
	set.Request = make(Amounts, m.dims)
	for r, amount := range from.Request {
		if amount > maxAmount { // it fits nowhere
			amount = math.Inf(1)
		}

		set.Request[r] = amount
		if amount > 0 {
			set.needed = append(set.needed, neededResource{r, amount})
		}
		m.noteFraction(r, amount)
	}

	m.countVisits(len(from.Nodes))
	for _, node := range from.Nodes {
		set.wantsNode[node] = true
	}

	return set
}

// hardestFirst lists the pod sets, the hardest to place first: more cards
// before fewer, then fewer nodes before more.
func hardestFirst(podSets []podSet) []int {
	var order []int
	for i := range podSets {
		order = append(order, i)
	}

	// Small pods still fit into what large ones leave, but not the other way round.
	slices.SortStableFunc(order, func(a, b int) int {
		x := &podSets[a]
		y := &podSets[b]
		return cmp.Or(cmp.Compare(y.Cards, x.Cards), cmp.Compare(len(x.Nodes), len(y.Nodes)))
	})
	return order
}

// countFitting returns how many pods fit into what is available on a node. That can be more than the pod set has.
func (set *podSet) countFitting(available []float64) int {
	if len(set.needed) == 0 {
		return set.Count
	}

	// With this bound, the counts of all nodes add up without overflow.
	n := math.MaxInt32
	for _, x := range set.needed {
		n = min(n, int(max(0, min(math.Floor((available[x.resource]+Tolerance)/x.amount), math.MaxInt32))))
	}
	return n
}

// Tolerance is how much Volcano lets a request exceed what is idle, in the unit of each resource: its constant
// minResource in pkg/scheduler/api.
const Tolerance = 0.1

// countWithinQuota returns for how many pods so many cards left in a quota suffice. Pods without cards need none.
func (set *podSet) countWithinQuota(quota int64) int {
	if set.Cards == 0 {
		return math.MaxInt32
	}
	return int(min(max(quota, 0)/set.Cards, math.MaxInt32))
}

// wholeJob, as the pod of a unit, means all pods of the job.
const wholeJob = -1

// unit is what is evicted in one step: one elastic pod, or a whole job.
type unit struct{ job, pod int }

// job has the ranges of its pods, jobNodes and units in the model.
type job struct {
	loss                  int64 // of the whole job
	elastic               int   // how many pods it can lose and continue
	pods, jobNodes, units span
	firstRole             int // its first role in the model, none if roles do not matter
	wholeUnit             int // none if it may not be evicted as a whole
}

// span is a range of indexes, without end.
type span struct{ from, end int }

// none stands for an index where there is nothing.
const none = -1

type pod struct {
	usage   []float64
	loss    int64
	jobNode int // none if no pod set could run on its node: it frees no room
	role    int // none if it does not matter
}

// jobNode is what a job's pods use on one node.
type jobNode struct {
	node  int
	usage []float64
}

// countPods returns how many pods all jobs have.
func countPods(p *Problem) (count int) {
	for i := range p.Jobs {
		count += len(p.Jobs[i].Pods)
	}
	return count
}

// addJobs lays out the candidates for eviction: jobs, their pods, and the units that may be evicted.
func (m *model) addJobs(p *Problem) {
	count := countPods(p)
	m.countVisits(count)
	m.addLimits(p)
	m.jobs = make([]job, len(p.Jobs))
	m.pods = make([]pod, 0, count)
	m.jobNodes = make([]jobNode, 0, count)
	m.units = make([]unit, 0, count+len(p.Jobs))

	builder := &jobBuilder{
		model:       m,
		problem:     p,
		lastJobNode: make([]int, len(m.nodeQuota)),
		maxPodLoss:  math.MaxInt64 / int64(count+len(p.Jobs)+1),
	}

	// Usage of other nodes would cost memory and work, and help no pending pod.
	m.wantedNodes = make([]bool, len(m.nodeQuota))
	for i := range m.podSets {
		for _, node := range m.podSets[i].Nodes {
			m.wantedNodes[node] = true
		}
	}

	for i := range p.Jobs {
		builder.addJob(i, &p.Jobs[i])
	}

	m.finishShared()
	m.addUnitsOn()
	m.addRanks(p)
}

// jobBuilder adds jobs to a model.
type jobBuilder struct {
	*model
	problem     *Problem
	lastJobNode []int // by node: the last jobNode there
	maxPodLoss  int64 // bounds the loss of a pod, or of a whole job, so that the sum cannot overflow
}

// addJob adds the i-th job with its pods and units: one for each pod that may be evicted alone, and after them one for the
// whole job if it may be evicted.
func (b *jobBuilder) addJob(i int, fromJob *Job) {
	j := &b.jobs[i]
	j.elastic = fromJob.Elastic
	j.firstRole = none
	j.wholeUnit = none
	j.loss = min(fromJob.WholeLoss, b.maxPodLoss)
	if fromJob.RoleElastic != nil {
		j.firstRole = len(b.roleElastic)
		b.roleElastic = append(b.roleElastic, fromJob.RoleElastic...)
	}

	j.pods.from = len(b.pods)
	j.jobNodes.from = len(b.jobNodes)
	j.units.from = len(b.units)

	whole := sharedAmounts{isAllowed: fromJob.Whole}
	for k := range fromJob.Pods {
		b.addPod(i, fromJob, &fromJob.Pods[k], &whole)
	}

	j.pods.end = len(b.pods)
	j.jobNodes.end = len(b.jobNodes)
	// The eviction of a job that frees nothing for the pending pods would be in vain.
	if whole.isAllowed && (j.jobNodes.end > j.jobNodes.from || len(whole.releases) > 0) {
		j.wholeUnit = len(b.units)
		b.setLastTakes(fromJob, whole.takes, whole.elastic)
		b.addShared(j.wholeUnit, whole.releases, whole.takes)
		b.units = append(b.units, unit{i, wholeJob})
	}
	j.units.end = len(b.units)
}

// addPod adds a pod of the i-th job, and its unit if it may be evicted alone and that frees anything for the pending pods.
// It adds to whole what the pod releases and counts against limits.
func (b *jobBuilder) addPod(i int, fromJob *Job, fromPod *Pod, whole *sharedAmounts) {
	j := &b.jobs[i]
	made := pod{loss: min(fromPod.Loss, b.maxPodLoss), jobNode: none, role: none}
	j.loss += made.loss

	shared := sharedAmounts{isAllowed: true}
	if len(fromPod.Releases)+len(fromPod.Takes) > 0 {
		shared = b.sharedAmountsOf(fromPod, fromJob.Level, whole)
	}

	mayGoAlone := shared.isAllowed && j.isElastic(fromJob, fromPod)
	// setLastTakes needs all pods that the job can spare, also those that free nothing here.
	if len(b.limits) > 0 && mayGoAlone {
		whole.elastic = append(whole.elastic, elasticTake{fromPod.Role, shared.takes})
	}

	if b.wantedNodes[fromPod.Node] {
		b.addUsage(j, fromPod, &made)
	}

	if mayGoAlone && (made.jobNode != none || len(shared.releases) > 0) {
		if fromJob.RoleElastic != nil {
			made.role = j.firstRole + fromPod.Role
		}
		b.addShared(len(b.units), shared.releases, shared.takes)
		b.units = append(b.units, unit{i, len(b.pods)})
	}
	b.pods = append(b.pods, made)
}

// sharedAmounts are what a pod or a whole job releases of quotas and counts against limits, which all nodes share.
type sharedAmounts struct {
	releases []release
	takes    []take
	// isAllowed reports whether it may be evicted: what it counts is not too much to add up, and a whole job is not protected.
	isAllowed bool
	// elastic are the pods of a whole job that may be evicted alone.
	elastic []elasticTake
}

// sharedAmountsOf returns what a pod releases and counts against limits, and adds it to the
// whole job. level is the first level of quotas that gets the releases.
func (b *jobBuilder) sharedAmountsOf(fromPod *Pod, level int, whole *sharedAmounts) (made sharedAmounts) {
	b.countVisits(1)
	for _, given := range fromPod.Releases {
		if helpful, ok := b.helpfulRelease(given, level); ok {
			made.releases = addRelease(made.releases, helpful)
		}
	}

	// Several releases of one quota can add up to more than the bound of one pod.
	for i := range made.releases {
		made.releases[i].amount = min(made.releases[i].amount, b.maxShared)
		whole.releases = addRelease(whole.releases, made.releases[i])
	}

	made.takes, made.isAllowed = b.takesOf(fromPod)
	whole.isAllowed = whole.isAllowed && made.isAllowed
	for _, given := range made.takes {
		whole.takes = addTake(whole.takes, given)
	}

	return made
}

// addUsage adds what a pod uses, to the pod and to the jobNode of its job and node, which it adds if it is new.
func (b *jobBuilder) addUsage(j *job, fromPod *Pod, made *pod) {
	made.usage = make([]float64, b.dims)
	for r, amount := range fromPod.Usage {
		made.usage[r] = b.boundAmount(r, amount)
	}

	// The last jobNode of the node may be of an earlier job, or never set.
	if last := b.lastJobNode[fromPod.Node]; last < j.jobNodes.from || last >= len(b.jobNodes) || b.jobNodes[last].node != fromPod.Node {
		b.lastJobNode[fromPod.Node] = len(b.jobNodes)
		b.jobNodes = append(b.jobNodes, jobNode{node: fromPod.Node, usage: make([]float64, b.dims)})
	}

	made.jobNode = b.lastJobNode[fromPod.Node]
	for r, amount := range made.usage {
		b.jobNodes[made.jobNode].usage[r] += amount
	}
}

// isElastic reports whether a pod may be evicted alone, while its job runs on.
func (j *job) isElastic(fromJob *Job, fromPod *Pod) bool {
	if j.elastic == 0 || fromPod.Protected {
		return false
	}
	return fromJob.RoleElastic == nil || fromJob.RoleElastic[fromPod.Role] > 0
}

// addUnitsOn lists by node the units that free something there.
func (m *model) addUnitsOn() {
	m.unitsOn = make([][]unitOnNode, len(m.nodeQuota))
	for u := range m.units {
		m.forEachJobNode(u, func(jobNode int) {
			node := m.jobNodes[jobNode].node
			m.unitsOn[node] = append(m.unitsOn[node], unitOnNode{u, jobNode})
		})
	}
}

// forEachJobNode calls a function with every jobNode where a unit frees something: one for a pod, all of the job for a
// whole job.
func (m *model) forEachJobNode(u int, call func(jobNode int)) {
	if p := m.units[u].pod; p != wholeJob {
		if m.pods[p].jobNode != none {
			call(m.pods[p].jobNode)
		}
		return
	}
	jobNodes := m.jobs[m.units[u].job].jobNodes
	for jobNode := jobNodes.from; jobNode < jobNodes.end; jobNode++ {
		call(jobNode)
	}
}

// unitLoss returns the loss of a unit if its job has no other victim. It is 0 in other ranks than the one that
// the search decides about.
func (m *model) unitLoss(u int) Loss {
	if m.unitRanks[u] != m.currentRank {
		return Loss{}
	}
	if p := m.units[u].pod; p != wholeJob {
		return Loss{PodSeconds: m.pods[p].loss}
	}
	return Loss{JobSeconds: m.jobs[m.units[u].job].loss, Jobs: 1}
}

// byDescendingLoss returns units in the order in which victims are dropped: by descending rank, then by descending loss.
// Of equal units, those of the last job come first, because the caller lists first what is evicted first.
func (m *model) byDescendingLoss(units []int) []int {
	m.countVisits(len(units))
	byLoss := slices.Clone(units)
	slices.SortFunc(byLoss, func(a, b int) int {
		return cmp.Or(cmp.Compare(m.unitRanks[b], m.unitRanks[a]), m.unitLoss(b).compare(m.unitLoss(a)), cmp.Compare(b, a))
	})
	return byLoss
}
