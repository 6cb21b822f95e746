package strip

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/card"
)

const (
	// maxResources bounds the resources of one request. Volcano writes three into the minimum of a
	// PodGroup for each resource of a job: the name itself, with "requests." and with "limits.".
	maxResources = 64
	// maxResourceNameLength bounds the name of an extended resource: a DNS name, a slash and 63
	// characters.
	maxResourceNameLength = maxNameLength + 1 + 63
)

// foldedName is the name of the container that stands for all of a pod.
const foldedName = "all"

// FoldContainers replaces the containers of a pod by one that requests what all of them request together,
// and their statuses by one that says what an in-place resize made of that. So package resource of
// Kubernetes finds the same requests, with and without the statuses. A pod with sidecars keeps one that
// requests nothing. Limits go: the API server has made requests of them.
//
// Kubernetes bounds neither the containers of a pod nor their resources. Of more than maxResources
// resources some are left out: no node has so many, so no scheduler places such a pod. It changes the pod,
// but nothing that the pod shares with another one.
func FoldContainers(pod *corev1.Pod) {
	// Without statuses the sum is what the pod requested at first, with them what a resize made of it.
	requests := sumRequests(pod, nil)
	var resizedStatuses []corev1.ContainerStatus
	if resized := resizedByName(pod); len(resized) > 0 {
		now := sumRequests(pod, resized)
		if !maps.EqualFunc(requests, now, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }) {
			resizedStatuses = []corev1.ContainerStatus{{Name: foldedName, Resources: &corev1.ResourceRequirements{Requests: now}}}
		}
	}

	var sidecars []corev1.Container
	if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return isSidecar(&c) }) {
		sidecars = []corev1.Container{{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	}

	status := &pod.Status
	status.ContainerStatuses = resizedStatuses
	status.InitContainerStatuses = nil
	status.EphemeralContainerStatuses = nil

	spec := &pod.Spec
	spec.Containers = []corev1.Container{{Name: foldedName, Resources: corev1.ResourceRequirements{Requests: requests}}}
	spec.InitContainers = sidecars
	spec.EphemeralContainers = nil
	spec.Overhead = boundRequests(spec.Overhead)
	// Here a request of 0 counts, which boundRequests would drop: it replaces the sum of the containers.
	if spec.Resources != nil {
		spec.Resources = &corev1.ResourceRequirements{Requests: selectRequests(spec.Resources.Requests, slices.Collect(maps.Keys(spec.Resources.Requests)))}
	}
}

// isSidecar reports whether an init container runs as long as the pod.
func isSidecar(c *corev1.Container) bool {
	return ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
}

// sumRequests returns what the containers of a pod request together, within bounds: what
// AggregateContainerRequests of package resource returns. That function takes the time of the number of init
// containers times the number of resources. A tenant could keep the operator busy for seconds with one pod.
// resized has what some containers request now.
func sumRequests(pod *corev1.Pod, resized map[string]corev1.ResourceList) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		addRequests(sum, requestsOf(&pod.Spec.Containers[i], resized))
	}

	sidecars := corev1.ResourceList{}
	ofInit := corev1.ResourceList{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if isSidecar(c) {
			requests := requestsOf(c, resized)
			addRequests(sum, requests)
			addRequests(sidecars, requests)
			continue
		}

		// Beside an init container run the sidecars before it. Of a resource that it does not request
		// they request no more than all containers do later.
		for name, quantity := range c.Resources.Requests {
			quantity = quantity.DeepCopy()
			quantity.Add(sidecars[name])
			raiseRequest(ofInit, name, quantity)
		}
	}

	// Init containers end before the others start, so the larger of both sums counts.
	for name, quantity := range ofInit {
		raiseRequest(sum, name, quantity)
	}

	return boundRequests(sum)
}

// requestsOf returns what a container requests now.
func requestsOf(c *corev1.Container, resized map[string]corev1.ResourceList) corev1.ResourceList {
	if requests, isResized := resized[c.Name]; isResized {
		return requests
	}
	return c.Resources.Requests
}

// addRequests adds more to sum. It changes no quantity that sum shares with a pod.
func addRequests(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total := sum[name].DeepCopy()
		total.Add(quantity)
		sum[name] = total
	}
}

// raiseRequest raises the request of a resource to a quantity, if that is more.
func raiseRequest(list corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	if known, ok := list[name]; !ok || known.Cmp(quantity) < 0 {
		list[name] = quantity
	}
}

// resizedByName returns by name what containers request now. It has those whose status has resources, in
// which the kubelet reports how far an in-place resize is. It returns nil if no status has any. Of init
// containers the caller must count only sidecars.
func resizedByName(pod *corev1.Pod) map[string]corev1.ResourceList {
	statuses := map[string]*corev1.ContainerStatus{}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Resources != nil {
				statuses[list[i].Name] = &list[i]
			}
		}
	}

	if len(statuses) == 0 {
		return nil
	}

	resized := make(map[string]corev1.ResourceList, len(statuses))
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			name := containers[i].Name
			if status := statuses[name]; status != nil {
				// How far a resize counts depends on its progress. Let Kubernetes decide, one
				// container at a time.
				one := corev1.Pod{
					Spec:   corev1.PodSpec{Containers: containers[i : i+1]},
					Status: corev1.PodStatus{Conditions: pod.Status.Conditions, ContainerStatuses: []corev1.ContainerStatus{*status}},
				}
				resized[name] = resourcehelper.AggregateContainerRequests(&one, resourcehelper.PodResourcesOptions{UseStatusResources: true})
			}
		}
	}

	return resized
}

// boundRequests returns requests within bounds, without those of nothing.
func boundRequests(list corev1.ResourceList) corev1.ResourceList {
	names := make([]corev1.ResourceName, 0, len(list))
	for name, quantity := range list {
		if !quantity.IsZero() {
			names = append(names, name)
		}
	}
	return selectRequests(list, names)
}

// selectRequests returns from a list the requests of the most relevant ones of names, nil for none. names are resources
// of the list.
func selectRequests(list corev1.ResourceList, names []corev1.ResourceName) corev1.ResourceList {
	names = mostRelevant(names)
	switch len(names) {
	case 0:
		return nil
	case len(list):
		return list
	}

	kept := make(corev1.ResourceList, len(names))
	for _, name := range names {
		kept[name] = list[name]
	}

	return kept
}

// mostRelevant returns the maxResources resources that matter most: what each node has, then what looks
// like a card, then the alphabetically first ones. It leaves out names that no resource can have. It changes
// the given list.
func mostRelevant(names []corev1.ResourceName) []corev1.ResourceName {
	names = slices.DeleteFunc(names, func(name corev1.ResourceName) bool { return len(name) > maxResourceNameLength })
	if len(names) <= maxResources {
		return names
	}

	rank := make(map[corev1.ResourceName]int, len(names))
	for _, name := range names {
		switch {
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage:
			rank[name] = 0
		case card.LooksLikeCard(name) || card.LooksLikeCores(name):
			rank[name] = 1
		default:
			rank[name] = 2
		}
	}

	slices.SortFunc(names, func(a, b corev1.ResourceName) int {
		return cmp.Or(rank[a]-rank[b], strings.Compare(string(a), string(b)))
	})
	return names[:maxResources]
}
