package capacitycard

import (
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// evictionAllowance is what a job can lose.
type evictionAllowance struct {
	// elastic is how many pods it can lose and continue, elasticByRole how many per task role,
	// nil if roles do not matter.
	elastic       int32
	elasticByRole map[string]int32
	// wholeJob is set if the job can be evicted as a whole.
	wholeJob bool
}

// allowanceFor returns what a job can lose, as a copy that the caller may change.
func (p *preemption) allowanceFor(job *api.JobInfo) *evictionAllowance {
	p.allowances.Lock()
	defer p.allowances.Unlock()
	if p.allowances.jobs == nil || p.allowances.evictions != p.evictions {
		p.allowances.jobs, p.allowances.evictions = map[api.JobID]*evictionAllowance{}, p.evictions
	}
	known := p.allowances.jobs[job.UID]
	if known == nil {
		known = &evictionAllowance{wholeJob: p.canEvictWholeJob(job)}
		if !p.isInelastic(job) {
			known.elastic, known.elasticByRole = ElasticPods(job)
		}
		p.allowances.jobs[job.UID] = known
	}
	return &evictionAllowance{elastic: known.elastic, elasticByRole: maps.Clone(known.elasticByRole), wholeJob: known.wholeJob}
}

// ElasticPods returns how many pods a job has above its minimum, in total and per task role.
// The map is nil if roles do not matter.
func ElasticPods(job *api.JobInfo) (all int32, roles map[string]int32) {
	all = job.ReadyTaskNum() - job.MinAvailable
	if job.MinAvailable < job.TaskMinAvailableTotal || len(job.TaskMinAvailable) == 0 {
		return all, nil
	}
	_, roles = CountByRole(job, false)
	for role, minimum := range job.TaskMinAvailable {
		roles[role] -= minimum
	}
	return all, roles
}

// takeElastic uses up one elastic pod, and reports whether there was one.
func (e *evictionAllowance) takeElastic(task *api.TaskInfo) bool {
	if e.elastic <= 0 || e.elasticByRole != nil && e.elasticByRole[task.TaskRole] <= 0 {
		return false
	}
	e.elastic--
	if e.elasticByRole != nil {
		e.elasticByRole[task.TaskRole]--
	}
	return true
}

// elasticVictims are elastic pods of a node that suffice for a preemptor.
type elasticVictims struct {
	// highest has the highest priority of them, nil if the node needs no victims.
	highest *api.TaskInfo
}

// elasticPodsSufficeElsewhere reports whether elastic pods of some node suffice for the
// preemptor, so that none of the victims has to break a gang. They have at most the priority of
// each victim that breaks a gang: a lower priority goes before a smaller loss. preemptees are the
// pods that Volcano offers on one node: all of the preemptor's job, or all of others.
func (p *plugin) elasticPodsSufficeElsewhere(preemptor *api.TaskInfo, preemptees, victims []*api.TaskInfo, breaks map[api.TaskID]bool) bool {
	if p.preemption == nil {
		return false
	}
	last := &p.preemption.elsewhere
	last.Lock()
	defer last.Unlock()
	if last.pod != preemptor.UID || last.evictions != p.preemption.evictions {
		last.pod, last.evictions = preemptor.UID, p.preemption.evictions
		last.best = p.elasticVictimsOfAnyNode(preemptor, preemptees[0].Job == preemptor.Job)
	}
	if last.best == nil {
		return false
	}
	isLower := func(victim *api.TaskInfo) bool {
		return breaks[victim.UID] && last.best.highest != nil && p.comparePriorities(victim, last.best.highest) < 0
	}
	return !slices.ContainsFunc(victims, isLower)
}

// elasticVictimsOfAnyNode returns the elastic pods that suffice on some node, those of the lowest
// priority, nil if they suffice on none. See elasticVictimsOn for inside.
func (p *plugin) elasticVictimsOfAnyNode(preemptor *api.TaskInfo, inside bool) (best *elasticVictims) {
	for _, node := range p.ssn.NodeList {
		found := p.elasticVictimsOn(preemptor, node, inside)
		if found == nil {
			continue
		}
		if found.highest == nil {
			return found
		}
		if best == nil || p.comparePriorities(found.highest, best.highest) < 0 {
			best = found
		}
	}
	return best
}

// elasticVictimsOn returns elastic pods without which a node has room for a pod, nil if they do
// not suffice: pods of its own job if inside is set, otherwise of others in its queue.
func (p *plugin) elasticVictimsOn(preemptor *api.TaskInfo, node *api.NodeInfo, inside bool) *elasticVictims {
	request, queue := p.RequestFor(preemptor), p.ssn.Jobs[preemptor.Job].Queue
	name, allowed := p.cardFor(request, node.Name)
	if !allowed || p.ledger.IsTerminatingOverQuota(string(queue), name) {
		return nil
	}
	var offered []*api.TaskInfo
	for _, task := range node.Tasks {
		job := p.ssn.Jobs[task.Job]
		if job != nil && job.Queue == queue && (task.Job == preemptor.Job) == inside && api.PreemptableStatus(task.Status) && task.Preemptable &&
			(task.BestEffort || !preemptor.BestEffort) {
			offered = append(offered, task)
		}
	}

	candidates, breaks := p.preemptionCandidates(preemptor, offered)
	candidates = slices.DeleteFunc(candidates, func(candidate *api.TaskInfo) bool { return breaks[candidate.UID] })
	_, victims, useful := p.selectVictims(preemptor, node, name, candidates, nil)
	if !useful || p.exceedsEvictionHeadroom(queue, name, victims) || p.isRefusedIgnoringQuota(preemptor, node) {
		return nil
	}
	if len(victims) == 0 {
		return &elasticVictims{}
	}
	return &elasticVictims{highest: slices.MaxFunc(victims, p.comparePriorities)}
}
