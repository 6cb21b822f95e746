package preemption

import (
	"cmp"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/scheduler/victims"
)

// precedence says which pods and jobs of a queue go first, and which jobs have pods to evict.
type precedence struct {
	*snapshot.Session
	prices *victims.Prices
}

// compareByPriority puts the lowest priority first, and among equals the smallest loss of a single pod.
func (p *precedence) compareByPriority(a, b *api.TaskInfo) int {
	return cmp.Or(p.comparePriorities(a, b), p.prices.CompareByLoss(a, b))
}

// comparePriorities puts the lowest priority first, of the job and then of the pod.
func (p *precedence) comparePriorities(a, b *api.TaskInfo) int {
	x := p.Volcano.Jobs[a.Job]
	y := p.Volcano.Jobs[b.Job]
	return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(a.Priority, b.Priority))
}

// hasHigherPriority compares as Volcano's plugin priority does: jobs by the priority of their
// PodGroup, pods of one job by their own.
func (p *precedence) hasHigherPriority(preemptor, preemptee *api.TaskInfo) bool {
	if preemptor.Job == preemptee.Job {
		return preemptor.Priority > preemptee.Priority
	}
	preemptorJob := p.Volcano.Jobs[preemptor.Job]
	preempteeJob := p.Volcano.Jobs[preemptee.Job]
	return preemptorJob != nil && preempteeJob != nil && preemptorJob.Priority > preempteeJob.Priority
}

// hasPodToEvict reports whether some pod of a job is on a node and may be evicted.
func (p *precedence) hasPodToEvict(job *api.JobInfo) bool {
	for task := range gang.TasksIn(job, api.PreemptableStatus) {
		if task.Preemptable && p.IsEvictable(task) && !p.IsEvictionInProgress(task) {
			return true
		}
	}
	return false
}

// lowestPriorities returns by queue the lowest priority of its jobs that have pods to evict.
func (p *precedence) lowestPriorities() map[api.QueueID]int32 {
	lowest := map[api.QueueID]int32{}
	for _, job := range p.Volcano.Jobs {
		known, isKnown := lowest[job.Queue]
		if (!isKnown || job.Priority < known) && p.hasPodToEvict(job) {
			lowest[job.Queue] = job.Priority
		}
	}
	return lowest
}
