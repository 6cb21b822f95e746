package capacitycard

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

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
