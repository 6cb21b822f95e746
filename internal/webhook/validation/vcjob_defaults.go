package validation

import (
	"context"
	"slices"

	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

const (
	// DefaultMaxRetry is the maxRetry that a job gets: a training that is taken four
	// times a day lives for more than three weeks, and one that crashes for ever
	// still ends.
	DefaultMaxRetry = 100
	// volcanoMaxRetry is what Volcano's CRD writes into a job that says nothing,
	// before any webhook sees it.
	volcanoMaxRetry = 3
)

// JobDefaults is what a vcjob is completed by.
type JobDefaults struct {
	// MaxRetry is 0 when it stays.
	MaxRetry int32
	// Policies are appended to spec.policies.
	Policies []vcbatch.LifecyclePolicy
}

// IsEmpty tells that the job stays as it is.
func (d JobDefaults) IsEmpty() bool { return d.MaxRetry == 0 && len(d.Policies) == 0 }

// VCJobDefaults returns what a new vcjob needs so that it survives that its cards
// are taken back, where the ServiceTypePolicy asks for that. It says nothing where
// the job says something, or is larger than what is judged.
func VCJobDefaults(job *vcbatch.Job, world WorkloadInput) JobDefaults {
	load, _ := WorkloadOf(job)
	if load.Truncated {
		return JobDefaults{}
	}
	world.resolveRequests(context.Background(), &load)
	wantsCards := slices.ContainsFunc(load.Templates, func(t Template) bool { return t.request.Count > 0 })
	if world.Policy == nil || world.policySpec().Admission.VCJobEvictionPolicy != v1alpha1.VCJobRestartOnEviction || !wantsCards {
		return JobDefaults{}
	}
	queue := world.Queue(world.queueOf(&load, nil))
	if queue == nil {
		return JobDefaults{}
	}
	meaning, known := policy.ServiceTypes(world.Policy)(queue.Annotations[v1alpha1.AnnotationServiceType])
	habit := workload.EvictionPolicyFor(job)
	if !known || !meaning.Reclaimable || habit.Terminates {
		return JobDefaults{}
	}
	var out JobDefaults
	if retries := job.Spec.MaxRetry; retries == 0 || retries == volcanoMaxRetry {
		out.MaxRetry = DefaultMaxRetry
	}
	if !handlesEviction(job) && !isElastic(job) {
		out.Policies = []vcbatch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: bus.RestartJobAction}}
	}
	return out
}

// handlesEviction tells that some policy of the job, or of one of its tasks, says what
// becomes of an eviction.
func handlesEviction(job *vcbatch.Job) bool {
	return slices.ContainsFunc(job.Spec.Policies, workload.HandlesEviction) ||
		slices.ContainsFunc(job.Spec.Tasks, func(t vcbatch.TaskSpec) bool { return slices.ContainsFunc(t.Policies, workload.HandlesEviction) })
}

// isElastic tells that the job says it runs with fewer pods than it has.
func isElastic(job *vcbatch.Job) bool {
	var pods int32
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		pods += task.Replicas
		if least := task.MinAvailable; least != nil && *least < task.Replicas {
			return true
		}
		if parts := task.PartitionPolicy; parts != nil && parts.MinPartitions > 0 && parts.MinPartitions < parts.TotalPartitions {
			return true
		}
	}
	return job.Spec.MinAvailable > 0 && job.Spec.MinAvailable < pods
}
