package capacitycard

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// missingMinimum returns what a job still needs for its minMember. It reads the pods once they
// exist, and before them the annotation card.request and minResources.
func (p *plugin) missingMinimum(job *api.JobInfo) (quota.JobRequest, *workload.Refusal) {
	if len(job.Tasks) == 0 {
		known := p.podGroupRequestFor(job)
		return known.jobRequest, known.refusal
	}
	var all quota.JobRequestBuilder
	for _, task := range p.missingTasks(job) {
		request := p.RequestFor(task)
		if request.Denied != nil {
			return quota.JobRequest{}, request.Denied
		}
		all.Add(request.Request)
	}
	return all.JobRequest, nil
}

// missingTasks returns the pending pods that a job lacks for its minimum: first those that a
// task role requires, then the smallest of the rest. So the plugin never refuses a job for more
// than it needs.
func (p *plugin) missingTasks(job *api.JobInfo) []*api.TaskInfo {
	if len(job.TaskStatusIndex[api.Pending]) == 0 {
		return nil
	}
	have, ready := CountByRole(job, false)
	var pending []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			pending = append(pending, task)
		}
	}
	slices.SortFunc(pending, func(a, b *api.TaskInfo) int {
		x, y := p.RequestFor(a), p.RequestFor(b)
		return cmp.Or(cmp.Compare(x.Count, y.Count), cmp.Compare(x.MilliCPU, y.MilliCPU), cmp.Compare(x.Memory, y.Memory), cmp.Compare(a.UID, b.UID))
	})
	return SelectToMinimum(job, have, ready, pending)
}

// CountByRole counts the pods of a job that have a node or have succeeded, in total and per
// task role. pipelined includes pipelined pods.
func CountByRole(job *api.JobInfo, pipelined bool) (all int32, roles map[string]int32) {
	roles = map[string]int32{}
	for status, tasks := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) || status == api.Succeeded || pipelined && status == api.Pipelined {
			all += int32(len(tasks))
			for _, task := range tasks {
				roles[task.TaskRole]++
			}
		}
	}
	return all, roles
}

// tasksIn yields the tasks of a job with such a status.
func tasksIn(job *api.JobInfo, has func(api.TaskStatus) bool) iter.Seq[*api.TaskInfo] {
	return func(yield func(*api.TaskInfo) bool) {
		for status, tasks := range job.TaskStatusIndex {
			if !has(status) {
				continue
			}
			for _, task := range tasks {
				if !yield(task) {
					return
				}
			}
		}
	}
}

// SelectToMinimum selects from pending pods, in their order, those that complete a job's
// minimum: first those that a task role requires, then the first of the rest. have is how many
// pods the job has, roles how many per task role; it changes roles.
func SelectToMinimum(job *api.JobInfo, have int32, roles map[string]int32, pending []*api.TaskInfo) []*api.TaskInfo {
	var picked, rest []*api.TaskInfo
	perRole := job.MinAvailable >= job.TaskMinAvailableTotal
	for _, task := range pending {
		if perRole && roles[task.TaskRole] < job.TaskMinAvailable[task.TaskRole] {
			roles[task.TaskRole]++
			picked = append(picked, task)
		} else {
			rest = append(rest, task)
		}
	}
	if more := int(job.MinAvailable-have) - len(picked); more > 0 {
		picked = append(picked, rest[:min(more, len(rest))]...)
	}
	return picked
}

// elasticUsage returns what a job uses, and how much of it is above the minimum: that of its
// smallest pods.
func (p *plugin) elasticUsage(job *api.JobInfo, aboveMinimum int) quota.ElasticUsage {
	e := quota.ElasticUsage{Used: map[card.Name]card.Count{}}
	var cards, milliCPU, memory []int64
	for task := range tasksIn(job, api.AllocatedStatus) {
		charge := p.chargeInQueue(job.Queue, task)
		if charge == nil {
			continue
		}
		for _, held := range charge.Cards {
			e.Used[held.Name] = e.Used[held.Name].Add(held.Count)
			cards = append(cards, int64(held.Count))
		}
		milliCPU, memory = append(milliCPU, charge.MilliCPU), append(memory, charge.Memory)
	}
	e.Elastic, e.MilliCPU, e.Memory = card.Count(sumOfSmallest(cards, aboveMinimum)), sumOfSmallest(milliCPU, aboveMinimum), sumOfSmallest(memory, aboveMinimum)
	return e
}

// sumOfSmallest returns the sum of the n smallest amounts.
func sumOfSmallest(amounts []int64, n int) (sum int64) {
	slices.Sort(amounts)
	for _, amount := range amounts[:min(n, len(amounts))] {
		sum = quota.AddSaturating(sum, amount)
	}
	return sum
}

