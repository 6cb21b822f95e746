package snapshot

import (
	"cmp"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/workload"
)

// ServiceType returns the service type of a pod, "" if it has none.
func (s *Session) ServiceType(task *api.TaskInfo) string {
	job, ok := s.Volcano.Jobs[task.Job]
	if !ok {
		return ""
	}
	return s.ServiceTypeIn(job.Queue, task)
}

// ServiceTypeIn returns the service type of a pod in a queue, "" if it has none.
func (s *Session) ServiceTypeIn(id api.QueueID, task *api.TaskInfo) string {
	job, ok := s.Volcano.Jobs[task.Job]
	if !ok {
		return ""
	}

	var queue, group map[string]string
	if info, ok := s.Volcano.Queues[id]; ok {
		queue = info.Queue.Annotations
	}

	if job.PodGroup != nil {
		group = job.PodGroup.Annotations
	}

	return workload.ServiceTypeFor(queue, task.Pod.Annotations, group, s.Args.Owners.TypeFor(task.Pod))
}

// UnreclaimableRule says which pods of one job cannot be reclaimed.
type UnreclaimableRule struct {
	// All is set if none can be reclaimed: the queue, its service type or the PodGroup forbids
	// it.
	All bool
	// byType is set if the queue has no service type. Then the type of the pod decides, else that
	// of the PodGroup, else that of the pod's owner.
	byType bool
	group  string
}

// UnreclaimableRuleFor returns which pods of a job cannot be reclaimed. job may be nil.
func (s *Session) UnreclaimableRuleFor(job *api.JobInfo) UnreclaimableRule {
	if job == nil || job.PodGroup == nil {
		return UnreclaimableRule{All: true} // IsEvictable refuses pods without a PodGroup
	}
	queue, exists := s.Volcano.Queues[job.Queue]
	if !exists || !queue.Reclaimable() || !workload.GroupAllowsEviction(job.PodGroup.Annotations) {
		return UnreclaimableRule{All: true}
	}

	serviceType := workload.ServiceTypeFor(queue.Queue.Annotations, nil, nil, "")
	if serviceType != "" {
		return UnreclaimableRule{All: !s.KnowsServiceType(serviceType)}
	}

	return UnreclaimableRule{byType: true, group: workload.ServiceTypeFor(nil, nil, job.PodGroup.Annotations, "")}
}

// IsUnreclaimable reports whether a pod of the job of the rule cannot be reclaimed: it is protected from eviction,
// or the reclaim matrix lacks its service type.
func (s *Session) IsUnreclaimable(rule *UnreclaimableRule, state *cache.PodState) bool {
	switch {
	case rule.All || state.IsProtected:
		return true
	case !rule.byType:
		return false
	}
	name := cmp.Or(state.ServiceType, rule.group, state.OwnerType)
	return name == "" || !s.KnowsServiceType(name)
}

// KnowsServiceType reports whether the reclaim matrix has a service type.
func (s *Session) KnowsServiceType(name string) bool {
	_, known := s.Args.ServiceTypes[name]
	return known
}

// ReclaimsAll reports whether CPU and memory are reclaimed as well as cards.
func (s *Session) ReclaimsAll() bool { return s.Args.reclaimResources == v1alpha1.ReclaimResourcesAll }

// WithinReclaimable returns in what a request must fit so that its queue may reclaim for it: in what the queue
// deserves, of cards alone unless CPU and memory are reclaimed too.
func (s *Session) WithinReclaimable() quota.Within {
	if s.ReclaimsAll() {
		return quota.Within{Bound: quota.ReclaimableAll}
	}
	return quota.Within{Bound: quota.ReclaimableCards}
}
