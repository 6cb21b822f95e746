package reclaimrules

import (
	"cmp"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
)

// CompareBetweenQueues puts the lowest priority first, as far as it counts between queues: of the queue,
// then of the job, then of the pod. Only PriorityClasses of the policy count.
func (r *Rules) CompareBetweenQueues(a, b *api.TaskInfo) int {
	x := r.Volcano.Jobs[a.Job]
	y := r.Volcano.Jobs[b.Job]
	return cmp.Or(
		cmp.Compare(r.Volcano.Queues[x.Queue].Queue.Spec.Priority, r.Volcano.Queues[y.Queue].Queue.Spec.Priority),
		cmp.Compare(r.JobPriority(x), r.JobPriority(y)),
		cmp.Compare(r.PodPriority(a), r.PodPriority(b)),
	)
}

// MinimumRuntime returns how long jobs of a pod's service type are protected from reclaim.
func (r *Rules) MinimumRuntime(task *api.TaskInfo) time.Duration {
	return r.Args.ServiceTypes[r.ServiceType(task)].MinimumRuntime
}

// VictimOrder returns in which order jobs of other queues lose cards.
func (r *Rules) VictimOrder() v1alpha1.VictimOrder { return r.Args.VictimOrder }

// PodPriority returns the priority of a pod where pods of different queues compete: that of its PriorityClass if
// the policy lists the class, else the lowest listed one.
func (r *Rules) PodPriority(task *api.TaskInfo) int32 {
	return r.Args.PriorityClasses.Priority(task.Pod.Spec.PriorityClassName)
}

// JobPriority returns the priority of a job where jobs of different queues compete: that of its PodGroup by the
// policy, but no more than the highest of its pods.
func (r *Rules) JobPriority(job *api.JobInfo) int32 {
	highest := r.Args.PriorityClasses.Lowest
	for _, task := range job.Tasks {
		highest = max(highest, r.PodPriority(task))
	}
	return r.Args.PriorityClasses.JobPriority(job.PodGroup.Spec.PriorityClassName, highest)
}
