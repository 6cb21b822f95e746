package capacitycard

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/workload"
)

// preemptive is the gate of a pod that would take cards back from other queues:
// its service type must take from some other, and its own queue must have room
// for it. Volcano's action reclaim asks no other gate about quota.
func (p *plugin) preemptive(obj, candidate any) bool {
	_, isQueue := obj.(*api.QueueInfo)
	task, isTask := candidate.(*api.TaskInfo)
	may := isQueue && isTask && p.CanReclaim(task)
	if may {
		p.reclaimerCandidate = task.UID
	}
	return may
}

// CanReclaim reports whether a pod may have cards taken back from other queues at all.
func (p *plugin) CanReclaim(task *api.TaskInfo) bool {
	r, known := p.checkInputFor(task)
	return known && p.runChecks(reclaimChecks, r) == nil
}

// reclaimable picks the pods of one node that give way to a pod of another
// queue: those that it may not be beside, no more others than it lacks there, and none when
// free cards suffice or when it could not run afterwards either. Volcano evicts without looking at
// quota, service types, queue priorities, or what an eviction gives, so every
// rule is here; no other plugin may be asked beside it.
func (p *plugin) reclaimable(reclaimer *api.TaskInfo, reclaimees []*api.TaskInfo) ([]*api.TaskInfo, int) {
	r, known := p.checkInputFor(reclaimer)
	if len(reclaimees) == 0 || !known {
		return nil, util.Permit
	}
	r.node = reclaimees[0].NodeName
	node, known := p.ssn.Nodes[r.node]
	if !known || r.request.Count == 0 || p.runChecks(placeChecks, r) != nil {
		return nil, util.Permit
	}
	if !maps.Equal(missingResources(reclaimer.InitResreq, node.FutureIdle()), missingResources(reclaimer.InitResreq, p.FutureIdleOn(node))) {
		return nil, util.Permit // Volcano would evict too few beside pods that hang
	}
	name, _ := p.cardFor(r.request, r.node)
	_, victims, useful := p.selectVictims(reclaimer, node, name, p.reclaimCandidates(reclaimer, reclaimees, r.request.Resource))
	if !useful {
		return nil, util.Permit
	}
	return victims, util.Permit
}

// reclaimCandidates are the pods that may be reclaimed for another on one node, in the order
// in which they go. They hold cards of the resource that is needed, so of the same card.
func (p *plugin) reclaimCandidates(reclaimer *api.TaskInfo, reclaimees []*api.TaskInfo, resource corev1.ResourceName) []*api.TaskInfo {
	var candidates []*api.TaskInfo
	for _, reclaimee := range reclaimees {
		request := p.RequestFor(reclaimee)
		if request.Count > 0 && request.Resource == resource && p.CanReclaimFrom(reclaimer, reclaimee) && p.hasReachedMinRuntime(reclaimee) && !p.isEvictionInProgress(reclaimee) {
			candidates = append(candidates, reclaimee)
		}
	}
	slices.SortStableFunc(candidates, p.compareByVictimOrder)
	return candidates
}

// CanReclaimFrom tells whether a pod may be evicted for one of another queue: by
// the matrix of service types, from a reclaimable queue of lower priority, and
// unless it is protected.
func (p *plugin) CanReclaimFrom(reclaimer, reclaimee *api.TaskInfo) bool {
	reclaimerJob, victimJob := p.ssn.Jobs[reclaimer.Job], p.ssn.Jobs[reclaimee.Job]
	if reclaimerJob == nil || victimJob == nil || reclaimerJob.Queue == victimJob.Queue || !p.isEvictable(reclaimee) {
		return false
	}
	reclaimerQueue, victimQueue := p.ssn.Queues[reclaimerJob.Queue], p.ssn.Queues[victimJob.Queue]
	if reclaimerQueue == nil || victimQueue == nil || !victimQueue.Reclaimable() || victimQueue.Queue.Spec.Priority >= reclaimerQueue.Queue.Spec.Priority {
		return false
	}
	return p.args.serviceTypes.CanReclaim(p.ServiceType(reclaimer), p.ServiceType(reclaimee))
}

