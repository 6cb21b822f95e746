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

// minimum is what a job needs before any of it can run: the worth of its
// minMember, without what it already has. Once pods exist they tell; before,
// the annotation card.request and minResources do.
func (p *plugin) minimum(job *api.JobInfo) (quota.JobRequest, *workload.Refusal) {
	if len(job.Tasks) == 0 {
		known := p.announcement(job)
		return known.application, known.refusal
	}
	var all quota.JobRequestBuilder
	for _, task := range p.missing(job) {
		ask := p.Ask(task)
		if ask.Denied != nil {
			return quota.JobRequest{}, ask.Denied
		}
		all.Add(ask.Request)
	}
	return all.JobRequest, nil
}

// missing picks the pending pods that a job lacks to its minimum: first what
// each task role must have of its own, then the cheapest of the rest, so that
// a job is never refused for more than it needs.
func (p *plugin) missing(job *api.JobInfo) []*api.TaskInfo {
	if len(job.TaskStatusIndex[api.Pending]) == 0 {
		return nil
	}
	have, ready := RolesOf(job, false)
	var pending []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			pending = append(pending, task)
		}
	}
	slices.SortFunc(pending, func(a, b *api.TaskInfo) int {
		x, y := p.Ask(a), p.Ask(b)
		return cmp.Or(cmp.Compare(x.Count, y.Count), cmp.Compare(x.MilliCPU, y.MilliCPU), cmp.Compare(x.Memory, y.Memory), cmp.Compare(a.UID, b.UID))
	})
	return ToMinimum(job, have, ready, pending)
}

// RolesOf counts the pods of a job that have a node or have succeeded, in all and by task
// role, with those that were promised a node if these are asked for.
func RolesOf(job *api.JobInfo, promised bool) (all int32, roles map[string]int32) {
	roles = map[string]int32{}
	for status, tasks := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) || status == api.Succeeded || promised && status == api.Pipelined {
			all += int32(len(tasks))
			for _, task := range tasks {
				roles[task.TaskRole]++
			}
		}
	}
	return all, roles
}

// tasksIn are the tasks of a job with such a status.
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