// podGroupRequestFor returns what a PodGroup without pods requests. It parses only a changed
// PodGroup, since the longest card.request takes milliseconds. Callers must not change the
// demands. Volcano copies the PodGroup in each session, but its strings stay the same.
func (p *plugin) podGroupRequestFor(job *api.JobInfo) *podGroupRequest {
	annotation, hasAnnotation := workload.CardRequestAnnotation(&job.PodGroup.PodGroup)
	minResources := job.PodGroup.Spec.MinResources
	if known, ok := p.cache.podGroupRequests[job.PgUID]; ok && known.annotation == annotation && known.hasAnnotation == hasAnnotation &&
		known.generation == p.cache.requestGeneration && quotav1.Equals(ptr.Deref(known.minResources, nil), ptr.Deref(minResources, nil)) {
		known.lastSession = p.cache.session
		return known
	}
	fresh := &podGroupRequest{annotation: annotation, hasAnnotation: hasAnnotation, minResources: minResources, generation: p.cache.requestGeneration, lastSession: p.cache.session}
	fresh.jobRequest, fresh.refusal = p.cache.resolver.PodGroupRequest(annotation, hasAnnotation, minResources)
	if p.cache.cardUnlimitedCPUMemory && len(fresh.jobRequest.Demands) > 0 {
		// minResources does not say which pods the CPU is for. The pods are checked one by one
		// when they exist.
		fresh.jobRequest.MilliCPU, fresh.jobRequest.Memory = 0, 0
	}
	p.cache.podGroupRequests[job.PgUID] = fresh
	return fresh
}

// withTotalHint adds to the refusal of a job without pods that card.request exceeds what the
// job needs to start.
func (p *plugin) withTotalHint(job *api.JobInfo, refusal *workload.Refusal) *workload.Refusal {
	if _, written := workload.CardRequestAnnotation(&job.PodGroup.PodGroup); !written || len(job.Tasks) > 0 || refusal.Reason != workload.ReasonInsufficientScalarQuota {
		return refusal
	}
	minimum, _ := p.cache.resolver.PodGroupRequest("", false, job.PodGroup.Spec.MinResources)
	total, least := sumDemands(p.podGroupRequestFor(job).jobRequest.Demands), sumDemands(minimum.Demands)
	if total <= least {
		return refusal
	}
	hinted := *refusal
	hint := fmt.Sprintf(" (%s asks for %d cards in all, the job's minimum is %d)", v1alpha1.AnnotationCardRequest, total, least)
	hinted.Message, hinted.Topic = hinted.Message+hint, hinted.Topic+hint
	return &hinted
}

func sumDemands(demands []quota.Demand) (sum card.Count) {
	for _, d := range demands {
		sum = sum.Add(d.Count)
	}
	return sum
}

// jobValid delays a restarted gang while succeeded pods of its last run are still being
// deleted. Volcano counts these as ready (ReadyTaskNum), so it would bind the first new pods
// without the rest of the gang.
func jobValid(obj any) *api.ValidateResult {
	job := obj.(*api.JobInfo)
	leaving := int32(0)
	for _, task := range job.TaskStatusIndex[api.Succeeded] {
		if task.Pod.DeletionTimestamp != nil {
			leaving++
		}
	}
	if leaving == 0 || job.MinAvailable <= 1 || job.ReadyTaskNum()-leaving >= job.MinAvailable {
		return nil
	}
	return &api.ValidateResult{
		Reason:  v1beta1.NotEnoughPodsReason,
		Message: fmt.Sprintf("%d pods of the last run are still being deleted", leaving),
	}
}

// jobEnqueueable checks a job before its pods may wait for cards. It only votes. jobEnqueued
// reserves, after every other plugin has agreed.
func (p *plugin) jobEnqueueable(obj any) int {
	p.reportLongSession()
	job := obj.(*api.JobInfo)
	if _, refusal := p.checkEnqueue(job); refusal != nil {
		p.recordJobUnschedulable(job, p.withTotalHint(job, refusal))
		return util.Reject
	}
	return util.Permit
}

