package capacitycard

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/gang"
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
	reclaimerJob := p.ssn.Jobs[reclaimer.Job]
	victimJob := p.ssn.Jobs[reclaimee.Job]
	if reclaimerJob == nil || victimJob == nil {
		return NotReclaimable
	}

	charged := p.VictimQueue(reclaimee)
	if reclaimerJob.Queue == charged || !p.isEvictable(reclaimee) {
		return NotReclaimable
	}

	reclaimerQueue := p.ssn.Queues[reclaimerJob.Queue]
	victimQueue := p.ssn.Queues[charged]
	if reclaimerQueue == nil || victimQueue == nil || !victimQueue.Reclaimable() {
		return NotReclaimable
	}

	by := p.ServiceType(reclaimer)
	from := p.serviceTypeIn(charged, reclaimee)
	// The matrix comes first: it takes down to the guarantee, the tree only what is borrowed.
	switch {
	case victimQueue.Queue.Spec.Priority < reclaimerQueue.Queue.Spec.Priority && p.args.serviceTypes.CanReclaim(by, from):
		return ReclaimableByMatrix
	case p.canReclaimByTree(reclaimerJob.Queue, charged, by, from):
		return ReclaimableByTree
	}

	return NotReclaimable
}

// canReclaimByTree reports whether the queues of a reclaimer and a victim, of some service types,
// may reclaim by their places in the tree.
func (p *ReclaimRules) canReclaimByTree(reclaimer, victim api.QueueID, by, from string) bool {
	return p.IsTree() && p.knowsServiceType(by) && p.knowsServiceType(from) && len(p.PathBelow(reclaimer, victim)) > 0
}

// knowsServiceType reports whether the reclaim matrix has a service type.
func (p *Session) knowsServiceType(name string) bool {
	_, known := p.args.serviceTypes[name]
	return known
}

// IsTree reports whether the queues form a tree that is deeper than flat queues.
func (p *Session) IsTree() bool { return !p.cache.Tree.IsFlat() }

// ReclaimsAll reports whether CPU and memory are reclaimed as well as cards.
func (p *Session) ReclaimsAll() bool { return p.args.reclaimResources == v1alpha1.ReclaimResourcesAll }

// VictimQueue returns the queue from which the eviction of a pod takes cards: the one that is
// charged for it.
func (p *Session) VictimQueue(task *api.TaskInfo) api.QueueID {
	if charge := p.ledger.Charged(string(task.UID)); charge != nil && p.hasQueue(charge.Queue) {
		return api.QueueID(charge.Queue)
	}
	if job := p.ssn.Jobs[task.Job]; job != nil {
		return job.Queue
	}
	return ""
}

// Level returns how far the lowest common ancestor of two queues is above the reclaimer's: 1
// for siblings and for flat queues.
func (p *Session) Level(reclaimer, victim api.QueueID) int {
	return p.cache.Tree.Level(string(reclaimer), string(victim))
}

// PathBelow returns the victim's queue and its ancestors below the lowest common ancestor of
// both queues. It is empty if the victim's queue is an ancestor of the reclaimer's. The caller
// must not change it.
func (p *Session) PathBelow(reclaimer, victim api.QueueID) []string {
	return p.cache.Tree.PathBelow(string(reclaimer), string(victim))
}

// Ledger returns what queues may use, and what is charged to them.
func (p *Session) Ledger() *quota.Ledger { return p.ledger }

// Drains finds what stop policies drain.
type Drains struct{ *Session }

// DrainedJobs returns the jobs with running pods whose queue, or an ancestor of it, drains, in
// the order of their UIDs. It is the queue of the job, or one that is charged for its pods.
func (p *Drains) DrainedJobs() (jobs []*api.JobInfo) {
	hasDraining := false
	for _, rules := range p.queueRules {
		hasDraining = hasDraining || rules.Drains
	}

	if !hasDraining {
		return nil
	}

	for _, job := range p.ssn.Jobs {
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
	for _, at := range p.cache.Tree.Path(string(queue)) {
		if rules := p.queueRules[api.QueueID(at)]; rules != nil && rules.Drains {
			return api.QueueID(at)
		}
	}
	return ""
}

// TreeVersion returns a number that changes whenever the tree of queues does. It is 0 if the
// queues are flat.
func (p *Session) TreeVersion() uint64 { return p.cache.Tree.Version }
