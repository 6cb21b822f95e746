package validation

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// pod is a pod of a workload and its queue.
type pod struct {
	*Template
	name  string
	queue *v1beta1.Queue
	// queuePath is the field that names the queue.
	queuePath *field.Path
}

// entering lists the pods that our scheduler places, with their queues. A
// PodGroup stands for its pods.
func entering(load *Workload, world *World) []pod {
	var pods []pod
	for i := range load.Templates {
		t := &load.Templates[i]
		if ours(load, t.Pod, world.spec()) {
			name := world.queueOf(load, t.Pod)
			path := load.QueuePath
			if path == nil {
				path = t.annotation(v1beta1.QueueNameAnnotationKey)
			}
			pods = append(pods, pod{t, name, world.Queue(name), path})
		}
	}
	if load.Kind == "PodGroup" {
		name := cmp.Or(load.Queue, workload.DefaultQueue)
		pods = append(pods, pod{&Template{}, name, world.Queue(name), load.QueuePath})
	}
	return pods
}

// entry judges whether the namespace may use the queues.
func entry(load *Workload, world *World) Result {
	var result Result
	for _, p := range entering(load, world) {
		if p.queue == nil {
			result.warn(p.queuePath, "there is no queue %.160s: it waits until somebody creates it, or name another one", p.name)
			continue
		}
		selector, refusal := workload.NamespaceSelectorFor(p.queue)
		if refusal == nil {
			refusal = workload.CheckNamespace(p.name, selector, load.Meta.Namespace, world.Namespace)
			if refusal != nil && world.Namespace == nil { // the scheduler knows it later
				result.warn(p.queuePath, "%s", refusal.Message)
				continue
			}
		}
		if refusal != nil {
			result.refuse(p.queuePath, "%s", refusal.Message)
		}
	}
	return result
}

// claims judges the service type that a workload claims, and what its queue can
// ever give it.
func claims(result *Result, load *Workload, world *World) {
	told := map[string]bool{}
	for _, p := range entering(load, world) {
		if p.queue != nil && !told[p.name] && (load.Volcano || load.Kind == "PodGroup") {
			told[p.name] = true
			reachInAll(result, load, p)
		}
		own := map[string]string(nil)
		if p.Pod != nil {
			own = p.Pod.Annotations
		}
		claimed := workload.ServiceTypeFor(nil, own, load.Annotations, "")
		if claimed != "" {
			at := load.annotation(v1alpha1.AnnotationServiceType)
			if own[v1alpha1.AnnotationServiceType] != "" {
				at = p.annotation(v1alpha1.AnnotationServiceType)
			}
			claim(result, at, p, claimed, world.Policy)
		}
		if p.Pod != nil && p.queue != nil {
			reach(result, p)
		}
		if name, ok := load.Annotations[v1beta1.QueueNameAnnotationKey]; ok && !load.Pod() && name != p.name {
			result.warn(load.annotation(v1beta1.QueueNameAnnotationKey), "is not read here, the queue is %.160s: write it in %s", p.name, p.queuePath)
		}
	}
}

func claim(result *Result, at *field.Path, p pod, claimed string, in *v1alpha1.ServiceTypePolicy) {
	if err := servicetype.ValidateName(claimed); err != nil {
		result.invalid(at, claimed, "%v", err)
		return
	}
	granted := ""
	if p.queue != nil {
		granted = p.queue.Annotations[v1alpha1.AnnotationServiceType]
	}
	_, known := policy.ServiceTypes(in)(claimed)
	switch {
	case granted != "" && granted != claimed:
		result.refuse(at, "claims service type %s, but queue %s grants %s, and the queue decides: take the annotation out, or name a queue of type %s",
			claimed, p.name, granted, claimed)
	case granted == "" && !known:
		result.warn(at, "service type %s is not defined: it neither takes cards back nor gives any", claimed)
	}
}

// reach warns of a pod that is larger than its queue's quota will ever be.
func reach(result *Result, p pod) {
	ask := &p.request
	text, managed := p.queue.Annotations[v1alpha1.AnnotationCardQuota]
	quota, err := card.ParseQuota(text)
	if !managed || err != nil || ask.Denied != nil || ask.Count == 0 || ask.Named.AllowsAny() {
		return
	}
	most := card.Count(0)
	for _, name := range ask.Names {
		most = max(most, quota[name])
	}
	if ask.Count > most {
		result.warn(p.Path.Child("spec", "containers"), "asks for %d %s, but queue %s may hold %d at most: it waits until the quota is raised", ask.Count, ask.Named, p.name, most)
	}
}

// reachInAll warns of a job whose total its queue will never hold. Alternatives may be
// mixed within a job.
func reachInAll(result *Result, load *Workload, p pod) {
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
			result.warn(load.annotation(v1alpha1.AnnotationCardRequest), "asks for %d %s in all, but queue %s may hold %d at most, and before its pods exist the job waits for all of them: write fewer, or take the annotation out, if it may begin with fewer",
				total.Count, total.Request, p.name, most)
		}
	}
}
