package preemption

import (
	"cmp"
	"math"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/victims"
)

// compare is negative if c is less than the other cost.
func (c *evictionCost) compare(other *evictionCost) int {
	return cmp.Or(cmp.Compare(c.job, other.job), cmp.Compare(c.pod, other.pod), victims.CompareBool(c.breaksGang, other.breaksGang), cmp.Compare(c.loss, other.loss))
}

// costOf returns what the eviction of pods costs. Its priorities are those of the highest job, and of its
// highest pod among them. breaks are the pods whose eviction breaks their gang: that loses the whole job,
// which counts once.
func (p *Preemption) costOf(victims []*api.TaskInfo, breaks map[api.TaskID]bool) *evictionCost {
	cost := &evictionCost{job: math.MinInt32, pod: math.MinInt32}
	broken := map[api.JobID]bool{}
	for _, victim := range victims {
		if priority := p.Volcano.Jobs[victim.Job].Priority; priority > cost.job {
			cost.job = priority
			cost.pod = victim.Priority
		} else if priority == cost.job {
			cost.pod = max(cost.pod, victim.Priority)
		}

		if broken[victim.Job] {
			continue
		}

		broken[victim.Job] = breaks[victim.UID]
		cost.breaksGang = cost.breaksGang || breaks[victim.UID]
		cost.loss = quota.AddSaturating(cost.loss, p.prices.LossOfEviction(victim, breaks))
	}

	return cost
}

// costsLessElsewhere reports whether the preemptor could run on another node without evictions, or with
// evictions that cost less: of lower priority, without breaking a gang, or with less loss. It compares no
// other nodes in Volcano's own action, which has no run, nor for a victim of the preemptor's own job. Nor does
// it where victims of the lowest priority of the queue break no gang: that would cost more than it spares.
// victims has at least one pod.
func (p *Preemption) costsLessElsewhere(preemptor *api.TaskInfo, victims []*api.TaskInfo, breaks map[api.TaskID]bool) bool {
	if p.run == nil || victims[0].Job == preemptor.Job {
		return false
	}
	cost := p.costOf(victims, breaks)
	if !cost.breaksGang && cost.job <= p.run.lowest[p.Volcano.Jobs[preemptor.Job].Queue] {
		return false
	}

	// Volcano asks about each node of a preemptor in turn, and the cheapest one stays the same until an eviction.
	last := &p.run.elsewhere
	last.Lock()
	defer last.Unlock()

	if last.pod != preemptor.UID || last.evictions != p.run.evictions {
		last.pod = preemptor.UID
		last.evictions = p.run.evictions
		last.least = p.cheapestEvictions(preemptor)
	}

	return last.least != nil && last.least.compare(cost) < 0
}

// cheapestEvictions returns the least that evictions of pods of other jobs for a pod cost on one node, nil
// if they help on none.
func (p *Preemption) cheapestEvictions(preemptor *api.TaskInfo) (least *evictionCost) {
	for _, node := range p.Volcano.NodeList {
		cost := p.evictionCostOn(preemptor, node)
		if cost != nil && (least == nil || cost.compare(least) < 0) && !p.isRefusedIgnoringQuota(preemptor, node) {
			least = cost
		}
	}
	return least
}

// evictionCostOn returns what it costs to evict pods of other jobs from a node for a pod, nil if that does
// not help.
func (p *Preemption) evictionCostOn(preemptor *api.TaskInfo, node *api.NodeInfo) *evictionCost {
	request := p.RequestFor(preemptor)
	queue := p.Volcano.Jobs[preemptor.Job].Queue
	name, allowed := p.CardFor(request, node.Name)
	if !allowed {
		return nil
	}

	var offered []*api.TaskInfo
	for _, task := range node.Tasks {
		job := p.Volcano.Jobs[task.Job]
		if job != nil && job.Queue == queue && isOffered(job, task, preemptor) {
			// The job's pods, not the node's: topology-aware preemption clones nodes in other goroutines, and
			// that writes to the pods of the node.
			offered = append(offered, job.Tasks[task.UID])
		}
	}

	candidates, breaks := p.preemptionCandidates(preemptor, offered)
	_, victims, useful := p.victims.Select(preemptor, node, name, candidates, breaks)
	if !useful || p.victims.ExceedsEvictionHeadroom(queue, name, victims) {
		return nil
	}

	return p.costOf(victims, breaks)
}

// isOffered reports whether Volcano offers a pod as a victim for one of another job of its queue. For a pod without requests
// (BestEffort) it offers only pods without requests.
func isOffered(job *api.JobInfo, task, preemptor *api.TaskInfo) bool {
	if job.Tasks[task.UID] == nil || task.Job == preemptor.Job {
		return false
	}
	return api.PreemptableStatus(task.Status) && task.Preemptable && (task.BestEffort || !preemptor.BestEffort)
}