// checkEnqueue returns the request of a job, and why it may not be enqueued, nil if it may.
func (p *plugin) checkEnqueue(job *api.JobInfo) (quota.JobRequest, *workload.Refusal) {
	if refusal := p.checkQueue(job); refusal != nil {
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
func (p *plugin) jobEnqueued(obj any) {
	job := obj.(*api.JobInfo)
	if request, refusal := p.checkEnqueue(job); refusal == nil {
		p.cache.reservations.recordEnqueued(job, request)
		p.inqueue[job.Queue].Add(p.ledger.DropUngranted(string(job.Queue), request))
	}
}

// reserveForJob reserves what an enqueued job still waits for, unless its reservation timed
// out, and adds what a running job uses above its minimum. allocated is how many of its pods
// are placed. A barred job may not use its queue, so it gets no reservation.
func (p *plugin) reserveForJob(job *api.JobInfo, allocated int, barred bool) {
	inqueue, ok := p.inqueue[job.Queue]
	if !ok || job.PodGroup == nil {
		return
	}
	switch job.PodGroup.Status.Phase {
	case scheduling.PodGroupInqueue, scheduling.PodGroupRunning, scheduling.PodGroupUnknown:
	default:
		return
	}
	if !barred && (job.PodGroup.Status.Phase == scheduling.PodGroupRunning || p.cache.reservations.isActive(job.PgUID, p.cache.now())) {
		if request, refusal := p.missingMinimum(job); refusal == nil && !request.IsEmpty() {
			if excess := p.cache.reservations.unreservedExcess(job, request); p.fitsAlone(job, request) {
				inqueue.Add(p.ledger.DropUngranted(string(job.Queue), request.Without(excess)))
				if !excess.IsEmpty() {
					p.unreserved = append(p.unreserved, unreservedJob{job, request, excess})
				}
			}
		}
	}
	if aboveMinimum := allocated - int(job.MinAvailable); aboveMinimum > 0 {
		inqueue.AddElastic(p.elasticUsage(job, aboveMinimum))
	}
}

// fitsAlone reports whether a job would be enqueued if it had its queue to itself. A job
// enqueued under a larger quota cannot start, so it reserves nothing.
func (p *plugin) fitsAlone(job *api.JobInfo, request quota.JobRequest) bool {
	return p.ledger.FitsAlone(string(job.Queue), p.jobCharges(job), request, p.args.overCommitFactor)
}

// jobCharges returns the charges of the job's placed pods in its queue.
func (p *plugin) jobCharges(job *api.JobInfo) (charges []*quota.Charge) {
	for task := range tasksIn(job, api.AllocatedStatus) {
		if charge := p.chargeInQueue(job.Queue, task); charge != nil {
			charges = append(charges, charge)
		}
	}
	return charges
}

// unreservedJob is a job that requests more than its reservation.
type unreservedJob struct {
	job *api.JobInfo
	// request is what it waits for, excess the part without a reservation.
	request, excess quota.JobRequest
}

// reserveUnreserved reserves the excess of jobs as far as it would be enqueued now, after all
// charges are known. An Inqueue or Running phase does not prove that the plugin accepted a job.
// Volcano does not ask about one without minResources, and its request may change later. A
// restarted scheduler has no reservations and keeps free what fits.
func (p *plugin) reserveUnreserved() {
	jobs := p.unreserved
	slices.SortFunc(jobs, func(a, b unreservedJob) int {
		return cmp.Or(a.job.CreationTimestamp.Compare(b.job.CreationTimestamp.Time), cmp.Compare(a.job.UID, b.job.UID))
	})
	for _, u := range jobs {
		if p.checkQueue(u.job) != nil || p.checkEnqueueQuota(u.job, u.excess) != nil {
			continue
		}
		p.inqueue[u.job.Queue].Add(p.ledger.DropUngranted(string(u.job.Queue), u.excess))
		if p.cache.cacheSync.synced { // before that the ledger misses charges
			p.cache.reservations.recordEnqueued(u.job, u.request)
		}
	}
	p.unreserved = nil
}

// checkEnqueueQuota returns why the request of a job does not fit the quota now, nil if it
// does.
func (p *plugin) checkEnqueueQuota(job *api.JobInfo, request quota.JobRequest) *workload.Refusal {
	if insufficient := p.ledger.CheckEnqueue(string(job.Queue), *p.inqueue[job.Queue], request, p.args.overCommitFactor); insufficient != nil {
		return p.queueRules[job.Queue].RefusalFor(insufficient)
	}
	return nil
}

// recordProgress restarts the reservation of PodGroups with pods placed at the end of the
// session, or with nodes nominated for all they lack. Undone placements are no progress.
// Neither are pipelined pods of an incomplete gang, since Volcano's preempt creates them in
// every session.
func (p *plugin) recordProgress() {
	for _, job := range p.ssn.Jobs {
		placed := len(job.TaskStatusIndex[api.Allocated]) + len(job.TaskStatusIndex[api.Binding])
		if placed > 0 || len(job.TaskStatusIndex[api.Pipelined]) > 0 && p.ssn.JobPipelined(job) {
			p.cache.reservations.restartWait(job.PgUID, p.cache.now())
		}
	}
}
