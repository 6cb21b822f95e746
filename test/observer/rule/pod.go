package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"cardquota.dev/operator/api/v1alpha1"
)

// Request is what a pod requests.
type Request struct {
	// Resource and Count are the requested cards. Count is 0 when the pod requests none.
	Resource corev1.ResourceName
	Count    int64
	// Named are the alternatives that the pod names, in their order.
	Named []string
	// Cards are the cards that the pod may run on: those that it names, else every card of the
	// resource; none when it is denied.
	Cards            []string
	MilliCPU, Memory int64
	// Denial is why the pod can never run as written, "" when it can.
	Denial string

	// resources are all card resources that the pod requests.
	resources map[corev1.ResourceName]int64
}

// Allows reports whether the pod may run on a card.
func (a Request) Allows(card string) bool {
	return card != "" && (len(a.Named) == 0 || slices.Contains(a.Named, card))
}

// RequestOf returns what a pod requests.
func RequestOf(pod *corev1.Pod, inv *Inventory) Request {
	request, unknown := requestsOf(pod, inv)
	text, isNamed := pod.Annotations[v1alpha1.AnnotationCardName]
	nowhere := len(request.resources) == 0
	if nowhere && (!isNamed || len(unknown) == 0) {
		return request // card.name alone requests nothing
	}

	if isNamed {
		names, err := ParseRequest(text)
		if err != nil {
			request.Denial = err.Error()
		}
		request.Named = names
	}

	if nowhere && request.Denial == "" {
		request.Denial = fmt.Sprintf("names <%s> but requests no resource that is a card on any node", text)
		if len(unknown) == 1 && mayBeCard(pod) {
			request.resources = unknown
		}
	}

	if len(request.resources) > 0 {
		request.Resource = slices.Min(slices.Collect(maps.Keys(request.resources)))
		request.Count = request.resources[request.Resource]
	}
	if request.Denial == "" {
		request.Cards, request.Denial = cardsFor(request, inv)
	}

	return request
}

// requestsOf adds up containers, init containers, sidecars and overhead as Kubernetes does. A
// pod from the API server has a request wherever it has a limit. unknown are vendor resources
// that are not cards on any node.
func requestsOf(pod *corev1.Pod, inv *Inventory) (request Request, unknown map[corev1.ResourceName]int64) {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
	request = Request{MilliCPU: amountOf(*requests.Cpu(), resource.Milli), Memory: amountOf(*requests.Memory(), 0), resources: map[corev1.ResourceName]int64{}}
	unknown = map[corev1.ResourceName]int64{}
	for name, quantity := range requests {
		switch {
		case quantity.Sign() <= 0:
		case inv.IsCard(name):
			request.resources[name] = countOf(quantity)
		case strings.Contains(string(name), "/"):
			unknown[name] = countOf(quantity)
		}
	}

	return request, unknown
}

// mayBeCard reports whether a resource that is not a card on any node may be the card that the
// pod names: the pod waits, or our scheduler bound it while the resource was a card.
func mayBeCard(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" || pod.Annotations[v1alpha1.AnnotationChargedQueue] != ""
}

// cardsFor returns the cards that a request may use, or why there are none.
func cardsFor(request Request, inv *Inventory) (cards []string, refusal string) {
	switch {
	case len(request.resources) > 1:
		return nil, "requests two card resources"
	case request.Count > MaxCount:
		return nil, fmt.Sprintf("requests more than %d cards", MaxCount)
	}

	for _, name := range request.Named {
		if offered := inv.ResourcesOf(name); len(offered) > 0 && !slices.Contains(offered, request.Resource) {
			return nil, fmt.Sprintf("names <%s>, which is requested as %s, but requests %s", name, offered, request.Resource)
		}
	}

	if len(request.Named) > 0 {
		return request.Named, ""
	}
	cards = inv.Cards(request.Resource)
	if len(cards) == 0 {
		return nil, fmt.Sprintf("requests %s, and no node says which card that is", request.Resource)
	}

	return cards, ""
}

// amountOf returns CPU or memory, at most 2^53 units.
func amountOf(quantity resource.Quantity, scale resource.Scale) int64 {
	const most = 1 << 53
	if quantity.Sign() <= 0 { // ScaledValue turns a long negative number into any number
		return 0
	}
	if quantity.Cmp(*resource.NewScaledQuantity(most, scale)) >= 0 {
		return most
	}
	return quantity.ScaledValue(scale)
}

// isActive reports whether a pod is in a phase in which Volcano counts it.
func isActive(pod *corev1.Pod) bool {
	return slices.Contains([]corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning}, pod.Status.Phase)
}

// IsFinished reports whether a pod has ended.
func IsFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsWaiting reports whether a pod waits only for a scheduler to give it a node.
func IsWaiting(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
		isActive(pod) && pod.Status.Phase != corev1.PodRunning
}

// IsCharged reports whether what a pod uses counts as used: it has a node, has
// not finished and is not being deleted.
func IsCharged(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && isActive(pod)
}

// IsTerminating reports whether a pod was deleted and uses its cards until it has ended.
func IsTerminating(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil && !IsFinished(pod)
}
