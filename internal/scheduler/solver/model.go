package solver

// This file lays out nodes, pod sets and quotas for the search; jobs.go adds the candidates. A unit is what is evicted
// in one step: one elastic pod, or a whole job. u is the index of a unit, and most other ints are indexes too. A
// jobNode is one job on one of its nodes. countVisits counts work, which a budget bounds.

import (
	"cmp"
	"math"
	"slices"
)

// model is a problem laid out for the search. Its amounts are bounded so that sums neither overflow nor lose whole numbers.
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

// newModel lays out quotas, nodes and pod sets. addJobs follows when jobs are needed: most reclaimers fit without victims.
func newModel(p *Problem) *model {
	// There is at least one resource, also if nothing is requested: scarcestResource returns its index then.
	m := &model{dims: 1, nodeQuota: make([]int, len(p.Nodes))}
	m.maxShared = maxLevel / int64(1+countPods(p)) // what all pods release together stays within maxLevel
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

// countPods returns how many pods all jobs have.
func countPods(p *Problem) (count int) {
	for i := range p.Jobs {
		count += len(p.Jobs[i].Pods)
	}
	return count
}

// subtractUses subtracts from the quotas what the pod sets use wherever they run, and lists these quotas in required.
func (m *model) subtractUses(p *Problem) {
	var used []int64
	for i := range p.PodSets {
		for _, x := range p.PodSets[i].Uses {
			if used == nil {
				used = make([]int64, len(m.levelsOf))
			}
			used[x.Quota] = addSaturating(used[x.Quota], multiplySaturating(x.Amount, int64(p.PodSets[i].Count)))
		}
	}

	for quota, amount := range used {
		// Twice the bound makes any level negative, and cannot overflow.
		if amount > 0 {
			m.required = append(m.required, quota)
			for i := m.levelsOf[quota].from; i < m.levelsOf[quota].end; i++ {
				m.levels[i] -= min(amount, 2*maxLevel)
			}
		}
	}
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

// boundAmount returns an amount within maxAmount. It allows the tolerance for its resource if the amount is not whole.
func (m *model) boundAmount(resource int, amount float64) float64 {
	m.noteFraction(resource, amount)
	return min(max(amount, -maxAmount), maxAmount)
}

// noteFraction allows the tolerance for a resource if an amount is not whole. Between whole amounts the tolerance, which
// is less than 1, makes no difference.
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
		m.noteFraction(r, amount) // decides whether the resource is compared with a tolerance
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
	if len(set.needed) == 0 { // all of them fit on any node
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

// forEachJobNode calls a function with every jobNode where a unit frees something: one for a pod, all of the job for a
// whole job. A pod on a node where no pending pod could run has none.
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
// the search decides about: higher ranks are decided, and lower ones may lose anything until their turn.
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

// isReleasable reports whether any unit releases some of a quota.
func (m *model) isReleasable(quota int) bool { return m.releases != nil && m.releasable[quota] }

// isOpen reports whether the current choice decides about a unit: it is not above the current rank, and not a victim
// already.
func (m *model) isOpen(u int) bool { return m.unitRanks[u] <= m.currentRank && !m.preselected[u] }

// openUnits lists the units that the current choice decides about.
func (m *model) openUnits() []int {
	var open []int
	for u := range m.units {
		if m.isOpen(u) {
			open = append(open, u)
		}
	}
	return open
}
