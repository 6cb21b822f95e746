package cardreclaim

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/workload"
)

// priceEvictions sets what the evictions of a victim job cost, in the order of its tasks. It limits the
// elastic pods to those whose eviction the Kubernetes Jobs of a victim job survive.
func (s *reclaimSession) priceEvictions(g *victimJob) {
	price := s.policy.PriceOf(g.job, g.tasks)
	for i := range g.tasks {
		g.solverJob.Pods[i].Loss = price.Pods[i]
	}
	g.fails = price.Fails
	g.solverJob.Elastic = min(g.solverJob.Elastic, price.EvictionsLeft)
	g.solverJob.WholeLoss = price.Failure
}

// keepFailures drops everything of a Kubernetes Job but what FailureLimitFor reads.
func keepFailures(object any) (any, error) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return object, nil
	}

	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion},
		Spec: batchv1.JobSpec{
			BackoffLimit: job.Spec.BackoffLimit, BackoffLimitPerIndex: job.Spec.BackoffLimitPerIndex,
			PodFailurePolicy: workload.CompactFailurePolicy(job.Spec.PodFailurePolicy),
		},
		Status: batchv1.JobStatus{Failed: job.Status.Failed, UncountedTerminatedPods: job.Status.UncountedTerminatedPods},
	}, nil
}

// FailureLimitFor returns the failure limit of a Kubernetes Job, false while it is unknown.
func (i *jobInformer) FailureLimitFor(namespace, name string, uid types.UID) (workload.FailureLimit, bool) {
	if i.batchStore == nil || !i.batchSynced() {
		return workload.FailureLimit{}, false
	}
	stored, exists, err := i.batchStore.GetByKey(namespace + "/" + name)
	job, ok := stored.(*batchv1.Job)
	if err != nil || !exists || !ok || job.UID != uid {
		return workload.FailureLimit{}, false
	}
	return workload.FailureLimitFor(job), true
}
