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
	// DefaultMaxRetry is the maxRetry that a job gets. A training that is evicted four
	// times a day runs for more than three weeks, and one that crashes forever still ends.
	DefaultMaxRetry = 100
	// volcanoMaxRetry is the default of Volcano's CRD, which the API server sets before it
	// calls webhooks.
	volcanoMaxRetry = 3
)

// JobDefaults are the defaults for a vcjob.
type JobDefaults struct {
	// MaxRetry is 0 to keep the job's own.
	MaxRetry int32
	// Policies are appended to spec.policies.
	Policies []vcbatch.LifecyclePolicy
}

// IsEmpty reports whether the job stays unchanged.
func (d JobDefaults) IsEmpty() bool { return d.MaxRetry == 0 && len(d.Policies) == 0 }

// VCJobDefaults returns what a new vcjob needs to survive the reclaim of its cards, if the
// ServiceTypePolicy asks for that. It keeps what the job states, and skips a job with more
// than MaxTemplates tasks.
func VCJobDefaults(job *vcbatch.Job, input WorkloadInput) JobDefaults {
	load, _ := WorkloadOf(job)
	if load.Truncated {
		return JobDefaults{}
	}

	input.resolveRequests(context.Background(), &load)
	wantsCards := slices.ContainsFunc(load.Templates, func(t Template) bool { return t.request.Count > 0 })
	if input.Policy == nil || input.policySpec().Admission.VCJobEvictionPolicy != v1alpha1.VCJobRestartOnEviction || !wantsCards {
		return JobDefaults{}
	}

	// Only pods of a reclaimable type are evicted for others. Other jobs keep what Volcano
	// defaults, and so does a job that is meant to end with an eviction.
	queue := input.Queue(input.queueOf(&load, nil))
	if queue == nil {
		return JobDefaults{}
	}

	serviceType, known := policy.ServiceTypes(input.Policy)(queue.Annotations[v1alpha1.AnnotationServiceType])
	evictionPolicy := workload.EvictionPolicyFor(job)
	if !known || !serviceType.Reclaimable || evictionPolicy.Terminates {
		return JobDefaults{}
	}

	return missingDefaults(job)
}

// missingDefaults returns what a job does not state and needs to survive the reclaim of its cards. A maxRetry of 3
// counts as not stated, because the API server writes this default. An elastic job continues without its evicted pods.
func missingDefaults(job *vcbatch.Job) JobDefaults {
	var out JobDefaults
	if retries := job.Spec.MaxRetry; retries == 0 || retries == volcanoMaxRetry {
		out.MaxRetry = DefaultMaxRetry
	}

	if !handlesEviction(job) && !isElastic(job) {
		out.Policies = []vcbatch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: bus.RestartJobAction}}
	}

	return out
}

// handlesEviction reports whether a policy of the job, or of one of its tasks, handles
// evictions.
func handlesEviction(job *vcbatch.Job) bool {
	return slices.ContainsFunc(job.Spec.Policies, workload.HandlesEviction) ||
		slices.ContainsFunc(job.Spec.Tasks, func(t vcbatch.TaskSpec) bool { return slices.ContainsFunc(t.Policies, workload.HandlesEviction) })
}

// isElastic reports whether the job can run with fewer pods than it has.
func isElastic(job *vcbatch.Job) bool {
	var pods int32
	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]
		pods += task.Replicas
		if minAvailable := task.MinAvailable; minAvailable != nil && *minAvailable < task.Replicas {
			return true
		}
		if partitions := task.PartitionPolicy; partitions != nil && partitions.MinPartitions > 0 && partitions.MinPartitions < partitions.TotalPartitions {
			return true
		}
	}

	return job.Spec.MinAvailable > 0 && job.Spec.MinAvailable < pods
}
