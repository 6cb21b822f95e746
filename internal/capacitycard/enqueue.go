package capacitycard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// minimum is what a job needs before any of it can run: the worth of its
// minMember, without what it already has. Once pods exist they tell; before,
// the annotation card.request and minResources do.
func (p *plugin) minimum(job *api.JobInfo) (quota.Application, *workload.Refusal) {
	if len(job.Tasks) == 0 {
		return p.announced(job)
	}
	var app quota.Application
	var demands quota.Merger
	for _, task := range p.missing(job) {
		ask := p.askOf(task)
		if ask.Refusal != nil {
			return quota.Application{}, ask.Refusal
		}
		demands.Add(quota.Demand{Names: ask.Names, Count: ask.Count})
		app.MilliCPU = quota.Sum(app.MilliCPU, ask.MilliCPU)
		app.Memory = quota.Sum(app.Memory, ask.Memory)
	}
	app.Demands = demands.Demands
	return app, nil
}

// missing picks the pending pods that a job lacks to its minimum: first what
// each task role must have of its own, then the cheapest of the rest, so that
// a job is never refused for more than it needs.
func (p *plugin) missing(job *api.JobInfo) []*api.TaskInfo {
	if len(job.TaskStatusIndex[api.Pending]) == 0 {
		return nil
	}
	ready := map[string]int32{}
	var have int32
	for status, tasks := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) || status == api.Succeeded {
			have += int32(len(tasks))
			for _, task := range tasks {
				ready[task.TaskRole]++
			}
		}
	}
	var pending []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			pending = append(pending, task)
		}
	}
	slices.SortFunc(pending, func(a, b *api.TaskInfo) int {
		x, y := p.askOf(a), p.askOf(b)
		return cmp.Or(cmp.Compare(x.Count, y.Count), cmp.Compare(x.MilliCPU, y.MilliCPU), cmp.Compare(x.Memory, y.Memory), cmp.Compare(a.UID, b.UID))
	})
	return ToMinimum(job, have, ready, pending)
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
func (p *plugin) elastic(job *api.JobInfo, spare int) quota.Elastic {
	e := quota.Elastic{Held: map[card.Name]card.Count{}}
	var cards, milliCPU, memory []int64
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			continue
		}
		for _, task := range tasks {
			charge := p.chargeIn(job.Queue, task)
			if charge == nil {
				continue
			}
			for _, held := range charge.Cards {
				e.Held[held.Name] = e.Held[held.Name].Add(held.Count)
				cards = append(cards, int64(held.Count))
			}
			milliCPU, memory = append(milliCPU, charge.MilliCPU), append(memory, charge.Memory)
		}
	}
	e.Spare, e.MilliCPU, e.Memory = card.Count(least(cards, spare)), least(milliCPU, spare), least(memory, spare)
	return e
}

// least is the sum of the n smallest amounts.
func least(amounts []int64, n int) (sum int64) {
	slices.Sort(amounts)
	for _, amount := range amounts[:min(n, len(amounts))] {
		sum = quota.Sum(sum, amount)
	}
	return sum
}

// announcements remembers what PodGroups without pods announce: to read the
// longest card.request takes milliseconds, and is asked for in each session. What
// a session does not ask for is forgotten by the next but one.
type announcements struct {
	session   uint64
	now, last map[types.UID]*announcement
}

// announcement is valid while the texts and the meaning of resources are the same.
type announcement struct {
	request     string
	requests    bool
	least       *corev1.ResourceList
	meaning     uint64
	application quota.Application
	refusal     *workload.Refusal
}

// announced is the minimum of a job without pods; nobody may change its demands.
func (p *plugin) announced(job *api.JobInfo) (quota.Application, *workload.Refusal) {
	known := p.announcement(job)
	app := known.application
	if p.args.cardUnlimitedCPUMemory && len(app.Demands) > 0 {
		// minResources does not tell which pods the CPU is for; the pods are
		// held to it one by one when they exist.
		app.MilliCPU, app.Memory = 0, 0
	}
	return app, known.refusal
}

// announcement is what a PodGroup says, read anew only if it says something else.
// Volcano hands out a copy in each session, whose texts are still the same ones.
func (p *plugin) announcement(job *api.JobInfo) *announcement {
	m := &p.memory.announced
	if m.now == nil || m.session != p.memory.session {
		m.now, m.last = m.last, m.now
		if clear(m.now); m.now == nil {
			m.now = map[types.UID]*announcement{}
		}
		m.session = p.memory.session
	}
	known, ok := m.now[job.PgUID]
	if !ok {
		known = m.last[job.PgUID]
	}
	request, requests := totalOf(job)
	least := job.PodGroup.Spec.MinResources
	if known == nil || known.request != request || known.requests != requests || known.meaning != p.memory.meaning || !sameResources(known.least, least) {
		known = &announcement{request: request, requests: requests, least: least, meaning: p.memory.meaning}
		annotations := map[string]string{}
		if requests {
			annotations[v1alpha1.AnnotationCardRequest] = request
		}
		known.application, known.refusal = workload.Announced(annotations, least, p.inv)
	}
	m.now[job.PgUID] = known
	return known
}

// totalOf is the total that the maker of a job wrote down. A Deployment has none: it
// begins with one pod and grows.
func totalOf(job *api.JobInfo) (text string, written bool) {
	for _, owner := range job.PodGroup.OwnerReferences {
		if owner.Kind == "ReplicaSet" {
			return "", false
		}
	}
	text, written = job.PodGroup.Annotations[v1alpha1.AnnotationCardRequest]
	return text, written
}

// withTotal adds to the refusal of a job without pods that its maker asks for more than
// it needs to begin.
func (p *plugin) withTotal(job *api.JobInfo, refusal *workload.Refusal) *workload.Refusal {
	if _, written := totalOf(job); !written || len(job.Tasks) > 0 || refusal.Reason != workload.ReasonInsufficientScalarQuota {
		return refusal
	}
	minimum, _ := workload.Announced(nil, job.PodGroup.Spec.MinResources, p.inv)
	total, least := worth(p.announcement(job).application.Demands), worth(minimum.Demands)
	if total <= least {
		return refusal
	}
	told := *refusal
	told.Message += fmt.Sprintf(" (%s asks for %d cards in all, the job's minimum is %d)", v1alpha1.AnnotationCardRequest, total, least)
	return &told
}

func worth(demands []quota.Demand) (sum card.Count) {
	for _, d := range demands {
		sum = sum.Add(d.Count)
	}
	return sum
}

func sameResources(a, b *corev1.ResourceList) bool {
	if a == nil || b == nil {
		return a == b
	}
	return maps.EqualFunc(*a, *b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
