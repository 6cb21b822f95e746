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

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// Request is what a pod asks for: cards of the names that it may be placed on,
// which are those of card.name or every one that its resource stands for, CPU and
// memory.
type Request struct {
	quota.Request
	// Resource is the card resource, "" for a pod without cards.
	Resource corev1.ResourceName
	// Named is what card.name says; it names nothing when there is none.
	Named card.Request
	// Claimed is a resource that is a card nowhere, of a placed pod that bears no
	// record of our binding: Resource and Count are empty then. It says of itself
	// which card that is, which anybody can; only what was charged before counts.
	Unverified ResourceCount
	// Others are further card resources the pod asks for. Such a pod is refused;
	// they still count when it was placed past the rules.
	ExtraResources []ResourceCount
	// Denied says why the pod can never be placed as it is written.
	Denied *Refusal
	// Unreadable is what is wrong with card.name, "" when nothing is. It denies only
	// a pod that asks for cards.
	Unreadable string
}

// ResourceCount is a count of a card resource.
type ResourceCount struct {
	Resource corev1.ResourceName
	Count    card.Count
}

// Request reads what a pod asks for: containers, init containers, sidecars and
// overhead together as Kubernetes counts them, its cards by the resources that
// the inventory knows as cards, and its annotation card.name. Only of a pod of ours
// a record of a binding proves that a resource was a card.
func (r *Resolver) Request(pod *corev1.Pod) Request {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
	request := Request{Request: quota.Request{MilliCPU: boundedValue(requests.Cpu(), resource.Milli), Memory: boundedValue(requests.Memory(), 0)}}
	var unknown []ResourceCount
	for name, quantity := range requests {
		switch {
		case quantity.Sign() <= 0:
		case r.Inventory.IsCard(name):
			request.ExtraResources = append(request.ExtraResources, ResourceCount{Resource: name, Count: card.NewCount(quantity)})
		case strings.Contains(string(name), "/"):
			unknown = append(unknown, ResourceCount{Resource: name, Count: card.NewCount(quantity)})
		}
	}
	slices.SortFunc(request.ExtraResources, func(a, b ResourceCount) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	if len(request.ExtraResources) > 0 {
		request.Resource, request.Count = request.ExtraResources[0].Resource, request.ExtraResources[0].Count
		request.ExtraResources = request.ExtraResources[1:]
	}
	request.resolveCards(pod, r, unknown)
	return request
}

// resolveCards settles which cards the pod may run on, or why none.
func (request *Request) resolveCards(pod *corev1.Pod, r *Resolver, unknown []ResourceCount) {
	text, isNamed := pod.Annotations[v1alpha1.AnnotationCardName]
	var named card.Request
	if isNamed {
		var err error
		if named, err = card.ParseRequest(text); err != nil {
			request.Unreadable = err.Error()
		}
	}
	if request.Count == 0 && (!isNamed || len(unknown) == 0) {
		return // no cards: card.name on its own asks for nothing
	}
	inv := r.Inventory
	request.Named = named
	switch {
	case request.Unreadable != "":
		request.deny("annotation %s: %s", v1alpha1.AnnotationCardName, request.Unreadable)
	case request.Count == 0:
		request.denyUnknownResource(pod, unknown, r.UsesOurScheduler(pod))
	case len(request.ExtraResources) > 0:
		request.deny("requests two card resources, %s and %s: one pod uses one card, keep one of them", request.Resource, request.ExtraResources[0].Resource)
	case request.Count > card.MaxCount:
		request.deny("requests more than %d of %s, which is more than any quota can give", card.MaxCount, request.Resource)
	case request.Named.AllowsAny():
		if request.Names = inv.NamesFor(request.Resource); len(request.Names) == 0 {
			request.deny("requests %s, but no node says which card that is: nodes need the labels <vendor>/<type>.product and .memory", request.Resource)
		}
	default:
		request.Names = request.Named.Names()
		for _, name := range request.Names {
			if resources := inv.ResourcesFor(name); len(resources) > 0 && !slices.Contains(resources, request.Resource) {
				request.deny("names card <%s>, which is requested as %s, but requests %s", name, resources[0], request.Resource)
				return
			}
		}
	}
}

// denyUnknownResource refuses a pod whose resources are cards on no node. It counts all the
// same where it can be nothing else than the card that the pod names: what this
// scheduler placed before the labels were lost is charged as that. Of what others
// placed anybody could claim so, and withhold the cards of whatever queue the pod
// names; a kubelet starts it without such a resource at all.
func (request *Request) denyUnknownResource(pod *corev1.Pod, unknown []ResourceCount, ours bool) {
	switch {
	case len(unknown) != 1:
	case pod.Spec.NodeName == "" || ours && ChargedQueue(pod) != "":
		request.Resource, request.Count = unknown[0].Resource, unknown[0].Count
	default:
		request.Unverified = unknown[0]
	}
	request.deny("names card <%.300s> but requests %.300s, which no node offers as a card",
		request.Named.String(), resourceNames(unknown))
}

// resourceNames writes resources in a stable order.
func resourceNames(held []ResourceCount) string {
	names := make([]string, len(held))
	for i, h := range held {
		names[i] = string(h.Resource)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// maxQuantity is more bytes or thousandths of a core than any node has, and far from wrapping a
// sum around.
const maxQuantity = 1 << 53

// boundedValue reads a quantity in units of 10^scale. What Quantity.ScaledValue turns into 0 or a
// negative number becomes absurd.
func boundedValue(quantity *resource.Quantity, scale resource.Scale) int64 {
	if quantity.AsApproximateFloat64() >= maxQuantity*math.Pow10(int(scale)) {
		return maxQuantity
	}
	return max(quantity.ScaledValue(scale), 0)
}

// deny leaves no card that the pod may be placed on.
func (request *Request) deny(format string, args ...any) {
	request.Names = nil
	request.Denied = &Refusal{Reason: ReasonGetTaskRequestFailed, Message: "Pod " + fmt.Sprintf(format, args...)}
}

// PodGroupRequest is the minimum of a PodGroup whose pods do not exist yet. A
// card.request states the whole job's total, minResources what the minimum needs
// of each resource: of each resource the larger counts. Where that is the minimum,
// the requests of the resource share it in proportion, rounded up. A card resource
// that no request asks for may be any card it stands for. What is asked for as
// nothing is no demand.
func (r *Resolver) PodGroupRequest(total string, written bool, minResources *corev1.ResourceList) (quota.JobRequest, *Refusal) {
	inv := r.Inventory
	var totals card.Totals
	if written {
		var err error
		if totals, err = card.ParseTotals(total); err != nil {
			return quota.JobRequest{}, &Refusal{
				Reason:  ReasonGetTaskRequestFailed,
				Message: fmt.Sprintf("PodGroup annotation %s: %v", v1alpha1.AnnotationCardRequest, err),
			}
		}
	}
	minimum := corev1.ResourceList{}
	if minResources != nil {
		minimum = *minResources
	}
	resources, requested := make([]corev1.ResourceName, len(totals)), map[corev1.ResourceName]card.Count{}
	for i, t := range totals {
		resources[i] = inv.ResourceForRequest(t.Request)
		requested[resources[i]] = requested[resources[i]].Add(t.Count)
	}
	sum := quota.JobRequestBuilder{JobRequest: quota.JobRequest{MilliCPU: boundedValue(minimum.Cpu(), resource.Milli), Memory: boundedValue(minimum.Memory(), 0)}}
	for i, t := range totals {
		name, count := resources[i], t.Count
		if minimumCount, ok := minimum[name]; ok && name != "" && count > 0 {
			count = max(count, proportionalShare(count, requested[name], card.NewCount(minimumCount)))
		}
		sum.Add(quota.Request{Names: t.Request.Names(), Count: count})
	}
	for _, name := range slices.Sorted(maps.Keys(minimum)) {
		quantity := minimum[name]
		if requested[name] == 0 && inv.IsCard(name) && quantity.Sign() > 0 {
			sum.Add(quota.Request{Names: inv.NamesFor(name), Count: card.NewCount(quantity)})
		}
	}
	return sum.JobRequest, nil
}

// proportionalShare is count's part of least, where all counts together are total.
func proportionalShare(count, total, minimum card.Count) card.Count {
	return (minimum*count + total - 1) / total
}

// CardRequestAnnotation is the text of card.request that the maker of a job wrote down. A Deployment
// has none: it begins with one pod and grows.
func CardRequestAnnotation(group metav1.Object) (text string, written bool) {
	if slices.ContainsFunc(group.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.Kind == "ReplicaSet" }) {
		return "", false
	}
	text, written = group.GetAnnotations()[v1alpha1.AnnotationCardRequest]
	return text, written
}