// hasReachedMinRuntime tells whether the job of a pod has run as long as its service type
// grants it.
func (p *plugin) hasReachedMinRuntime(task *api.TaskInfo) bool {
	least := p.MinimumRuntime(task)
	return least == 0 || RunningSince(p.ssn.Jobs[task.Job]).Add(least).Before(p.cache.now())
}

// RunningSince is the start of a job's oldest pod that is on its node, and far in
// the future when none is known to be. A pod whose kubelet has started it has its
// card, whatever it does: it may work in an init container, and then never
// counts as running.
func RunningSince(job *api.JobInfo) time.Time {
	since := time.Unix(math.MaxInt32, 0)
	for task := range tasksIn(job, isOnNode) {
		if start := startTime(task.Pod); !start.IsZero() && start.Before(since) {
			since = start
		}
	}
	return since
}

// startTime is when the kubelet started a pod, before its init containers, else
// when the pod got its node; zero when neither is known. Only the kubelet and the
// API server write either.
func startTime(pod *corev1.Pod) time.Time {
	if start := pod.Status.StartTime; start != nil {
		return start.Time
	}
	if _, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// ServiceType is the service type of a pod, "" when nothing tells.
func (p *plugin) ServiceType(task *api.TaskInfo) string {
	job, ok := p.ssn.Jobs[task.Job]
	if !ok {
		return ""
	}
	var queue, group map[string]string
	if info, ok := p.ssn.Queues[job.Queue]; ok {
		queue = info.Queue.Annotations
	}
	if job.PodGroup != nil {
		group = job.PodGroup.Annotations
	}
	return workload.ServiceTypeFor(queue, task.Pod.Annotations, group, p.args.owners.TypeFor(task.Pod))
}

// compareByVictimOrder puts first who goes for a pod of another queue: by default the lowest
// priority of the queue, then of the job, then of the pod, where only the classes count that
// the policy lists; and among equals, or with victimOrder Loss, what is lost least.
func (p *plugin) compareByVictimOrder(a, b *api.TaskInfo) int {
	if p.args.victimOrder == v1alpha1.VictimsByLoss {
		return p.compareByLoss(a, b)
	}
	x, y := p.ssn.Jobs[a.Job], p.ssn.Jobs[b.Job]
	return cmp.Or(
		cmp.Compare(p.ssn.Queues[x.Queue].Queue.Spec.Priority, p.ssn.Queues[y.Queue].Queue.Spec.Priority),
		cmp.Compare(p.JobPriority(x), p.JobPriority(y)),
		cmp.Compare(p.PodPriority(a), p.PodPriority(b)),
		p.compareByLoss(a, b),
	)
}

// compareByLoss puts first what is lost least by an eviction, as far as one pod tells:
// pods of jobs that are broken already, pods above their job's minimum, then by
// the priority of queue, job and pod, then the youngest.
func (p *plugin) compareByLoss(a, b *api.TaskInfo) int {
	x, y := p.ssn.Jobs[a.Job], p.ssn.Jobs[b.Job]
	return cmp.Or(
		cmp.Compare(evictionImpact(x), evictionImpact(y)),
		cmp.Compare(p.ssn.Queues[x.Queue].Queue.Spec.Priority, p.ssn.Queues[y.Queue].Queue.Spec.Priority),
		cmp.Compare(x.Priority, y.Priority),
		cmp.Compare(a.Priority, b.Priority),
		b.Pod.CreationTimestamp.Compare(a.Pod.CreationTimestamp.Time),
		cmp.Compare(a.UID, b.UID),
	)
}

// evictionImpact is what the eviction of one pod does to its job: 0 nothing more, as
// it is below its minimum already, 1 it goes on with fewer pods, 2 it breaks.
func evictionImpact(job *api.JobInfo) int {
	switch ready := job.ReadyTaskNum(); {
	case ready < job.MinAvailable:
		return 0
	case ready > job.MinAvailable:
		return 1
	default:
		return 2
	}
}
