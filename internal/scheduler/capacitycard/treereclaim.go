package capacitycard

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// ReclaimKind is by which rule a pod may reclaim from another one.
type ReclaimKind int

// The rules of reclaim.
const (
	// NotReclaimable: no rule allows it.
	NotReclaimable ReclaimKind = iota
	// ReclaimableByMatrix: the service type of the reclaimer reclaims from that of the victim,
	// in a tree down to the guarantee of the victim's queue.
	ReclaimableByMatrix
	// ReclaimableByTree: the victim's queue, and each of its ancestors below the lowest common
	// ancestor, has borrowed. Their last job may be taken below what they deserve.
	ReclaimableByTree
)

// ReclaimRule returns by which rule a pod may reclaim from another one, whatever their queues
// use now. The victim must be evictable, and in a reclaimable queue. Its queue is the one that is
// charged for it, also after its PodGroup moved.
func (p *ReclaimRules) ReclaimRule(reclaimer, reclaimee *api.TaskInfo) ReclaimKind {
	reclaimerJob := p.Volcano.Jobs[reclaimer.Job]
	victimJob := p.Volcano.Jobs[reclaimee.Job]
	if reclaimerJob == nil || victimJob == nil {
		return NotReclaimable
	}

	charged := p.VictimQueue(reclaimee)
	if reclaimerJob.Queue == charged || !p.IsEvictable(reclaimee) {
		return NotReclaimable
	}

	reclaimerQueue := p.Volcano.Queues[reclaimerJob.Queue]
	victimQueue := p.Volcano.Queues[charged]
	if reclaimerQueue == nil || victimQueue == nil || !victimQueue.Reclaimable() {
		return NotReclaimable
	}

	by := p.ServiceType(reclaimer)
	from := p.ServiceTypeIn(charged, reclaimee)
	// The matrix comes first: it takes down to the guarantee, the tree only what is borrowed.
	switch {
	case victimQueue.Queue.Spec.Priority < reclaimerQueue.Queue.Spec.Priority && p.Args.ServiceTypes.CanReclaim(by, from):
		return ReclaimableByMatrix
	case p.canReclaimByTree(reclaimerJob.Queue, charged, by, from):
		return ReclaimableByTree
	}

	return NotReclaimable
}

// canReclaimByTree reports whether the queues of a reclaimer and a victim, of some service types,
// may reclaim by their places in the tree.
func (p *ReclaimRules) canReclaimByTree(reclaimer, victim api.QueueID, by, from string) bool {
	return p.IsTree() && p.KnowsServiceType(by) && p.KnowsServiceType(from) && len(p.PathBelow(reclaimer, victim)) > 0
}

// Drains finds what stop policies drain.
type Drains struct{ *snapshot.Session }

// DrainedJobs returns the jobs with running pods whose queue, or an ancestor of it, drains, in
// the order of their UIDs. It is the queue of the job, or one that is charged for its pods.
func (p *Drains) DrainedJobs() (jobs []*api.JobInfo) {
	hasDraining := false
	for _, rules := range p.QueueRules {
		hasDraining = hasDraining || rules.Drains
	}

	if !hasDraining {
		return nil
	}

	for _, job := range p.Volcano.Jobs {
		isRunning := len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) > 0
		if isRunning && p.DrainedQueue(job) != "" {
			jobs = append(jobs, job)
		}
	}

	slices.SortFunc(jobs, func(a, b *api.JobInfo) int { return cmp.Compare(a.UID, b.UID) })
	return jobs
}

// DrainedQueue returns the queue by which a job is drained: its own, or one that is charged for its pods,
// "" if it is not drained.
func (p *Drains) DrainedQueue(job *api.JobInfo) api.QueueID {
	if p.DrainedBy(job.Queue) != "" {
		return job.Queue
	}
	for task := range gang.TasksIn(job, gang.IsOnNode) {
		if queue := p.VictimQueue(task); queue != job.Queue && p.DrainedBy(queue) != "" {
			return queue
		}
	}
	return ""
}

// DrainedBy returns the queue whose stop policy drains a queue: itself or its nearest ancestor, ""
// if there is none.
func (p *Drains) DrainedBy(queue api.QueueID) api.QueueID {
	for _, at := range p.Cache.Tree.Path(string(queue)) {
		if rules := p.QueueRules[api.QueueID(at)]; rules != nil && rules.Drains {
			return api.QueueID(at)
		}
	}
	return ""
}
