package workload

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// StripVCJob returns a Volcano job with only what EvictionPolicyFor and VCJobRequest read. There
// may be thousands of jobs, and their templates are large. The one container of each template
// requests what a pod of the task requests.
func StripVCJob(job *batch.Job) *batch.Job {
	kept := &batch.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion},
		Spec:       batch.JobSpec{MinAvailable: job.Spec.MinAvailable, Policies: job.Spec.Policies},
	}

	for i := range job.Spec.Tasks {
		task := &job.Spec.Tasks[i]

		// Add up before the containers are dropped: init containers and sidecars count in their
		// own way.
		pod := &corev1.Pod{Spec: *task.Template.Spec.DeepCopy()}
		DefaultRequests(pod)
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})

		stripped := batch.TaskSpec{Replicas: task.Replicas, MinAvailable: task.MinAvailable, Policies: task.Policies}
		if text, isNamed := task.Template.Annotations[v1alpha1.AnnotationCardName]; isNamed {
			stripped.Template.Annotations = map[string]string{v1alpha1.AnnotationCardName: text}
		}

		stripped.Template.Spec.PriorityClassName = task.Template.Spec.PriorityClassName
		stripped.Template.Spec.PreemptionPolicy = task.Template.Spec.PreemptionPolicy
		stripped.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}
		kept.Spec.Tasks = append(kept.Spec.Tasks, stripped)
	}
	return kept
}

// DefaultRequests sets the request of each resource of a pod that has only a limit, as the API
// server does for pods (SetDefaults_Pod). It does not do so for the templates of Volcano jobs.
func DefaultRequests(pod *corev1.Pod) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			defaultTo(&resources.Requests, resources.Limits)
		}
	}

	if pod.Spec.Resources == nil {
		return
	}

	// The limits of the pod count only for resources that no container requests.
	ofContainers := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{SkipPodLevelResources: true})
	limits := pod.Spec.Resources.Limits.DeepCopy()
	for name := range ofContainers {
		delete(limits, name)
	}

	defaultTo(&pod.Spec.Resources.Requests, limits)
}

// defaultTo adds to requests the limits of the resources that it does not list.
func defaultTo(requests *corev1.ResourceList, limits corev1.ResourceList) {
	for name, limit := range limits {
		if _, isWritten := (*requests)[name]; isWritten {
			continue
		}
		if *requests == nil {
			*requests = corev1.ResourceList{}
		}
		(*requests)[name] = limit.DeepCopy()
	}
}

// VCJobRequest is PodGroupRequest for the PodGroup of a Volcano job. minResources would not do:
// Volcano sums up only requests, and names no card. So the templates of the job count, with their
// limits as requests. priorityOf returns the value of a PriorityClass.
func (r *Resolver) VCJobRequest(total string, written bool, job *batch.Job, priorityOf func(class string) int32) (quota.JobRequest, *Refusal) {
	return r.announcedRequest(total, written, r.vcJobMinimum(job, priorityOf))
}

// vcJobMinimum returns what the pods of a job's minimum request.
func (r *Resolver) vcJobMinimum(job *batch.Job, priorityOf func(class string) int32) minimumRequest {
	var minimum minimumRequest
	for i, pods := range minimumPods(job, priorityOf) {
		if pods == 0 {
			continue
		}

		template := &job.Spec.Tasks[i].Template
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: template.Annotations}, Spec: template.Spec}
		request := r.Request(pod)

		minimum.milliCPU = quota.AddSaturating(minimum.milliCPU, quota.MultiplySaturating(request.MilliCPU, pods))
		minimum.memory = quota.AddSaturating(minimum.memory, quota.MultiplySaturating(request.Memory, pods))
		minimum.addCards(r, request.Names, ResourceCount{Resource: request.Resource, Count: request.Count}, pods)
		for _, extra := range request.ExtraResources {
			minimum.addCards(r, nil, extra, pods)
		}
	}

	return minimum
}

// addCards adds the cards of so many equal pods. Without names, these may be all cards of the resource. A
// pod that is denied as it is written has no names either: what is wrong with it, its own refusal says.
func (m *minimumRequest) addCards(r *Resolver, names []card.Name, each ResourceCount, pods int64) {
	if each.Count == 0 || !r.Inventory.IsCard(each.Resource) {
		return
	}
	if len(names) == 0 {
		names = r.Inventory.NamesFor(each.Resource)
	}
	count := card.Count(quota.MultiplySaturating(int64(each.Count), pods))
	m.cards = append(m.cards, resourceRequest{resource: each.Resource, names: names, count: count})
}

// minimumPods returns how many pods of each task belong to the minimum of a job. The rule is that
// of Volcano's job controller v1.14.1 (calcPGMinResources): tasks of a higher priority come first,
// those without a minAvailable of their own need all their replicas. If the job needs fewer pods
// than the minimums of its tasks together, these do not count.
func minimumPods(job *batch.Job, priorityOf func(class string) int32) []int64 {
	tasks := job.Spec.Tasks
	order := make([]int, len(tasks))
	ofTasks := int64(0)
	for i := range tasks {
		order[i] = i
		ofTasks += int64(*cmp.Or(tasks[i].MinAvailable, &tasks[i].Replicas))
	}

	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(priorityOf(tasks[b].Template.Spec.PriorityClassName), priorityOf(tasks[a].Template.Spec.PriorityClassName))
	})

	pods := make([]int64, len(tasks))
	left := int64(job.Spec.MinAvailable)
	add := func(i int, atMost int32) { // pods of a task, as long as the minimum has some left
		count := max(0, min(int64(atMost), left))
		pods[i] += count
		left -= count
	}

	isBelowTasks := left < ofTasks
	for _, i := range order {
		switch least := tasks[i].MinAvailable; { // nil has its replicas in the next loop
		case isBelowTasks:
			add(i, tasks[i].Replicas)
		case least != nil:
			add(i, *least)
		}
	}

	// What the job needs beyond these minimums comes from the other replicas, by priority again.
	for _, i := range order {
		add(i, tasks[i].Replicas-int32(pods[i]))
	}

	return pods
}
