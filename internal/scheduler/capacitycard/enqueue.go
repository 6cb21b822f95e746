package capacitycard

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/preemption"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/workload"
)

// enqueuing votes on jobs that want to be enqueued.
type enqueuing struct {
	*snapshot.Session
	events     *Events
	evictions  *snapshot.Evictions
	preemption *preemption.Preemption
	sums       *reservationSums
	podGroups  podGroupRequests
	// refusedRequests are those that the quota refused.
	refusedRequests map[refusedRequest]*workload.Refusal
	// preemptableUsages and placedJobs are filled when a vote needs them.
	preemptableUsages map[queuePriority]*preemptableUsage
	placedJobs        map[api.QueueID][]*api.JobInfo
}

// missingMinimum returns what a job still needs for its minMember. It reads the pods once they
// exist, and before them the annotation card.request and minResources.
func (p *enqueuing) missingMinimum(job *api.JobInfo) (quota.JobRequest, *workload.Refusal) {
	if len(job.Tasks) == 0 {
		known := p.podGroupRequestFor(job)
		request := known.jobRequest
		request.IsUnreclaimable = p.IsTree() && p.isUnreclaimableJob(job)
		return request, known.refusal
	}

	var all quota.JobRequestBuilder
	isUnreclaimable := p.IsTree()
	for _, task := range p.MissingTasks(job) {
		request := p.RequestFor(task)
		if request.Denied != nil {
			return quota.JobRequest{}, request.Denied
		}
		if refusal := p.CheckClaims(task.Pod); refusal != nil {
			return quota.JobRequest{}, refusal
		}

		all.Add(request.Request)
		isUnreclaimable = isUnreclaimable && request.IsUnreclaimable // others are checked one by one
	}

	all.IsUnreclaimable = isUnreclaimable
	return all.JobRequest, nil
}

// podGroupRequestFor returns what a PodGroup without pods requests: for that of a Volcano job what
// its templates request, else minResources, and card.request. It parses only a changed PodGroup,
// since the longest card.request takes milliseconds. Callers must not change the requests.
// Volcano copies the PodGroup in each session, but its strings stay the same.
func (p *enqueuing) podGroupRequestFor(job *api.JobInfo) *podGroupRequest {
	annotation, hasAnnotation := workload.CardRequestAnnotation(&job.PodGroup.PodGroup)
	read := podGroupRequest{
		annotation: annotation, hasAnnotation: hasAnnotation, minResources: job.PodGroup.Spec.MinResources,
		generation: p.Cache.RequestGeneration, lastSession: p.Cache.SessionCount,
	}

	if owner := workload.VCJobOwner(&job.PodGroup.PodGroup); owner != "" {
		read.vcJob = p.findVCJob(job, owner)
		if read.vcJob == nil {
			read.refusal = &workload.Refusal{Code: workload.CodeVCJobUnknown, Object: job.Namespace + "/" + owner}
			return &read // it may be known in the next session
		}
	}

	if known, ok := p.podGroups[job.PgUID]; ok && known.isFor(&read) {
		known.lastSession = p.Cache.SessionCount
		return known
	}

	read.jobRequest, read.refusal = p.announcedBy(&read, hasAnnotation)
	if hasAnnotation {
		least, _ := p.announcedBy(&read, false)
		read.minimumCards = sumCards(least.Cards)
	}

	if p.Cache.CardUnlimitedCPUMemory && len(read.jobRequest.Cards) > 0 {
		// minResources does not say which pods the CPU is for. The pods are checked one by one
		// when they exist.
		read.jobRequest.MilliCPU = 0
		read.jobRequest.Memory = 0
	}

	p.podGroups[job.PgUID] = &read
	return &read
}

// announcedBy returns what a PodGroup announces, with card.request or only its minimum.
func (p *enqueuing) announcedBy(read *podGroupRequest, withTotal bool) (quota.JobRequest, *workload.Refusal) {
	if read.vcJob != nil {
		return p.Cache.Resolver.VCJobRequest(read.annotation, withTotal, read.vcJob, p.classPriority)
	}
	return p.Cache.Resolver.PodGroupRequest(read.annotation, withTotal, read.minResources)
}

// findVCJob returns the Volcano job that controls the PodGroup of a job, nil while it is not known.
// Another job of the same name does not count.
func (p *enqueuing) findVCJob(job *api.JobInfo, name string) *batch.Job {
	if !p.Cache.VCJobs().OpenSession(p.Volcano) {
		return nil
	}
	found, known := p.Cache.VCJobs().VCJob(job.Namespace, name)
	if !known || found.UID != metav1.GetControllerOf(&job.PodGroup.PodGroup).UID {
		return nil
	}
	return found
}

// classPriority returns the value of a PriorityClass, 0 for an unknown one.
func (p *enqueuing) classPriority(name string) int32 {
	if class := p.priorityClass(name); class != nil {
		return class.Value
	}
	return 0
}

// priorityClass returns a PriorityClass, nil for an unknown one.
func (p *enqueuing) priorityClass(name string) *schedulingv1.PriorityClass {
	if name == "" {
		return nil
	}
	class, err := p.Volcano.InformerFactory().Scheduling().V1().PriorityClasses().Lister().Get(name)
	if err != nil {
		return nil
	}
	return class
}

// withTotalHint adds to the refusal of a job without pods that card.request exceeds what the
// job needs to start. A PodGroup that announces no minimum has one all the same.
func (p *enqueuing) withTotalHint(job *api.JobInfo, refusal *workload.Refusal) *workload.Refusal {
	if len(job.Tasks) > 0 || refusal.Reason() != workload.ReasonInsufficientScalarQuota {
		return refusal
	}

	announced := p.podGroupRequestFor(job)
	total := sumCards(announced.jobRequest.Cards)
	if !announced.hasAnnotation || announced.minimumCards == 0 || total <= announced.minimumCards {
		return refusal
	}

	hinted := *refusal
	hinted.AllCards = int64(total)
	hinted.MinimumCards = int64(announced.minimumCards)
	return &hinted
}

