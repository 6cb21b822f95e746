// Package enqueue votes on jobs that want to be enqueued, and reserves what enqueued jobs wait for.
package enqueue

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/preemption"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// Votes votes whether Volcano may enqueue jobs.
type Votes struct {
	*snapshot.Session
	evictions  *snapshot.Evictions
	preemption *preemption.Preemption
	sums       *Sums
	podGroups  PodGroupRequests
	// refusedRequests are those that the quota refused.
	refusedRequests map[refusedRequest]*workload.Refusal
	// preemptableUsages and placedJobs are filled when a vote needs them.
	preemptableUsages map[queuePriority]*preemptableUsage
	placedJobs        map[api.QueueID][]*api.JobInfo
}

// New returns the votes of a session. podGroups are the requests that earlier sessions read.
func New(s *snapshot.Session, evictions *snapshot.Evictions, preempts *preemption.Preemption, sums *Sums, podGroups PodGroupRequests) *Votes {
	return &Votes{Session: s, evictions: evictions, preemption: preempts, sums: sums, podGroups: podGroups}
}

// RefusalOf returns why a job may not be enqueued, nil if it may. It only votes. RecordEnqueued
// reserves, after every other plugin has agreed.
func (v *Votes) RefusalOf(job *api.JobInfo) *workload.Refusal {
	_, refusal := v.Check(job)
	if refusal == nil {
		return nil
	}
	return v.withTotalHint(job, refusal)
}

// RecordEnqueued reserves the request of a job until its pods are placed. Volcano enqueues a job
// without minResources unasked, so the check runs here. If it fails, the job waits without a
// reservation and its pods are checked one by one.
func (v *Votes) RecordEnqueued(job *api.JobInfo) {
	if request, refusal := v.Check(job); refusal == nil {
		v.Cache.Reservations.RecordEnqueued(job, request)
		v.sums.Reserve(job.Queue, v.Ledger.DropUngranted(string(job.Queue), request))
	}
}

// ForgetRefusals forgets which requests the quota refused, since quota was released.
func (v *Votes) ForgetRefusals() { v.refusedRequests = nil }

// Check returns the request of a job, and why it may not be enqueued, nil if it may.
func (v *Votes) Check(job *api.JobInfo) (quota.JobRequest, *workload.Refusal) {
	if refusal := v.CheckQueue(job); refusal != nil {
		return quota.JobRequest{}, refusal
	}
	request, refusal := v.MissingMinimum(job)
	if refusal == nil {
		refusal = v.checkEnqueueQuota(job, request)
	}
	return request, refusal
}

// MissingMinimum returns what a job still needs for its minMember, or a refusal that does not depend on what
// its queue has left. It reads the pods once they exist, before them what the PodGroup announces. In a tree,
// IsUnreclaimable is set if other queues could reclaim none of the pods.
func (v *Votes) MissingMinimum(job *api.JobInfo) (quota.JobRequest, *workload.Refusal) {
	if len(job.Tasks) == 0 {
		known := v.PodGroupRequestFor(job)
		request := known.JobRequest
		request.IsUnreclaimable = v.IsTree() && v.isUnreclaimableJob(job)
		return request, known.refusal
	}

	var all quota.JobRequestBuilder
	isUnreclaimable := v.IsTree()
	for _, task := range v.MissingTasks(job) {
		request := v.RequestFor(task)
		if request.Denied != nil {
			return quota.JobRequest{}, request.Denied
		}
		if refusal := v.CheckClaims(task.Pod); refusal != nil {
			return quota.JobRequest{}, refusal
		}

		all.Add(request.Request)
		// If only some are, each pod is checked when it is placed.
		isUnreclaimable = isUnreclaimable && request.IsUnreclaimable
	}

	all.IsUnreclaimable = isUnreclaimable
	return all.JobRequest, nil
}

// withTotalHint adds to the refusal of a job without pods that card.request exceeds what the
// job needs to start. It adds nothing if the PodGroup does not say how many cards that are.
func (v *Votes) withTotalHint(job *api.JobInfo, refusal *workload.Refusal) *workload.Refusal {
	if len(job.Tasks) > 0 || refusal.Reason() != workload.ReasonInsufficientScalarQuota {
		return refusal
	}

	announced := v.PodGroupRequestFor(job)
	total := sumCards(announced.JobRequest.Cards)
	if !announced.hasAnnotation || announced.minimumCards == 0 || total <= announced.minimumCards {
		return refusal
	}

	hinted := *refusal
	hinted.AllCards = int64(total)
	hinted.MinimumCards = int64(announced.minimumCards)
	return &hinted
}

// checkEnqueueQuota returns why the request of a job does not fit the quota now, nil if it does. It remembers
// refusals, because thousands of equal jobs may wait in a full queue.
func (v *Votes) checkEnqueueQuota(job *api.JobInfo, request quota.JobRequest) *workload.Refusal {
	asked := refusedRequest{job.Queue, job.Priority, v.mayPreemptOnceEnqueued(job), request.Key()}
	if refusal, isRefused := v.refusedRequests[asked]; isRefused {
		return refusal
	}

	insufficient := v.checkEnqueueBesidePreemptable(job, request)
	if insufficient == nil {
		return nil
	}

	v.nameOneOfAny(insufficient) // no list of all cards of the fleet
	refusal := v.QueueRules[job.Queue].RefusalFor(insufficient)
	if v.refusedRequests == nil {
		v.refusedRequests = map[refusedRequest]*workload.Refusal{}
	}
	v.refusedRequests[asked] = refusal

	return refusal
}

// refusedRequest is a request that the quota refused. While jobs are enqueued, usage and
// reservations only grow, so that an equal request of an equal job stays refused. An eviction ends that.
type refusedRequest struct {
	queue    api.QueueID
	priority int32
	// preempts reports whether what it could preempt counts as elastic.
	preempts bool
	// request is the key of the request.
	request string
}

// nameOneOfAny shortens the refusal of a pod without a card name, in a queue that has quota for none of
// the cards that it may use. These are all cards of the fleet, and no list of them would help.
func (v *Votes) nameOneOfAny(insufficient *quota.InsufficientQuota) {
	names := insufficient.Names
	if len(names) < 2 || insufficient.Limit > 0 {
		return
	}
	isAll := func(resource corev1.ResourceName) bool { return slices.Equal(v.Inventory.NamesFor(resource), names) }
	if slices.ContainsFunc(v.Inventory.ResourcesFor(names[0]), isAll) {
		insufficient.Names = names[:1]
		insufficient.OtherCards = len(names) - 1
	}
}

// isUnreclaimableJob reports whether no pod of a job without pods could be reclaimed. Its pods may name a
// service type when they exist, so a job whose PodGroup names none is not refused for it.
func (v *Votes) isUnreclaimableJob(job *api.JobInfo) bool { return v.UnreclaimableRuleFor(job).All }
