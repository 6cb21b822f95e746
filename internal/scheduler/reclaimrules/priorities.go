package reclaimrules

import (
	"cmp"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
)

// CompareBetweenQueues puts the lowest priority first, as far as it counts between queues: of the queue,
// the job and the pod.
func (p *Rules) CompareBetweenQueues(a, b *api.TaskInfo) int {
	x := p.Volcano.Jobs[a.Job]
	y := p.Volcano.Jobs[b.Job]
	return cmp.Or(
		cmp.Compare(p.Volcano.Queues[x.Queue].Queue.Spec.Priority, p.Volcano.Queues[y.Queue].Queue.Spec.Priority),
		cmp.Compare(p.JobPriority(x), p.JobPriority(y)),
		cmp.Compare(p.PodPriority(a), p.PodPriority(b)),
	)
}

// MinimumRuntime returns how long jobs of a pod's service type are protected from reclaim.
func (p *Rules) MinimumRuntime(task *api.TaskInfo) time.Duration {
	return p.Args.ServiceTypes[p.ServiceType(task)].MinimumRuntime
}

// VictimOrder returns in which order jobs of other queues lose cards.
func (p *Rules) VictimOrder() v1alpha1.VictimOrder { return p.Args.VictimOrder }

// PodPriority returns the priority of a pod where pods of different queues compete: that of its PriorityClass if
// the policy lists the class, else the lowest listed one.
func (p *Rules) PodPriority(task *api.TaskInfo) int32 {
	return p.Args.PriorityClasses.Priority(task.Pod.Spec.PriorityClassName)
}

// JobPriority returns the priority of a job where jobs of different queues compete: that of its PodGroup by the
// policy, but no more than the highest of its pods.
func (p *Rules) JobPriority(job *api.JobInfo) int32 {
	highest := p.Args.PriorityClasses.Lowest
	for _, task := range job.Tasks {
		highest = max(highest, p.PodPriority(task))
	}
	return p.Args.PriorityClasses.JobPriority(job.PodGroup.Spec.PriorityClassName, highest)
}