func sumCards(cards []quota.CardRequest) (sum card.Count) {
	for _, d := range cards {
		sum = sum.Add(d.Count)
	}
	return sum
}

// jobValid delays a restarted gang while succeeded pods of its last run are still being
// deleted. Volcano counts these as ready (ReadyTaskNum), so it would bind the first new pods
// without the rest of the gang.
func jobValid(obj any) *api.ValidateResult {
	job := obj.(*api.JobInfo)
	terminating := int32(0)
	for _, task := range job.TaskStatusIndex[api.Succeeded] {
		if task.Pod.DeletionTimestamp != nil {
			terminating++
		}
	}

	if terminating == 0 || job.MinAvailable <= 1 || job.ReadyTaskNum()-terminating >= job.MinAvailable {
		return nil
	}

	return &api.ValidateResult{
		Reason:  v1beta1.NotEnoughPodsReason,
		Message: fmt.Sprintf("%d pods of the last run are still being deleted", terminating),
	}
}

// jobEnqueueable checks a job before its pods may wait for cards. It only votes. jobEnqueued
// reserves, after every other plugin has agreed.
func (p *enqueuing) jobEnqueueable(obj any) int {
	p.events.reportLongSession()
	job := obj.(*api.JobInfo)
	if _, refusal := p.checkEnqueue(job); refusal != nil {
		p.events.recordJobUnschedulable(job, p.withTotalHint(job, refusal))
		return util.Reject
	}
	return util.Permit
}

// checkEnqueue returns the request of a job, and why it may not be enqueued, nil if it may.
func (p *enqueuing) checkEnqueue(job *api.JobInfo) (quota.JobRequest, *workload.Refusal) {
	if refusal := p.CheckQueue(job); refusal != nil {
		return quota.JobRequest{}, refusal
	}
	request, refusal := p.missingMinimum(job)
	if refusal == nil {
		refusal = p.checkEnqueueQuota(job, request)
	}
	return request, refusal
}

// jobEnqueued reserves the request of a job until its pods are placed. Volcano enqueues a job
// without minResources unasked, so the check runs here. If it fails, the job waits without a
// reservation and its pods are checked one by one.
func (p *enqueuing) jobEnqueued(obj any) {
	job := obj.(*api.JobInfo)
	if request, refusal := p.checkEnqueue(job); refusal == nil {
		p.Cache.Reservations.RecordEnqueued(job, request)
		p.sums.reserve(job.Queue, p.Ledger.DropUngranted(string(job.Queue), request))
	}
}

// checkEnqueueQuota returns why the request of a job does not fit the quota now, nil if it
// does.
func (p *enqueuing) checkEnqueueQuota(job *api.JobInfo, request quota.JobRequest) *workload.Refusal {
	asked := refusedRequest{job.Queue, job.Priority, p.mayPreemptOnceEnqueued(job), request.Key()}
	if refusal, isRefused := p.refusedRequests[asked]; isRefused {
		return refusal
	}

	insufficient := p.checkEnqueueBesidePreemptable(job, request)
	if insufficient == nil {
		return nil
	}

	p.nameOneOfAny(insufficient)
	refusal := p.QueueRules[job.Queue].RefusalFor(insufficient)
	if p.refusedRequests == nil {
		p.refusedRequests = map[refusedRequest]*workload.Refusal{}
	}
	p.refusedRequests[asked] = refusal

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
func (p *enqueuing) nameOneOfAny(insufficient *quota.InsufficientQuota) {
	names := insufficient.Names
	if len(names) < 2 || insufficient.Limit > 0 {
		return
	}
	isAll := func(resource corev1.ResourceName) bool { return slices.Equal(p.Inventory.NamesFor(resource), names) }
	if slices.ContainsFunc(p.Inventory.ResourcesFor(names[0]), isAll) {
		insufficient.Names = names[:1]
		insufficient.OtherCards = len(names) - 1
	}
}

// reservationsOf returns the reservations of a queue.
func (p *reservationSums) reservationsOf(queue string) *quota.Reservations {
	return p.inqueue[api.QueueID(queue)]
}

// podGroupRequest is the request of a PodGroup. It is valid for the same texts, job and generation.
type podGroupRequest struct {
	annotation    string
	hasAnnotation bool
	minResources  *corev1.ResourceList
	// vcJob is the Volcano job that controls the PodGroup, nil for another owner.
	vcJob      *batch.Job
	generation uint64
	// lastSession is the last session that used it.
	lastSession uint64
	jobRequest  quota.JobRequest
	// minimumCards is how many cards the minimum requests, if the PodGroup has card.request.
	minimumCards card.Count
	refusal      *workload.Refusal
}

// isFor reports whether another request was read from the same.
func (a *podGroupRequest) isFor(other *podGroupRequest) bool {
	isSameText := a.annotation == other.annotation && a.hasAnnotation == other.hasAnnotation
	if !isSameText || a.vcJob != other.vcJob || a.generation != other.generation {
		return false
	}
	return quotav1.Equals(ptr.Deref(a.minResources, nil), ptr.Deref(other.minResources, nil))
}

// podGroupRequests are the requests of PodGroups without pods, by UID.
type podGroupRequests map[types.UID]*podGroupRequest

// removeStale removes entries that two sessions did not use.
func (r podGroupRequests) removeStale(session uint64) {
	maps.DeleteFunc(r, func(_ types.UID, a *podGroupRequest) bool { return session-a.lastSession > 1 })
}
