package solver

// This file lays out the candidates for eviction: jobs, their pods and units, and what these give back and count against
// limits. A unit is one elastic pod or a whole job; u is the index of a unit. A jobNode is a job on one of its nodes.
// countVisits counts work, which a budget bounds.

import (
	"cmp"
	"math"
	"slices"
)

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
	j.loss = min(fromJob.WholeLoss, b.maxPodLoss) // addPod adds the losses of its pods
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
// It adds to whole, the amounts of the whole job, what the pod releases and counts against limits.
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
// whole job. It leaves out quotas that no pending pod uses. level is the first level of quotas that gets the releases.
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

// addShared lays out what a unit releases of quotas and what it counts against limits. In problems where no unit does
// either the lists stay nil, and later steps skip them.
func (b *jobBuilder) addShared(u int, releases []release, takes []take) {
	if len(releases)+len(takes) == 0 {
		return
	}
	b.releases = growTo(b.releases, u+1)
	b.takes = growTo(b.takes, u+1)
	b.releases[u] = releases
	b.takes[u] = takes
	for _, x := range releases {
		b.releasable = growTo(b.releasable, len(b.levelsOf))
		b.releasable[x.quota] = true
	}
}

// finishShared lengthens the lists of addShared to all units, unless they are nil.
func (m *model) finishShared() {
	if m.releases == nil {
		return
	}
	m.releases = growTo(m.releases, len(m.units))
	m.takes = growTo(m.takes, len(m.units))
	m.releasable = growTo(m.releasable, len(m.levelsOf))
	m.addUnitsOfLimits()
}

// addRanks sets the rank of each unit, numbered from 0 without gaps. A whole job has at least the
// rank of each of its pods.
func (m *model) addRanks(p *Problem) {
	m.unitRanks = make([]int, len(m.units))
	m.preselected = make([]bool, len(m.units))
	for u, x := range m.units {
		job := &p.Jobs[x.job]
		if x.pod != wholeJob {
			m.unitRanks[u] = job.Pods[x.pod-m.jobs[x.job].pods.from].Rank
			continue
		}

		m.unitRanks[u] = job.Rank
		for i := range job.Pods {
			m.unitRanks[u] = max(m.unitRanks[u], job.Pods[i].Rank)
		}
	}

	// The search counts through the ranks, and would try those in a gap in vain.
	ranks := slices.Compact(slices.Sorted(slices.Values(m.unitRanks)))
	for u, rank := range m.unitRanks {
		m.unitRanks[u], _ = slices.BinarySearch(ranks, rank)
	}

	m.currentRank = len(ranks) - 1
}

// takesOf returns what a pod counts against limits, false if that is too much to add up without overflow. A pod that
// another rule may take too only counts: limits of what is borrowed cannot refuse it (Pod.OnlyCounts).
func (b *jobBuilder) takesOf(fromPod *Pod) ([]take, bool) {
	var takes []take
	for _, x := range fromPod.Takes {
		if x.Amount > b.maxShared {
			return nil, false
		}
		if x.Amount > 0 {
			onlyCounts := fromPod.OnlyCounts && b.problem.TakeLimits[x.Limit].Borrowed
			takes = addTake(takes, take{limit: x.Limit, amount: x.Amount, last: x.Amount, onlyCounts: onlyCounts})
		}
	}

	isTooMuch := func(x take) bool { return x.amount > b.maxShared }
	return takes, !slices.ContainsFunc(takes, isTooMuch)
}

// setLastTakes sets which part of a whole job each limit of what is borrowed counts last. Such a limit allows
// the last part while less than most was taken before it. So the elastic pods that count least come first, as
// many as the job can spare, and the last part is the rest, at least one pod. pods are those that may be
// evicted alone.
func (b *jobBuilder) setLastTakes(fromJob *Job, whole []take, pods []elasticTake) {
	for i := range whole {
		x := &whole[i]
		if !b.limits[x.limit].borrowed {
			continue
		}

		// x.last is all of the job at first.
		slices.SortStableFunc(pods, func(a, b elasticTake) int { return cmp.Compare(a.amountOf(x.limit), b.amountOf(x.limit)) })
		elastic := min(fromJob.Elastic, len(fromJob.Pods)-1)
		roles := slices.Clone(fromJob.RoleElastic)
		for _, pod := range pods {
			if elastic <= 0 || (roles != nil && roles[pod.role] <= 0) {
				continue
			}

			elastic--
			if roles != nil {
				roles[pod.role]--
			}
			x.last -= pod.amountOf(x.limit)
		}
	}
}

// addLimits lays out the limits, within maxLevel.
func (m *model) addLimits(p *Problem) {
	for _, limit := range p.TakeLimits {
		m.limits = append(m.limits, takeLimit{most: min(limit.Most, maxLevel), borrowed: limit.Borrowed})
	}
}

// addUnitsOfLimits sets for each limit the units that count against it, and whether all jobs together could exceed the
// limit (isTight). largest is the most that the last step of one unit may take beyond the limit.
func (m *model) addUnitsOfLimits() {
	for u, takes := range m.takes {
		for _, x := range takes {
			limit := &m.limits[x.limit]
			limit.units = append(limit.units, u)
			if !x.onlyCounts { // the limit refuses this unit
				limit.largest = max(limit.largest, x.last)
			}
		}
	}

	for i := range m.limits {
		m.limits[i].isTight = m.mostTaken(i) > m.limits[i].most
	}
}

// mostTaken returns what all jobs together could count against a limit.
func (m *model) mostTaken(limit int) (most int64) {
	units := m.limits[limit].units
	for k := 0; k < len(units); {
		// A job is a victim as a whole or by its pods, and its units follow each other.
		job := m.units[units[k]].job
		var whole, pods int64
		for ; k < len(units) && m.units[units[k]].job == job; k++ {
			for _, x := range m.takes[units[k]] {
				switch {
				case x.limit != limit:
				case m.units[units[k]].pod == wholeJob:
					whole += x.amount
				default:
					pods += x.amount
				}
			}
		}
		most += max(whole, pods)
	}

	return most
}
