// Package loss says what evictions cost a job: how much work is lost, and whether a Kubernetes Job
// fails for good. All actions that evict pods price their victims by it.
package loss

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/solver"
	"cardquota.dev/operator/internal/workload"
)

// FailureLimits returns the failure limit of a Kubernetes Job, false for an unknown one.
type FailureLimits func(namespace, name string, uid types.UID) (workload.FailureLimit, bool)

// State is what a price needs to know of the state of a pod.
type State int

const (
	// Placed pods have their resources and are not being evicted.
	Placed State = iota
	// Ended pods are evicted, terminating or failed.
	Ended
	// Succeeded pods completed their work.
	Succeeded
)

// Pod is a pod of a job.
type Pod struct {
	*corev1.Pod
	State State
	// Cards is how many cards it uses. If that is 0, MilliCPU counts instead.
	Cards, MilliCPU int64
}

// Price is what evictions cost a job.
type Price struct {
	// Pods is the loss of each pod in the order of the pods, 0 for those that are not placed. It is in
	// card-seconds, or in core-seconds for a pod without cards.
	Pods []int64
	// Failure is what the eviction of all pods costs beside Pods, because Kubernetes Jobs fail by it.
	Failure int64
	// EvictionsLeft is how many pods may be evicted before a Kubernetes Job fails for good.
	EvictionsLeft int
	// Fails reports whether a Kubernetes Job fails for good if all pods are evicted, IsFailing
	// whether one does by the pods that ended already.
	Fails, IsFailing bool
}

// Whole returns what the eviction of all pods costs together: their losses, and the failure of Kubernetes Jobs.
func (p *Price) Whole() int64 {
	sum := p.Failure
	for _, loss := range p.Pods {
		sum = quota.AddSaturating(sum, loss)
	}
	return sum
}

// LatestCheckpoint returns the latest checkpoint in the annotations of a PodGroup and its pods, the zero time if
// there is none. It ignores invalid times.
func LatestCheckpoint(annotations ...map[string]string) time.Time {
	var latest time.Time
	for _, written := range annotations {
		if at, err := time.Parse(time.RFC3339, written[v1alpha1.AnnotationCheckpointTime]); err == nil && at.After(latest) {
			latest = at
		}
	}
	return latest
}

// PriceOf returns what evictions cost a job with these pods, which last saved its work at checkpoint.
//
// A Kubernetes Job that fails loses all of its work so far, and Kubernetes deletes its other pods. So
// more pods than EvictionsLeft are evicted only with the whole job, which then costs that work. Checkpoints do not
// count there, because nothing starts the Job again.
func PriceOf(namespace string, pods []Pod, checkpoint, now time.Time, limits FailureLimits) Price {
	price := Price{Pods: make([]int64, len(pods)), EvictionsLeft: math.MaxInt}
	for i := range pods {
		if pods[i].State == Placed {
			price.Pods[i] = pods[i].lossSince(checkpoint, now)
		}
	}

	for uid, job := range BatchJobsIn(pods) {
		if job.isFailing(namespace, uid, limits) {
			price.IsFailing = true
		}

		// A Job that survives the eviction of all its pods bounds nothing.
		left := job.EvictionsLeft(namespace, uid, limits)
		if left >= len(job.placed) {
			continue
		}
		price.Fails = true
		price.EvictionsLeft = min(price.EvictionsLeft, left)
		price.Failure = quota.AddSaturating(price.Failure, job.unsavedByFailure(pods, uid, price.Pods, now))
	}

	return price
}

// lossSince returns the work of a pod until now, since its start or a later checkpoint: in card-seconds, or in core-seconds
// if it uses no cards. A pod that has not started has none.
func (p *Pod) lossSince(checkpoint, now time.Time) int64 {
	start := p.Status.StartTime
	switch {
	case start == nil:
		return 0
	case p.Cards == 0 && p.MilliCPU > 0:
		return solver.PodLoss(p.MilliCPU, start.Time, checkpoint, now) / 1000
	default:
		return solver.PodLoss(p.Cards, start.Time, checkpoint, now)
	}
}

// endOfContainers returns when the last container of a pod ended, the zero time if none has.
func (p *Pod) endOfContainers() (end time.Time) {
	for i := range p.Status.ContainerStatuses {
		if ended := p.Status.ContainerStatuses[i].State.Terminated; ended != nil && ended.FinishedAt.After(end) {
			end = ended.FinishedAt.Time
		}
	}
	return end
}

// BatchJob are the pods of one Kubernetes Job in a PodGroup. Those that succeeded are in neither list: they count against no
// failure limit.
type BatchJob struct {
	name          string
	placed, ended []*corev1.Pod
}

// BatchJobsIn returns the Kubernetes Jobs to which pods of a PodGroup belong, by UID.
func BatchJobsIn(pods []Pod) map[types.UID]*BatchJob {
	found := map[types.UID]*BatchJob{}
	for i := range pods {
		pod := &pods[i]
		owner := workload.BatchJobOwner(pod.Pod)
		if owner == nil {
			continue
		}

		job := found[owner.UID]
		if job == nil {
			job = &BatchJob{name: owner.Name}
			found[owner.UID] = job
		}

		switch pod.State {
		case Placed:
			job.placed = append(job.placed, pod.Pod)
		case Ended:
			job.ended = append(job.ended, pod.Pod)
		}
	}

	return found
}

// EvictionsLeft returns how many placed pods of a Kubernetes Job may be evicted while the Job runs on. A Job
// whose failure limit is unknown allows none.
func (j *BatchJob) EvictionsLeft(namespace string, uid types.UID, limits FailureLimits) int {
	limit, known := j.failureLimit(namespace, uid, limits)
	if !known {
		return 0
	}
	return limit.EvictionsLeft(j.placed, j.ended)
}

// isFailing reports whether the Job fails because of the pods that ended. If its failure limit is unknown, one is enough.
func (j *BatchJob) isFailing(namespace string, uid types.UID, limits FailureLimits) bool {
	limit, known := j.failureLimit(namespace, uid, limits)
	if !known {
		return len(j.ended) > 0
	}
	return !limit.Survives(j.ended)
}

// failureLimit returns the failure limit of the Job, false if it is unknown or there are no limits.
func (j *BatchJob) failureLimit(namespace string, uid types.UID, limits FailureLimits) (workload.FailureLimit, bool) {
	if limits == nil {
		return workload.FailureLimit{}, false
	}
	return limits(namespace, j.name, uid)
}

// unsavedByFailure returns the work of a Kubernetes Job that is lost if the Job fails, beside losses, which are those of
// pods. That is all work of its placed pods since their start, also before checkpoints, and of those that have succeeded.
func (j *BatchJob) unsavedByFailure(pods []Pod, uid types.UID, losses []int64, now time.Time) int64 {
	var work, lost int64
	for i := range pods {
		pod := &pods[i]
		if owner := workload.BatchJobOwner(pod.Pod); owner == nil || owner.UID != uid {
			continue
		}

		switch pod.State {
		case Placed:
			work = quota.AddSaturating(work, pod.lossSince(time.Time{}, now))
			lost = quota.AddSaturating(lost, losses[i])
		case Succeeded:
			work = quota.AddSaturating(work, pod.lossSince(time.Time{}, pod.endOfContainers()))
		}
	}

	return max(0, work-lost)
}
