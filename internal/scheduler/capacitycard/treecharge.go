package capacitycard

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
)

// isUnreclaimableJob reports whether no pod of a job without pods could be reclaimed. Its pods may name a
// service type when they exist, so a job whose PodGroup names none is not refused for it.
func (p *enqueuing) isUnreclaimableJob(job *api.JobInfo) bool { return p.UnreclaimableRuleFor(job).All }

// allQueues is the key of the reservations of all queues of a tree, which root has.
const allQueues api.QueueID = ""

// reserve adds a request to the reservations of a queue and its ancestors, in a tree also to those of
// all queues. A queue that accepts no new pods reserves nothing of its ancestors.
func (p *reservationSums) reserve(queue api.QueueID, request quota.JobRequest) {
	p.inqueue[queue].Add(request)
	if !p.IsTree() || p.QueueRules[queue].Refusal != nil {
		return
	}

	p.inqueue[allQueues].Add(request)
	for _, ancestor := range p.Cache.Tree.Ancestors(string(queue)) {
		p.inqueue[api.QueueID(ancestor)].Add(request)
	}
}

// addElastic adds what a running job uses above its minimum to the reservations of a queue and
// its ancestors, in a tree also to those of all queues.
func (p *reservationSums) addElastic(job *api.JobInfo, usage quota.ElasticUsage) {
	p.elasticUsages[job.UID] = usage
	p.inqueue[job.Queue].AddElastic(usage)
	if p.IsTree() {
		p.inqueue[allQueues].AddElastic(usage)
	}
	for _, ancestor := range p.Cache.Tree.Ancestors(string(job.Queue)) {
		p.inqueue[api.QueueID(ancestor)].AddElastic(usage)
	}
}
