package cardreclaim

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// batchJobPods are the pods of one Kubernetes Job in a PodGroup.
type batchJobPods struct {
	name string
	// running hold resources. ended are evicted, terminating or failed.
	running, ended []*corev1.Pod
	// work is the work of the Job so far, in card-seconds or core-seconds. lost is the part of
	// it that is lost if all running pods are evicted and the Job goes on.
	work, lost int64
}

// batchJobsIn returns the pods of each Kubernetes Job that has pods in a PodGroup.
func batchJobsIn(job *api.JobInfo) map[types.UID]*batchJobPods {
	var found map[types.UID]*batchJobPods
	for _, task := range job.Tasks {
		owner := workload.BatchJobOwner(task.Pod)
		if owner == nil {
			continue
		}

		pods := found[owner.UID]
		if pods == nil {
			if found == nil {
				found = map[types.UID]*batchJobPods{}
			}
			pods = &batchJobPods{name: owner.Name}
			found[owner.UID] = pods
		}

		switch {
		case api.AllocatedStatus(task.Status):
			pods.running = append(pods.running, task.Pod)
		case task.Status == api.Releasing, task.Status == api.Failed:
			pods.ended = append(pods.ended, task.Pod)
		}
	}
	return found
}

// evictionsLeft returns how many running pods of a Kubernetes Job may be evicted while the Job
// goes on. An unknown Job allows none.
func (s *reclaimSession) evictionsLeft(namespace string, uid types.UID, pods *batchJobPods) int {
	limit, known := s.action.jobPolicies.FailureLimitFor(namespace, pods.name, uid)
	if !known {
		return 0
	}
	return limit.EvictionsLeft(pods.running, pods.ended)
}

// priceFailures limits the elastic pods of a victim job to those whose eviction its Kubernetes
// Jobs survive. A Job that fails loses all of its work so far, and Kubernetes deletes its other
// pods. So more pods go only with the whole job, which then costs that work.
func (s *reclaimSession) priceFailures(g *victimJob) {
	for uid, pods := range batchJobsIn(g.job) {
		left := s.evictionsLeft(g.job.Namespace, uid, pods)
		if left >= len(pods.running) {
			continue
		}

		s.sumWork(g, uid, pods)
		g.fails = true
		g.solverJob.Elastic = min(g.solverJob.Elastic, left)
		g.solverJob.WholeLoss += max(0, pods.work-pods.lost)
	}
}

// sumWork sums up the work of a Kubernetes Job: the time on its cards of its running pods, and
// of those that have succeeded. Checkpoints do not count, because nothing starts the Job again.
func (s *reclaimSession) sumWork(g *victimJob, uid types.UID, pods *batchJobPods) {
	for i, task := range g.tasks {
		start := task.Pod.Status.StartTime
		if owner := workload.BatchJobOwner(task.Pod); owner == nil || owner.UID != uid || start == nil {
			continue
		}
		pods.work += s.lossOf(task, g.cards[i], start.Time, time.Time{})
		pods.lost += g.solverJob.Pods[i].Loss
	}

	for _, task := range g.job.TaskStatusIndex[api.Succeeded] {
		if owner := workload.BatchJobOwner(task.Pod); owner != nil && owner.UID == uid {
			pods.work += s.workOfSucceeded(task)
		}
	}
}

// workOfSucceeded returns the work of a pod that has succeeded, in card-seconds.
func (s *reclaimSession) workOfSucceeded(task *api.TaskInfo) int64 {
	start := task.Pod.Status.StartTime
	if start == nil {
		return 0
	}

	var end time.Time
	for i := range task.Pod.Status.ContainerStatuses {
		if ended := task.Pod.Status.ContainerStatuses[i].State.Terminated; ended != nil && ended.FinishedAt.After(end) {
			end = ended.FinishedAt.Time
		}
	}
	cards := min(s.policy.RequestFor(task).Count, card.MaxCount)
	return solver.PodLoss(int64(cards), start.Time, time.Time{}, end)
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
