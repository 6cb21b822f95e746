package admission

import (
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/clip"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// pod is a pod of a workload and its queue.
type pod struct {
	*Template
	who   string
	name  string
	queue *v1beta1.Queue
}

// entering lists the pods that our scheduler places, with their queues. A
// PodGroup stands for its pods.
func entering(load *Workload, world *World) []pod {
	spec := world.spec()
	var pods []pod
	for i := range load.Templates {
		t := &load.Templates[i]
		if ours(load, t.Pod, spec) {
			name := world.queueOf(load, t.Pod)
			pods = append(pods, pod{t, load.where(t), name, world.Queue(name)})
		}
	}
	if load.Kind == "PodGroup" {
		name := load.Queue
		if name == "" {
			name = workload.DefaultQueue
		}
		pods = append(pods, pod{&Template{}, load.String(), name, world.Queue(name)})
	}
	return pods
}

// entry judges whether the namespace may use the queues.
func entry(load *Workload, world *World) Answer {
	var answer Answer
	for _, p := range entering(load, world) {
		if p.queue == nil {
			answer.warn("%s: there is no queue %s: it waits until somebody creates it, or name another one", p.who, clip.Text(p.name, shown))
			continue
		}
		selector, refusal := workload.NamespaceSelectorOf(p.queue)
		if refusal == nil {
			refusal = workload.MayUse(p.name, selector, load.Meta.Namespace, world.Namespace)
			if refusal != nil && world.Namespace == nil { // the scheduler knows it later
				answer.warn("%s: %s", p.who, refusal.Message)
				continue
			}
		}
		if refusal != nil {
			answer.refuse("%s: %s", p.who, refusal.Message)
		}
	}
	return answer
}

// claims judges the service type that a workload claims, and what its queue can
// ever give it.
func claims(answer *Answer, load *Workload, world *World) {
	told := map[string]bool{}
	for _, p := range entering(load, world) {
		if p.queue != nil && !told[p.name] && (load.Volcano || load.Kind == "PodGroup") {
			told[p.name] = true
			reachInAll(answer, load, p)
		}
		own := map[string]string(nil)
		if p.Pod != nil {
			own = p.Pod.Annotations
		}
		claimed := workload.ServiceTypeOf(nil, own, load.Annotations, "")
		if claimed != "" {
			claim(answer, p, claimed, world.Policy)
		}
		if p.Pod != nil && p.queue != nil {
			reach(answer, p)
		}
		if name, ok := load.Annotations[v1alpha1.AnnotationQueueName]; ok && !load.Pod() && name != p.name {
			answer.warn("%s: annotation %s in %s is not read there, the queue is %s: write it in %s", p.who, v1alpha1.AnnotationQueueName, load.At, clip.Text(p.name, shown), whereQueue(load, p))
		}
	}
}

func whereQueue(load *Workload, p pod) string {
	if load.Volcano {
		return "spec.queue"
	}
	return p.Path + ".metadata.annotations"
}

func claim(answer *Answer, p pod, claimed string, in *v1alpha1.ServiceTypePolicy) {
	if err := servicetype.ValidateName(claimed); err != nil {
		answer.refuse("%s: annotation %s: %v", p.who, v1alpha1.AnnotationServiceType, err)
		return
	}
	granted := ""
	if p.queue != nil {
		granted = p.queue.Annotations[v1alpha1.AnnotationServiceType]
	}
	_, known := policy.Types(in)(claimed)
	switch {
	case granted != "" && granted != claimed:
		answer.refuse("%s: claims service type %s, but queue %s grants %s, and the queue decides: take the annotation %s out, or name a queue of type %s",
			p.who, claimed, p.name, granted, v1alpha1.AnnotationServiceType, claimed)
	case granted == "" && !known:
		answer.warn("%s: service type %s is not defined: it neither takes cards back nor gives any", p.who, claimed)
	}
}

// reach warns of a pod that is larger than its queue's quota will ever be.
func reach(answer *Answer, p pod) {
	ask := &p.request
	text, managed := p.queue.Annotations[v1alpha1.AnnotationCardQuota]
	quota, err := card.ParseQuota(text)
	if !managed || err != nil || ask.Denied != nil || ask.Count == 0 || ask.Named.Any() {
		return
	}
	most := card.Count(0)
	for _, name := range ask.Names {
		most = max(most, quota[name])
	}
	if ask.Count > most {
		answer.warn("%s: asks for %d %s, but queue %s may hold %d at most: it waits until the quota is raised", p.who, ask.Count, ask.Named, p.name, most)
	}
}

// reachInAll warns of a job whose total its queue will never hold. Alternatives may be
// mixed within a job.
func reachInAll(answer *Answer, load *Workload, p pod) {
	text, managed := p.queue.Annotations[v1alpha1.AnnotationCardQuota]
	quota, err := card.ParseQuota(text)
	if !managed || err != nil || load.wrong != nil {
		return
	}
	for _, total := range load.totals {
		most := card.Count(0)
		for _, name := range total.Request.Names() {
			most = most.Add(quota[name])
		}
		if total.Count > most {
			answer.warn("%s: annotation %s asks for %d %s in all, but queue %s may hold %d at most, and before its pods exist the job waits for all of them: write fewer, or take the annotation out, if it may begin with fewer",
				load, v1alpha1.AnnotationCardRequest, total.Count, total.Request, p.name, most)
		}
	}
}
