package enqueue

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// PodGroupRequest is the request of a PodGroup. It is valid for the same texts, job and generation.
type PodGroupRequest struct {
	annotation    string
	hasAnnotation bool
	minResources  *corev1.ResourceList
	// vcJob is the Volcano job that controls the PodGroup, nil for another owner.
	vcJob      *batch.Job
	generation uint64
	// lastSession is the last session that used it.
	lastSession uint64
	JobRequest  quota.JobRequest
	// minimumCards is how many cards the minimum requests, if the PodGroup has card.request.
	minimumCards card.Count
	refusal      *workload.Refusal
}

// isFor reports whether another request was read from the same texts, job and generation.
func (r *PodGroupRequest) isFor(other *PodGroupRequest) bool {
	isSameText := r.annotation == other.annotation && r.hasAnnotation == other.hasAnnotation
	if !isSameText || r.vcJob != other.vcJob || r.generation != other.generation {
		return false
	}
	return quotav1.Equals(ptr.Deref(r.minResources, nil), ptr.Deref(other.minResources, nil))
}

// PodGroupRequests are the requests of PodGroups without pods, by UID.
type PodGroupRequests map[types.UID]*PodGroupRequest

// RemoveStale removes entries that two sessions did not use.
func (r PodGroupRequests) RemoveStale(session uint64) {
	maps.DeleteFunc(r, func(_ types.UID, known *PodGroupRequest) bool { return session-known.lastSession > 1 })
}

// PodGroupRequestFor returns what a PodGroup without pods requests: by the templates of its Volcano job, by
// minResources if it has no such job, and by the annotation card.request. It parses only a changed PodGroup,
// since the longest card.request takes milliseconds. Volcano copies the PodGroup in each session, so the
// texts are compared. Callers must not change the requests.
func (v *Votes) PodGroupRequestFor(job *api.JobInfo) *PodGroupRequest {
	annotation, hasAnnotation := workload.CardRequestAnnotation(&job.PodGroup.PodGroup)
	read := PodGroupRequest{
		annotation: annotation, hasAnnotation: hasAnnotation, minResources: job.PodGroup.Spec.MinResources,
		generation: v.Cache.RequestGeneration, lastSession: v.Cache.SessionCount,
	}

	if owner := workload.VCJobOwner(&job.PodGroup.PodGroup); owner != "" {
		read.vcJob = v.findVCJob(job, owner)
		if read.vcJob == nil {
			read.refusal = &workload.Refusal{Code: workload.CodeVCJobUnknown, Object: job.Namespace + "/" + owner}
			return &read // it may be known in the next session
		}
	}

	if known, ok := v.podGroups[job.PgUID]; ok && known.isFor(&read) {
		known.lastSession = v.Cache.SessionCount
		return known
	}

	// card.request is the total of all pods. The larger of it and the minimum counts.
	read.JobRequest, read.refusal = v.announcedBy(&read, hasAnnotation)
	if hasAnnotation {
		least, _ := v.announcedBy(&read, false) // the minimum, which withTotalHint compares
		read.minimumCards = sumCards(least.Cards)
	}

	if v.Cache.CardUnlimitedCPUMemory && len(read.JobRequest.Cards) > 0 {
		// CPU and memory of pods with cards are not limited then, and minResources does not say which pods they
		// are for. The pods are checked one by one when they exist.
		read.JobRequest.MilliCPU = 0
		read.JobRequest.Memory = 0
	}

	v.podGroups[job.PgUID] = &read
	return &read
}

// announcedBy returns what a PodGroup without pods announces: with the total of card.request, or only what its
// minimum requests.
func (v *Votes) announcedBy(read *PodGroupRequest, withTotal bool) (quota.JobRequest, *workload.Refusal) {
	if read.vcJob != nil {
		return v.Cache.Resolver.VCJobRequest(read.annotation, withTotal, read.vcJob, v.classPriority)
	}
	return v.Cache.Resolver.PodGroupRequest(read.annotation, withTotal, read.minResources)
}

// findVCJob returns the Volcano job that controls the PodGroup of a job, nil while it is not known. name is that of the
// controller of the PodGroup, so there is one. Another job of the same name does not count.
func (v *Votes) findVCJob(job *api.JobInfo, name string) *batch.Job {
	if !v.Cache.VCJobs().OpenSession(v.Volcano) { // not all jobs are read yet
		return nil
	}
	found, known := v.Cache.VCJobs().VCJob(job.Namespace, name)
	if !known || found.UID != metav1.GetControllerOf(&job.PodGroup.PodGroup).UID {
		return nil
	}
	return found
}

// classPriority returns the value of a PriorityClass, 0 for an unknown one.
func (v *Votes) classPriority(name string) int32 {
	if class := v.priorityClass(name); class != nil {
		return class.Value
	}
	return 0
}

// priorityClass returns a PriorityClass, nil for an unknown one.
func (v *Votes) priorityClass(name string) *schedulingv1.PriorityClass {
	if name == "" {
		return nil
	}
	class, err := v.Volcano.InformerFactory().Scheduling().V1().PriorityClasses().Lister().Get(name)
	if err != nil {
		return nil
	}
	return class
}

// sumCards returns how many cards some requests have together, whatever their names.
func sumCards(cards []quota.CardRequest) (sum card.Count) {
	for _, request := range cards {
		sum = sum.Add(request.Count)
	}
	return sum
}
