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

// queuedPod is a pod of a workload and its queue.
type queuedPod struct {
	*Template
	name  string
	queue *v1beta1.Queue
	// queuePath is the field that names the queue.
	queuePath *field.Path
}

// podsForOurScheduler lists the pods that our scheduler places, with their queues. A
// PodGroup stands for its pods.
func podsForOurScheduler(load *Workload, world *WorkloadInput) []queuedPod {
	var pods []queuedPod
	for i := range load.Templates {
		t := &load.Templates[i]
		if isOurs(load, t.Pod, world.policySpec()) {
			name := world.queueOf(load, t.Pod)
			path := load.QueuePath
			if path == nil {
				path = t.annotationPath(v1beta1.QueueNameAnnotationKey)
			}
			pods = append(pods, queuedPod{t, name, world.Queue(name), path})
		}
	}
	if load.Kind == "PodGroup" {
		name := cmp.Or(load.Queue, workload.DefaultQueue)
		pods = append(pods, queuedPod{&Template{}, name, world.Queue(name), load.QueuePath})
	}
	return pods
}

// checkQueueAccess judges whether the namespace may use the queues.
func checkQueueAccess(load *Workload, world *WorkloadInput) Result {
	var result Result
	for _, p := range podsForOurScheduler(load, world) {
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

// checkServiceTypeAndQuota judges the service type that a workload claims, and what its queue can
// ever give it.
func checkServiceTypeAndQuota(result *Result, load *Workload, world *WorkloadInput) {
	checked := map[string]bool{}
	for _, p := range podsForOurScheduler(load, world) {
		if p.queue != nil && !checked[p.name] && (load.Volcano || load.Kind == "PodGroup") {
			checked[p.name] = true
			checkTotalFitsQuota(result, load, p)
		}
		own := map[string]string(nil)
		if p.Pod != nil {
			own = p.Pod.Annotations
		}
		claimed := workload.ServiceTypeFor(nil, own, load.Annotations, "")
		if claimed != "" {
			at := load.annotationPath(v1alpha1.AnnotationServiceType)
			if own[v1alpha1.AnnotationServiceType] != "" {
				at = p.annotationPath(v1alpha1.AnnotationServiceType)
			}
			checkServiceType(result, at, p, claimed, world.Policy)
		}
		if p.Pod != nil && p.queue != nil {
			checkPodFitsQuota(result, p)
		}
		if name, ok := load.Annotations[v1beta1.QueueNameAnnotationKey]; ok && !load.IsPod() && name != p.name {
			result.warn(load.annotationPath(v1beta1.QueueNameAnnotationKey), "is not read here, the queue is %.160s: write it in %s", p.name, p.queuePath)
		}
	}
}

func checkServiceType(result *Result, at *field.Path, p queuedPod, claimed string, in *v1alpha1.ServiceTypePolicy) {
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

// checkPodFitsQuota warns of a pod that is larger than its queue's quota will ever be.
func checkPodFitsQuota(result *Result, p queuedPod) {
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

// checkTotalFitsQuota warns of a job whose total its queue will never hold. Alternatives may be
// mixed within a job.
func checkTotalFitsQuota(result *Result, load *Workload, p queuedPod) {
	text, managed := p.queue.Annotations[v1alpha1.AnnotationCardQuota]
	quota, err := card.ParseQuota(text)
	if !managed || err != nil || load.totalsErr != nil {
		return
	}
	for _, total := range load.totals {
		most := card.Count(0)
		for _, name := range total.Request.Names() {
			most = most.Add(quota[name])
		}
		if total.Count > most {
			result.warn(load.annotationPath(v1alpha1.AnnotationCardRequest), "asks for %d %s in all, but queue %s may hold %d at most, and before its pods exist the job waits for all of them: write fewer, or take the annotation out, if it may begin with fewer",
				total.Count, total.Request, p.name, most)
		}
	}
}
