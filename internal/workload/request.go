package workload

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// Request is what a pod requests: CPU, memory, and cards of the names that it may run on. These
// are the names in card.name, or all that its resource stands for.
type Request struct {
	quota.Request
	// Resource is the card resource, "" for a pod without cards.
	Resource corev1.ResourceName
	// Named is what card.name says, empty without that annotation.
	Named card.Request
	// Unverified is a resource that no node offers as a card, of a placed pod without a record
	// of our binding. Resource and Count are empty then. The pod names the card itself, as any
	// pod could, so only an earlier charge counts.
	Unverified ResourceCount
	// ExtraResources are further card resources that the pod requests. Such a pod is refused,
	// and charged if it was placed anyway.
	ExtraResources []ResourceCount
	// Denied says why the pod can never be placed as it is written.
	Denied *Refusal
	// Unreadable says why card.name cannot be parsed, "" when it can. It denies only a pod that
	// requests cards.
	Unreadable string
}

// ResourceCount is a count of a card resource.
type ResourceCount struct {
	Resource corev1.ResourceName
	Count    card.Count
}

// Request returns what a pod requests: containers, init containers, sidecars and overhead as
// Kubernetes adds them up, the cards by the resources that the inventory knows, and the
// annotation card.name. A record of a binding proves only for a pod of our schedulers that its
// resource was a card.
func (r *Resolver) Request(pod *corev1.Pod) Request {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
	request := Request{Request: quota.Request{MilliCPU: boundedValue(requests.Cpu(), resource.Milli), Memory: boundedValue(requests.Memory(), 0)}}
	var unknown []ResourceCount
	for name, quantity := range requests {
		switch {
		case quantity.Sign() <= 0:
		case r.Inventory.IsCard(name):
			request.ExtraResources = append(request.ExtraResources, ResourceCount{Resource: name, Count: card.NewCount(quantity)})
		// Extended resources have a domain. One that no node offers now may have been a card of a
		// node that is gone.
		case strings.Contains(string(name), "/"):
			unknown = append(unknown, ResourceCount{Resource: name, Count: card.NewCount(quantity)})
		}
	}

	// Maps have no order. A pod with two card resources must get the same refusal in every
	// session.
	slices.SortFunc(request.ExtraResources, func(a, b ResourceCount) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	if len(request.ExtraResources) > 0 {
		request.Resource = request.ExtraResources[0].Resource
		request.Count = request.ExtraResources[0].Count
		request.ExtraResources = request.ExtraResources[1:]
	}

	request.resolveCards(pod, r, unknown)
	return request
}

// resolveCards sets the cards that the pod may run on, or why there are none. unknown are extended resources
// of the pod that no node offers as cards. Request has set Resource, Count and ExtraResources.
func (request *Request) resolveCards(pod *corev1.Pod, r *Resolver, unknown []ResourceCount) {
	text, isNamed := pod.Annotations[v1alpha1.AnnotationCardName]
	var named card.Request
	if isNamed {
		var err error
		named, err = card.ParseRequest(text)
		if err != nil {
			request.Unreadable = err.Error()
		}
	}

	if request.Count == 0 && (!isNamed || len(unknown) == 0) {
		return // no cards: card.name alone requests nothing
	}

	// The first error is the one that the user must correct before any other can be decided.
	request.Named = named
	switch {
	case request.Unreadable != "":
		request.deny(invalidPodAnnotation(request.Unreadable))
	case request.Count == 0:
		request.denyUnknownResource(pod, unknown, r.UsesOurScheduler(pod))
	case len(request.ExtraResources) > 0:
		request.deny(Refusal{Code: CodeTwoResources, Object: string(request.Resource), Other: string(request.ExtraResources[0].Resource)})
	case request.Count > card.MaxCount:
		request.deny(Refusal{Code: CodeTooManyCards, Object: string(request.Resource)})
	case request.Named.AllowsAny():
		request.allowAnyCard(r.Inventory)
	default:
		request.allowNamedCards(r.Inventory)
	}
}

// allowAnyCard lets the pod run on every card that its resource stands for.
func (request *Request) allowAnyCard(inv *card.Inventory) {
	request.Names = inv.NamesFor(request.Resource)
	if len(request.Names) == 0 {
		request.deny(Refusal{Code: CodeUnnamedCards, Object: string(request.Resource)})
	}
}

// allowNamedCards lets the pod run on the cards of card.name. It denies a pod that requests one of them by
// another resource.
func (request *Request) allowNamedCards(inv *card.Inventory) {
	request.Names = request.Named.Names()
	for _, name := range request.Names {
		if resources := inv.ResourcesFor(name); len(resources) > 0 && !slices.Contains(resources, request.Resource) {
			request.deny(Refusal{Code: CodeOtherResource, Object: string(name), Other: string(resources[0]), Detail: string(request.Resource)})
			return
		}
	}
}

// denyUnknownResource denies a pod whose resources are cards on no node. A pod that our
// scheduler placed before the node lost its labels is still charged for the card that it names.
// A pod of another scheduler is not: its creator could name any card, and take it from any
// queue.
func (request *Request) denyUnknownResource(pod *corev1.Pod, unknown []ResourceCount, ours bool) {
	switch {
	case len(unknown) != 1: // which one is the card, is unknown, so none is charged
	case pod.Spec.NodeName == "" || (ours && ChargedQueue(pod) != ""): // it uses none yet, or our scheduler placed it
		request.Resource = unknown[0].Resource
		request.Count = unknown[0].Count
	default:
		request.Unverified = unknown[0]
	}

	// Tenants write these names, and a condition holds only so much.
	request.deny(Refusal{
		Code:   CodeNotACard,
		Object: fmt.Sprintf("%.300s", request.Named.String()), Other: fmt.Sprintf("%.300s", resourceNames(unknown)),
	})
}

// resourceNames joins the names of resources in a stable order.
func resourceNames(counts []ResourceCount) string {
	names := make([]string, len(counts))
	for i, count := range counts {
		names[i] = string(count.Resource)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// maxQuantity is more cards, bytes or millicores than any node or queue has. Hundreds of such amounts add up
// without overflow.
const maxQuantity = 1 << 53

// boundedValue returns a quantity in units of 10^scale, at least 0 and at most maxQuantity.
// Quantity.ScaledValue turns quantities of more digits than an int64 has into any number.
func boundedValue(quantity *resource.Quantity, scale resource.Scale) int64 {
	if quantity.Sign() <= 0 {
		return 0
	}
	if quantity.AsApproximateFloat64() >= maxQuantity*math.Pow10(int(scale)) {
		return maxQuantity
	}
	return quantity.ScaledValue(scale)
}

// deny removes all cards that the pod may run on, and says why.
func (request *Request) deny(why Refusal) {
	request.Names = nil
	request.Denied = &why
}

// PodGroupRequest returns the minimum of a PodGroup whose pods do not exist yet. card.request
// states the total of the whole job, minResources what the minimum needs of each resource, and
// the larger one counts. Requests for one resource share its minimum in proportion, rounded up.
// A card resource that no request names may be any of its cards.
func (r *Resolver) PodGroupRequest(total string, written bool, minResources *corev1.ResourceList) (quota.JobRequest, *Refusal) {
	needed := ptr.Deref(minResources, nil)
	minimum := minimumRequest{milliCPU: boundedValue(needed.Cpu(), resource.Milli), memory: boundedValue(needed.Memory(), 0)}
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		minimum.addCards(r, nil, ResourceCount{Resource: name, Count: card.NewCount(needed[name])}, 1)
	}
	return r.announcedRequest(total, written, minimum)
}

// minimumRequest is what the minimum of a job needs.
type minimumRequest struct {
	milliCPU, memory int64
	cards            []resourceRequest
}

// resourceRequest is a count of a card resource, and the cards that it may be.
type resourceRequest struct {
	resource corev1.ResourceName
	names    []card.Name
	count    card.Count
}

// announcedRequest returns the larger of a job's total in card.request and its minimum, for each
// resource, or why the total cannot be parsed. written reports whether there is one.
func (r *Resolver) announcedRequest(total string, written bool, minimum minimumRequest) (quota.JobRequest, *Refusal) {
	var totals card.Totals
	if written {
		var err error
		totals, err = card.ParseTotals(total)
		if err != nil {
			return quota.JobRequest{}, invalidPodGroupAnnotation(err.Error())
		}
	}

	// A total below the minimum would enqueue a gang that cannot start, so the larger one counts.
	least := map[corev1.ResourceName]card.Count{}
	for _, needed := range minimum.cards {
		least[needed.resource] = least[needed.resource].Add(needed.count)
	}

	resources := make([]corev1.ResourceName, len(totals))
	requested := map[corev1.ResourceName]card.Count{}
	for i, t := range totals {
		resources[i] = r.Inventory.ResourceForRequest(t.Request)
		requested[resources[i]] = requested[resources[i]].Add(t.Count)
	}

	sum := quota.JobRequestBuilder{JobRequest: quota.JobRequest{MilliCPU: minimum.milliCPU, Memory: minimum.memory}}
	for i, t := range totals {
		// Alternatives split the minimum as they split the total: the user chose that proportion. A
		// minimum above MaxCount fits no quota, and its product would overflow.
		count := t.Count
		if minimumCount := min(least[resources[i]], card.MaxCount+1); minimumCount > 0 && count > 0 {
			count = max(count, proportionalCount(count, requested[resources[i]], minimumCount))
		}
		sum.Add(quota.Request{Names: t.Request.Names(), Count: count})
	}

	for _, needed := range minimum.cards {
		// A total that does not mention a resource must not be a way around its quota.
		if requested[needed.resource] == 0 {
			sum.Add(quota.Request{Names: needed.names, Count: needed.count})
		}
	}

	return sum.JobRequest, nil
}

// proportionalCount returns the part of minimum that count has in total, rounded up.
func proportionalCount(count, total, minimum card.Count) card.Count {
	return (minimum*count + total - 1) / total
}

// CardRequestAnnotation returns the text of card.request that the creator of a job wrote. That of a
// Deployment's ReplicaSet does not count: it starts with one pod and grows.
func CardRequestAnnotation(group metav1.Object) (text string, written bool) {
	if slices.ContainsFunc(group.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.Kind == "ReplicaSet" }) {
		return "", false
	}
	text, written = group.GetAnnotations()[v1alpha1.AnnotationCardRequest]
	return text, written
}

// PointersTo returns pointers to the items of a list.
func PointersTo[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
