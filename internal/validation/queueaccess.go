package validation

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// podsForOurScheduler returns the pods that our scheduler places, with their queues. A
// PodGroup stands for its pods.
func podsForOurScheduler(load *Workload, input *WorkloadInput) []queuedPod {
	var pods []queuedPod
	checked := map[string]queuedPod{}
	// All tasks of a job usually name one queue, and each check parses its selectors.
	add := func(t *Template, name string, path *field.Path) {
		p, isChecked := checked[name]
		if !isChecked {
			p = queuedPod{name: name, queue: input.Queue(name)}
			p.checkAccess(load.Meta.Namespace, input)
			checked[name] = p
		}
		p.Template = t
		p.queuePath = path
		pods = append(pods, p)
	}

	for i := range load.Templates {
		t := &load.Templates[i]
		if isOurs(load, t.Pod, input.policySpec()) {
			path := load.QueuePath
			if path == nil {
				path = t.annotationPath(v1beta1.QueueNameAnnotationKey)
			}
			add(t, input.queueOf(load, t.Pod), path)
		}
	}

	// A tenant can create a PodGroup before its pods, and the scheduler takes the queue from it.
	if load.Kind == "PodGroup" {
		add(&Template{Pod: &corev1.Pod{}}, cmp.Or(load.Queue, workload.DefaultQueue), load.QueuePath)
	}

	return pods
}

// checkAccess sets the tree of the queue, and the refusal of the namespace by the queue, or by the nearest queue above
// it that refuses. It sets nothing for a queue that does not exist.
func (p *queuedPod) checkAccess(namespace string, input *WorkloadInput) {
	if p.queue == nil {
		return
	}

	p.tree = input.Tree(p.queue)
	for _, queue := range p.selectingQueues(input) {
		selector, refusal := workload.NamespaceSelectorFor(queue)
		isReadable := refusal == nil
		if isReadable {
			refusal = workload.CheckNamespace(queue.Name, selector, namespace, input.Namespace)
		}

		if refusal == nil {
			continue
		}

		p.refusal = refusal.Message()
		if !isReadable { // its message has the text of the selector
			p.refusal = fmt.Sprintf("Queue <%s> has an invalid %s, so no namespace may use it: ask an administrator to correct it, or name another queue", queue.Name, v1alpha1.AnnotationNamespaceSelector)
		}
		if queue != p.queue {
			p.refusal += fmt.Sprintf("; it is above queue %.160s", p.name)
		}

		// The cache may not have a new namespace yet. The scheduler asks again before it places a
		// pod.
		p.isUndecided = isReadable && input.Namespace == nil
		return
	}
}

// checkQueueAccess refuses queues that the namespace may not use. It only warns of a queue that does not exist, and
// while the namespace is not known yet.
func checkQueueAccess(pods []queuedPod) Result {
	var result Result
	for _, p := range pods {
		switch {
		case p.queue == nil:
			result.warn(p.queuePath, "there is no queue %.160s: the pods wait until an administrator creates it, or name another one", p.name)
		case p.isUndecided: // the scheduler will know the namespace
			result.warn(p.queuePath, "%s", p.refusal)
		case p.refusal != "":
			result.refuse(p.queuePath, "%s", p.refusal)
		}
	}

	return result
}

// checkServiceTypeAndQuota checks the service type that a workload requests, and that its
// queue's quota suffices for it. Of a queue that refuses the namespace it says nothing: a dry run
// would disclose the quota and service type of another tenant.
func checkServiceTypeAndQuota(result *Result, load *Workload, pods []queuedPod, input *WorkloadInput) {
	checked := map[string]bool{}
	for _, p := range pods {
		// Only vcjobs and PodGroups wait for their total before they have pods.
		if p.hasAccess() && !checked[p.name] && load.Volcano {
			checked[p.name] = true
			checkTotalFitsQuota(result, load, p)
		}

		checkRequestedType(result, load, p, input.Policy)
		if p.hasAccess() {
			checkPodFitsQuota(result, p)
		}
		if name, ok := load.Annotations[v1beta1.QueueNameAnnotationKey]; ok && !load.IsPod() && name != p.name {
			result.warn(load.annotationPath(v1beta1.QueueNameAnnotationKey), "is not read here, the queue is %.160s: write it in %s", p.name, p.queuePath)
		}
	}
}

// checkRequestedType checks the service type that a pod or its workload requests, if one does. The pod's own annotation
// wins.
func checkRequestedType(result *Result, load *Workload, p queuedPod, written *v1alpha1.ServiceTypePolicy) {
	own := p.Pod.Annotations
	requestedType := workload.ServiceTypeFor(nil, own, load.Annotations, "")
	if requestedType == "" {
		return
	}

	at := load.annotationPath(v1alpha1.AnnotationServiceType)
	if own[v1alpha1.AnnotationServiceType] != "" {
		at = p.annotationPath(v1alpha1.AnnotationServiceType)
	}
	checkServiceType(result, at, p, requestedType, written)
}

// checkServiceType checks a requested service type against that of the queue, which decides. If the queue has none, it
// warns of a type that the policy does not define.
func checkServiceType(result *Result, at *field.Path, p queuedPod, requestedType string, written *v1alpha1.ServiceTypePolicy) {
	if err := servicetype.ValidateName(requestedType); err != nil {
		result.invalid(at, requestedType, "%v", err)
		return
	}

	// A message about the type of a queue without access would disclose what another tenant has.
	granted := ""
	if p.hasAccess() {
		granted = p.queue.Annotations[v1alpha1.AnnotationServiceType]
	}

	_, known := policy.ServiceTypes(written)(requestedType)
	switch {
	case granted != "" && granted != requestedType:
		result.refuse(at, "requests service type %s, but queue %s has %s, and the queue decides: remove the annotation, or name a queue of type %s",
			requestedType, p.name, granted, requestedType)
	case granted == "" && !known:
		result.warn(at, "service type %s is not defined: its pods neither reclaim cards nor lose any to a reclaim", requestedType)
	}
}

// checkPodFitsQuota warns of a pod that requests more than its queue's quota. A pod that names no card may get any, so
// no single quota decides. A denied request is reported elsewhere.
func checkPodFitsQuota(result *Result, p queuedPod) {
	request := &p.request
	limits, isLimited := p.cardLimits()
	if !isLimited || request.Denied != nil || request.Count == 0 || request.Named.AllowsAny() {
		return
	}

	// A pod uses one card name, so its alternatives do not add up.
	limit := card.Count(0)
	for _, name := range request.Names {
		limit = max(limit, limits[name])
	}

	if request.Count > limit {
		result.warn(p.Path.Child("spec", "containers"), "requests %d %s, but the quota of queue %s is %d: the pod waits until the quota is raised", request.Count, request.Named, p.name, limit)
	}
}

// checkTotalFitsQuota warns of a job whose total exceeds its queue's quota. The pods of a job may
// get different alternatives, so their quotas add up.
func checkTotalFitsQuota(result *Result, load *Workload, p queuedPod) {
	limits, isLimited := p.cardLimits()
	if !isLimited || load.totalsErr != nil {
		return
	}

	for _, total := range load.totals {
		limit := card.Count(0)
		for _, name := range total.Request.Names() {
			limit = limit.Add(limits[name])
		}
		if total.Count > limit {
			result.warn(load.annotationPath(v1alpha1.AnnotationCardRequest), "requests %d %s in total, but the quota of queue %s is %d, and the job waits for the total before its pods exist: write fewer, or remove the annotation if it may start with fewer",
				total.Count, total.Request, p.name, limit)
		}
	}
}
