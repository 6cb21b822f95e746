package capacitycard

import (
	"cmp"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/workload"
)

// unreclaimableRule says which pods of one job cannot be reclaimed.
type unreclaimableRule struct {
	// all is set if none can be reclaimed: the queue, its service type or the PodGroup forbids
	// it.
	all bool
	// byType is set if the queue has no service type. Then the type of the pod decides, else that
	// of the PodGroup, else that of the pod's owner.
	byType bool
	group  string
}

// unreclaimableRuleFor returns which pods of a job cannot be reclaimed. job may be nil.
func (p *Session) unreclaimableRuleFor(job *api.JobInfo) unreclaimableRule {
	if job == nil || job.PodGroup == nil {
		return unreclaimableRule{all: true}
	}
	queue, exists := p.ssn.Queues[job.Queue]
	if !exists || !queue.Reclaimable() || !workload.GroupAllowsEviction(job.PodGroup.Annotations) {
		return unreclaimableRule{all: true}
	}

	serviceType := workload.ServiceTypeFor(queue.Queue.Annotations, nil, nil, "")
	if serviceType != "" {
		return unreclaimableRule{all: !p.knowsServiceType(serviceType)}
	}

	return unreclaimableRule{byType: true, group: workload.ServiceTypeFor(nil, nil, job.PodGroup.Annotations, "")}
}

// isUnreclaimable reports whether a pod of the job cannot be reclaimed.
func (p *Session) isUnreclaimable(rule *unreclaimableRule, state *cache.PodState) bool {
	switch {
	case rule.all || state.IsProtected:
		return true
	case !rule.byType:
		return false
	}
	name := cmp.Or(state.ServiceType, rule.group, state.OwnerType)
	return name == "" || !p.knowsServiceType(name)
}

// isUnreclaimableJob reports whether no pod of a job without pods could be reclaimed. Its pods may name a
// service type when they exist, so a job whose PodGroup names none is not refused for it.
func (p *enqueuing) isUnreclaimableJob(job *api.JobInfo) bool { return p.unreclaimableRuleFor(job).all }

// allQueues is the key of the reservations of all queues of a tree, which root has.
const allQueues api.QueueID = ""

// reserve adds a request to the reservations of a queue and its ancestors, in a tree also to those of
// all queues. A queue that accepts no new pods reserves nothing of its ancestors.
func (p *reservationSums) reserve(queue api.QueueID, request quota.JobRequest) {
	p.inqueue[queue].Add(request)
	if !p.IsTree() || p.queueRules[queue].Refusal != nil {
		return
	}

	p.inqueue[allQueues].Add(request)
	for _, ancestor := range p.cache.Tree.Ancestors(string(queue)) {
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
	for _, ancestor := range p.cache.Tree.Ancestors(string(job.Queue)) {
		p.inqueue[api.QueueID(ancestor)].AddElastic(usage)
	}
}