// ToMinimum picks from waiting pods, in their order, those that bring a job to
// its minimum: first what each task role must have of its own, then the first of
// the rest. have is how many pods the job has already, and roles how many of each
// task role; roles is changed.
func ToMinimum(job *api.JobInfo, have int32, roles map[string]int32, waiting []*api.TaskInfo) []*api.TaskInfo {
	var picked, rest []*api.TaskInfo
	perRole := job.MinAvailable >= job.TaskMinAvailableTotal
	for _, task := range waiting {
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

// elastic is what a job holds of which so many pods are above its minimum: those that
// hold the least.
func (p *plugin) elastic(job *api.JobInfo, spare int) quota.ElasticUsage {
	e := quota.ElasticUsage{Used: map[card.Name]card.Count{}}
	var cards, milliCPU, memory []int64
	for task := range tasksIn(job, api.AllocatedStatus) {
		charge := p.chargeIn(job.Queue, task)
		if charge == nil {
			continue
		}
		for _, held := range charge.Cards {
			e.Used[held.Name] = e.Used[held.Name].Add(held.Count)
			cards = append(cards, int64(held.Count))
		}
		milliCPU, memory = append(milliCPU, charge.MilliCPU), append(memory, charge.Memory)
	}
	e.Elastic, e.MilliCPU, e.Memory = card.Count(least(cards, spare)), least(milliCPU, spare), least(memory, spare)
	return e
}

// least is the sum of the n smallest amounts.
func least(amounts []int64, n int) (sum int64) {
	slices.Sort(amounts)
	for _, amount := range amounts[:min(n, len(amounts))] {
		sum = quota.AddSaturating(sum, amount)
	}
	return sum
}

// announcement is what a PodGroup says, read anew only if it says something else: to read
// the longest card.request takes milliseconds. Nobody may change its demands. Volcano hands out a copy in each session,
// whose texts are still the same ones.
func (p *plugin) announcement(job *api.JobInfo) *announcement {
	request, requests := workload.CardRequestAnnotation(&job.PodGroup.PodGroup)
	least := job.PodGroup.Spec.MinResources
	if known, ok := p.cache.announced[job.PgUID]; ok && known.request == request && known.requests == requests &&
		known.meaning == p.cache.meaning && quotav1.Equals(ptr.Deref(known.least, nil), ptr.Deref(least, nil)) {
		known.session = p.cache.session
		return known
	}
	read := &announcement{request: request, requests: requests, least: least, meaning: p.cache.meaning, session: p.cache.session}
	read.application, read.refusal = p.cache.resolver.PodGroupRequest(request, requests, least)
	if p.cache.unlimited && len(read.application.Demands) > 0 {
		// minResources does not tell which pods the CPU is for; the pods are
		// held to it one by one when they exist.
		read.application.MilliCPU, read.application.Memory = 0, 0
	}
	p.cache.announced[job.PgUID] = read
	return read
}

// withTotal adds to the refusal of a job without pods that its maker asks for more than
// it needs to begin.
func (p *plugin) withTotal(job *api.JobInfo, refusal *workload.Refusal) *workload.Refusal {
	if _, written := workload.CardRequestAnnotation(&job.PodGroup.PodGroup); !written || len(job.Tasks) > 0 || refusal.Reason != workload.ReasonInsufficientScalarQuota {
		return refusal
	}
	minimum, _ := p.cache.resolver.PodGroupRequest("", false, job.PodGroup.Spec.MinResources)
	total, least := worth(p.announcement(job).application.Demands), worth(minimum.Demands)
	if total <= least {
		return refusal
	}
	told := *refusal
	said := fmt.Sprintf(" (%s asks for %d cards in all, the job's minimum is %d)", v1alpha1.AnnotationCardRequest, total, least)
	told.Message, told.Topic = told.Message+said, told.Topic+said
	return &told
}

func worth(demands []quota.Demand) (sum card.Count) {
	for _, d := range demands {
		sum = sum.Add(d.Count)
	}
	return sum
}

// jobValid keeps a gang waiting while it begins again and pods of its last run that
// ended with success are still being deleted. Volcano counts these as ready (ReadyTaskNum),
// so it would bind the first new pods without the rest of the gang.
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

// jobEnqueueable is the gate of a job before its pods may wait for cards. It
// only votes: what is admitted is reserved in jobEnqueued, after every other
// plugin has agreed.
func (p *plugin) jobEnqueueable(obj any) int {
	p.beatInSession()
	job := obj.(*api.JobInfo)
	if _, refusal := p.apply(job); refusal != nil {
		p.tellJob(job, p.withTotal(job, refusal))
		return util.Reject
	}
	return util.Permit
}

// apply asks for the admission of a job, and returns what it applied for.
func (p *plugin) apply(job *api.JobInfo) (quota.JobRequest, *workload.Refusal) {
	if refusal := p.closedGate(job); refusal != nil {
		return quota.JobRequest{}, refusal
	}
	application, refusal := p.minimum(job)
	if refusal == nil {
		refusal = p.admit(job, application)
	}
	return application, refusal
}

// jobEnqueued reserves what is admitted until the job's pods are placed. A job
// without minResources comes here without having been asked for, so it applies now;
// what is not admitted waits without a reservation, and its pods are held to the
// quota one by one.
func (p *plugin) jobEnqueued(obj any) {
	job := obj.(*api.JobInfo)
	if application, refusal := p.apply(job); refusal == nil {
		p.cache.patience.admit(job, application)
		p.waiting[job.Queue].Add(p.account.DropUngranted(string(job.Queue), application))
	}
}

// reserve notes what a job that was admitted earlier still waits for, unless it
// has waited too long for other reasons than quota, and what a running job
// holds above its minimum. allocated is how many of its pods are placed. A job
// that is barred from its queue waits for nothing: nothing more of it starts.
func (p *plugin) reserve(job *api.JobInfo, allocated int, barred bool) {
	waiting, ok := p.waiting[job.Queue]
	if !ok || job.PodGroup == nil {
		return
	}
	switch job.PodGroup.Status.Phase {
	case scheduling.PodGroupInqueue, scheduling.PodGroupRunning, scheduling.PodGroupUnknown:
	default:
		return
	}
	if !barred && (job.PodGroup.Status.Phase == scheduling.PodGroupRunning || p.cache.patience.lasts(job.PgUID, p.cache.now())) {
		if application, refusal := p.minimum(job); refusal == nil && !application.IsEmpty() {
			if beyond := p.cache.patience.beyond(job, application); p.fitsAlone(job, application) {
				waiting.Add(p.account.DropUngranted(string(job.Queue), application.Without(beyond)))
				if !beyond.IsEmpty() {
					p.unasked = append(p.unasked, unasked{job, application, beyond})
				}
			}
		}
	}
	if spare := allocated - int(job.MinAvailable); spare > 0 {
		waiting.AddElastic(p.elastic(job, spare))
	}
}

// fitsAlone tells whether a job would be admitted if it had its queue to itself. For one
// that was admitted with a larger quota nothing is kept from others: it cannot start.
func (p *plugin) fitsAlone(job *api.JobInfo, application quota.JobRequest) bool {
	return p.account.FitsAlone(string(job.Queue), p.chargesOf(job), application, p.args.overCommitFactor)
}

// chargesOf are what the placed pods of a job are charged in its queue.
func (p *plugin) chargesOf(job *api.JobInfo) (charges []*quota.Charge) {
	for task := range tasksIn(job, api.AllocatedStatus) {
		if charge := p.chargeIn(job.Queue, task); charge != nil {
			charges = append(charges, charge)
		}
	}
	return charges
}

// unasked is a job that waits for something that it was not admitted with.
type unasked struct {
	job *api.JobInfo
	// application is what it waits for, and beyond what of it was not admitted.
	application, beyond quota.JobRequest
}

// reserveUnasked reserves for jobs that wait for something they were not admitted
// with, as far as they would be admitted now, once the books tell everything else.
// That a PodGroup is Inqueue or Running does not say it was: Volcano asks no gate
// about one without minResources, and what it asks for may be changed afterwards. A
// process that has just started remembers nothing, and keeps free what there is room
// for.
func (p *plugin) reserveUnasked() {
	jobs := p.unasked
	slices.SortFunc(jobs, func(a, b unasked) int {
		return cmp.Or(a.job.CreationTimestamp.Compare(b.job.CreationTimestamp.Time), cmp.Compare(a.job.UID, b.job.UID))
	})
	for _, u := range jobs {
		if p.closedGate(u.job) != nil || p.admit(u.job, u.beyond) != nil {
			continue
		}
		p.waiting[u.job.Queue].Add(p.account.DropUngranted(string(u.job.Queue), u.beyond))
		if p.cache.completeness.done { // before, the books tell of more room than there is
			p.cache.patience.admit(u.job, u.application)
		}
	}
	p.unasked = nil
}

// admit says why a queue whose gate is open does not admit a job now, nil when it
// does.
func (p *plugin) admit(job *api.JobInfo, application quota.JobRequest) *workload.Refusal {
	if short := p.account.CheckEnqueue(string(job.Queue), *p.waiting[job.Queue], application, p.args.overCommitFactor); short != nil {
		return p.rules[job.Queue].RefusalFor(short)
	}
	return nil
}

// noteProgress begins the wait of PodGroups anew that have pods placed when the session
// closes, or are promised nodes for all that they lack. What was tried and taken back is
// no progress, and neither are promises for a part of a gang: Volcano's preempt makes them
// in every session.
func (p *plugin) noteProgress() {
	for _, job := range p.ssn.Jobs {
		placed := len(job.TaskStatusIndex[api.Allocated]) + len(job.TaskStatusIndex[api.Binding])
		if placed > 0 || len(job.TaskStatusIndex[api.Pipelined]) > 0 && p.ssn.JobPipelined(job) {
			p.cache.patience.renew(job.PgUID, p.cache.now())
		}
	}
}
