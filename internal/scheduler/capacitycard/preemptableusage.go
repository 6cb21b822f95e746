package capacitycard

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

// checkEnqueueBesidePreemptable is CheckEnqueue for a job that may preempt others: it counts
// what these use as elastic. Otherwise the jobs of a full queue would keep out every job that
// may preempt them, since Volcano's preempt passes over jobs that are not enqueued.
func (p *enqueuing) checkEnqueueBesidePreemptable(job *api.JobInfo, request quota.JobRequest) *quota.InsufficientQuota {
	insufficient := p.Ledger.CheckEnqueue(string(job.Queue), p.sums.reservationsOf, request, p.Args.OverCommitFactor)
	if insufficient == nil || !p.mayPreemptOnceEnqueued(job) {
		return insufficient
	}

	usage := p.preemptableUsageFor(queuePriority{job.Queue, job.Priority})
	if len(usage.all) == 0 {
		return insufficient
	}

	beside := func(queue string) *quota.Reservations {
		return p.sums.reservationsOf(queue).ReplaceElastic(usage.elastic, usage.all, usage.unreclaimable)
	}
	if p.Ledger.CheckEnqueue(string(job.Queue), beside, request, p.Args.OverCommitFactor) == nil {
		return nil
	}

	return insufficient
}

// mayPreemptOnceEnqueued reports whether the action preempt runs and evicts pods for a job. The
// job is below its minimum, since it is about to be enqueued. Volcano's preempt passes over
// jobs with a network topology.
func (p *enqueuing) mayPreemptOnceEnqueued(job *api.JobInfo) bool {
	if !conf.EnabledActionMap[schedulerconfig.Preempt] || job.ContainsNetworkTopology() {
		return false
	}
	if len(job.Tasks) == 0 {
		return !p.announcesNeverToPreempt(job)
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
func (p *enqueuing) announcesNeverToPreempt(job *api.JobInfo) bool {
	class := job.PodGroup.Spec.PriorityClassName
	owner := workload.VCJobOwner(&job.PodGroup.PodGroup)
	if owner == "" {
		return p.isNeverClass(class)
	}

	vcJob := p.findVCJob(job, owner)
	return vcJob != nil && slices.ContainsFunc(vcJob.Spec.Tasks, func(task batch.TaskSpec) bool {
		spec := &task.Template.Spec
		if spec.PreemptionPolicy != nil {
			return *spec.PreemptionPolicy == corev1.PreemptNever
		}
		return p.isNeverClass(cmp.Or(spec.PriorityClassName, class))
	})
}

// isNeverClass reports whether pods of a PriorityClass never preempt, false for an unknown one. "" is the
// default class of the cluster.
func (p *enqueuing) isNeverClass(name string) bool {
	class := p.priorityClass(name)
	if name == "" {
		class = p.defaultPriorityClass()
	}
	return class != nil && ptr.Deref(class.PreemptionPolicy, "") == corev1.PreemptNever
}

// defaultPriorityClass returns the class of pods that name none, nil if they have no class. Of several
// default classes the API server takes the lowest.
func (p *enqueuing) defaultPriorityClass() (lowest *schedulingv1.PriorityClass) {
	classes, err := p.Volcano.InformerFactory().Scheduling().V1().PriorityClasses().Lister().List(labels.Everything())
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

// preemptableUsageFor returns what jobs of lower priority use in a queue and may give as a
// whole, and what pods use whose eviction is under way. It is summed once in a session.
func (p *enqueuing) preemptableUsageFor(key queuePriority) *preemptableUsage {
	if known := p.preemptableUsages[key]; known != nil {
		return known
	}

	usage := &preemptableUsage{}
	for _, job := range p.jobsWithPods(key.queue) {
		if job.Priority < key.priority && p.preemption.IsEvictableAsAWhole(job) {
			usage.add(p.sums.elasticUsages[job.UID], p.sums.elasticUsage(job, len(job.Tasks)))
			for task := range gang.TasksIn(job, api.AllocatedStatus) {
				usage.addUnreclaimable(p.ChargeInQueue(key.queue, task))
			}
		}
	}

	// An evicted pod keeps its charge until it is deleted, but its quota is on the way already.
	for _, task := range p.evictions.Requested {
		charge := p.ChargeInQueue(key.queue, task)
		state := p.Cache.Pods[task.Pod.UID]
		if charge != nil && state != nil && state.ChargedAs == cache.ChargedAsUsed {
			usage.add(quota.ElasticUsage{}, quota.ElasticUsageOf(charge))
			usage.addUnreclaimable(charge)
		}
	}

	if p.preemptableUsages == nil {
		p.preemptableUsages = map[queuePriority]*preemptableUsage{}
	}
	p.preemptableUsages[key] = usage

	return usage
}

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
func (p *enqueuing) jobsWithPods(queue api.QueueID) []*api.JobInfo {
	if p.placedJobs == nil {
		p.placedJobs = map[api.QueueID][]*api.JobInfo{}
		for _, job := range p.Volcano.Jobs {
			if job.PodGroup != nil && len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Bound]) > 0 {
				p.placedJobs[job.Queue] = append(p.placedJobs[job.Queue], job)
			}
		}
	}
	return p.placedJobs[queue]
}
