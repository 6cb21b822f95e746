package enqueue

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/scheduler/gang"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/workload"
)

// preemptableUsage is what other jobs of a queue use and preempt could evict for a job.
type preemptableUsage struct {
	// elastic is what the reservations count already, all what the jobs give as a whole,
	// unreclaimable the part of all that other queues could not reclaim.
	elastic, all, unreclaimable []quota.ElasticUsage
}

// queuePriority is a priority of jobs in a queue.
type queuePriority struct {
	queue    api.QueueID
	priority int32
}

// checkEnqueueBesidePreemptable returns what a job's queue lacks for its request, nil if it lacks nothing.
// For a job that may preempt others, what these others use counts as elastic: it does not keep the job out.
// Otherwise a full queue would keep out every job that may preempt there, since Volcano's preempt passes over
// jobs that are not enqueued.
func (v *Votes) checkEnqueueBesidePreemptable(job *api.JobInfo, request quota.JobRequest) *quota.InsufficientQuota {
	insufficient := v.Ledger.CheckEnqueue(string(job.Queue), v.sums.Of, request, v.Args.OverCommitFactor)
	if insufficient == nil || !v.mayPreemptOnceEnqueued(job) {
		return insufficient
	}

	usage := v.preemptableUsageFor(queuePriority{job.Queue, job.Priority})
	if len(usage.all) == 0 {
		return insufficient
	}

	beside := func(queue string) *quota.Reservations {
		return v.sums.Of(queue).ReplaceElastic(usage.elastic, usage.all, usage.unreclaimable)
	}
	if v.Ledger.CheckEnqueue(string(job.Queue), beside, request, v.Args.OverCommitFactor) == nil {
		return nil
	}

	return insufficient
}

// mayPreemptOnceEnqueued reports whether the action preempt runs and evicts pods for a job. The
// job is below its minimum, since it is about to be enqueued. Volcano's preempt passes over
// jobs with a network topology. One pod that never preempts is enough: without it the gang does not start.
func (v *Votes) mayPreemptOnceEnqueued(job *api.JobInfo) bool {
	if !conf.EnabledActionMap[schedulerconfig.Preempt] || job.ContainsNetworkTopology() {
		return false
	}
	if len(job.Tasks) == 0 {
		return !v.announcesNeverToPreempt(job)
	}

	for _, task := range job.TaskStatusIndex[api.Pending] {
		if gang.NeverPreempts(task) {
			return false
		}
	}

	return true
}

// announcesNeverToPreempt reports whether some pod of a job, whose pods do not exist yet, will have the preemption
// policy Never: that of its template, else of its PriorityClass, as the API server sets it. A pod of
// a Volcano job has the class of the job unless its template names one. A pod without a class gets the
// default one of the cluster.
func (v *Votes) announcesNeverToPreempt(job *api.JobInfo) bool {
	class := job.PodGroup.Spec.PriorityClassName
	owner := workload.VCJobOwner(&job.PodGroup.PodGroup)
	if owner == "" {
		return v.isNeverClass(class)
	}

	vcJob := v.findVCJob(job, owner)
	return vcJob != nil && slices.ContainsFunc(vcJob.Spec.Tasks, func(task batch.TaskSpec) bool {
		spec := &task.Template.Spec
		if spec.PreemptionPolicy != nil {
			return *spec.PreemptionPolicy == corev1.PreemptNever
		}
		return v.isNeverClass(cmp.Or(spec.PriorityClassName, class))
	})
}

// isNeverClass reports whether pods of a PriorityClass never preempt, false for an unknown one. "" is the
// default class of the cluster.
func (v *Votes) isNeverClass(name string) bool {
	class := v.priorityClass(name)
	if name == "" {
		class = v.defaultPriorityClass()
	}
	return class != nil && ptr.Deref(class.PreemptionPolicy, "") == corev1.PreemptNever
}

// defaultPriorityClass returns the class of pods that name none, nil if they have no class. Of several
// default classes the API server takes the lowest.
func (v *Votes) defaultPriorityClass() (lowest *schedulingv1.PriorityClass) {
	classes, err := v.Volcano.InformerFactory().Scheduling().V1().PriorityClasses().Lister().List(labels.Everything())
	if err != nil {
		return nil
	}
	for _, class := range classes {
		if class.GlobalDefault && (lowest == nil || class.Value < lowest.Value) {
			lowest = class
		}
	}
	return lowest
}

// preemptableUsageFor returns what those jobs of lower priority use in a queue that may be evicted as a
// whole, and what pods use whose eviction was requested. It is summed once in a session.
func (v *Votes) preemptableUsageFor(key queuePriority) *preemptableUsage {
	if known := v.preemptableUsages[key]; known != nil {
		return known
	}

	usage := &preemptableUsage{}
	for _, job := range v.jobsWithPods(key.queue) {
		// All of the job counts, in the place of the pods above its minimum that count already.
		if job.Priority < key.priority && v.preemption.IsEvictableAsAWhole(job) {
			usage.add(v.sums.elasticUsages[job.UID], v.sums.elasticUsage(job, len(job.Tasks)))
			for task := range gang.TasksIn(job, api.AllocatedStatus) {
				usage.addUnreclaimable(v.ChargeInQueue(key.queue, task))
			}
		}
	}

	// A pod whose eviction was requested keeps its charge until it is deleted, but the quota will be released
	// soon. A charge that does not count as used has been released already.
	for _, task := range v.evictions.Requested {
		charge := v.ChargeInQueue(key.queue, task)
		state := v.Cache.Pods[task.Pod.UID]
		if charge != nil && state != nil && state.ChargedAs == cache.ChargedAsUsed {
			usage.add(quota.ElasticUsage{}, quota.ElasticUsageOf(charge))
			usage.addUnreclaimable(charge)
		}
	}

	if v.preemptableUsages == nil {
		v.preemptableUsages = map[queuePriority]*preemptableUsage{}
	}
	v.preemptableUsages[key] = usage

	return usage
}

// add adds what a job gives: what counts as elastic already, and all that it uses.
func (u *preemptableUsage) add(elastic, all quota.ElasticUsage) {
	u.elastic = append(u.elastic, elastic)
	u.all = append(u.all, all)
}

// addUnreclaimable adds what a pod gives, if other queues could not reclaim it. charge may be nil.
func (u *preemptableUsage) addUnreclaimable(charge *quota.Charge) {
	if charge != nil && charge.IsUnreclaimable {
		u.unreclaimable = append(u.unreclaimable, quota.ElasticUsageOf(charge))
	}
}

// jobsWithPods returns the jobs of a queue with pods on nodes. It lists those of all queues
// once in a session.
func (v *Votes) jobsWithPods(queue api.QueueID) []*api.JobInfo {
	if v.placedJobs == nil {
		v.placedJobs = map[api.QueueID][]*api.JobInfo{}
		for _, job := range v.Volcano.Jobs {
			if job.PodGroup != nil && len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) > 0 {
				v.placedJobs[job.Queue] = append(v.placedJobs[job.Queue], job)
			}
		}
	}
	return v.placedJobs[queue]
}
