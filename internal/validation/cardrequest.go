package validation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// checkAnnotationPlacement reports annotations in places where they have no effect.
func checkAnnotationPlacement(result *Result, load *Workload, t *Template) {
	if load.IsPod() {
		if _, ok := t.Pod.Annotations[v1alpha1.AnnotationCardRequest]; ok {
			result.warn(load.annotationPath(v1alpha1.AnnotationCardRequest), "is read on jobs and PodGroups only: write the request of a pod in its resources")
		}
		return
	}

	if _, ok := t.Pod.Annotations[v1alpha1.AnnotationCardRequest]; ok {
		result.warn(t.annotationPath(v1alpha1.AnnotationCardRequest), "has no effect here: write it in %s.annotations", load.MetadataPath)
	}

	if _, ok := load.Annotations[v1alpha1.AnnotationCardName]; !ok {
		return
	}

	// Without a name in the template the pods may run on any card, which is not what the user
	// wrote.
	_, named := t.Pod.Annotations[v1alpha1.AnnotationCardName]
	switch request := &t.request; {
	case named: // the template says it as well
	case request.Count > 0 && request.Denied == nil:
		result.refuse(load.annotationPath(v1alpha1.AnnotationCardName), "has no effect here, so its pods, which request %d %s each, could get any card: write it in %s.metadata.annotations",
			request.Count, request.Resource, t.Path)
	default:
		result.warn(load.annotationPath(v1alpha1.AnnotationCardName), "has no effect here: write it in %s.metadata.annotations", t.Path)
	}
}

// checkCardRequest checks what one pod requests. It only warns of cards that no node offers
// yet, since such a node may be added. Unreadable says why card.name cannot be parsed, Denied why the pod can never be
// placed as it is written.
func checkCardRequest(result *Result, t *Template, inv *card.Inventory) {
	name := t.annotationPath(v1alpha1.AnnotationCardName)
	limits := t.Path.Child("spec", "containers")

	text, named := t.Pod.Annotations[v1alpha1.AnnotationCardName]
	switch request := &t.request; {
	case request.Unreadable != "":
		result.invalid(name, text, "%s", request.Unreadable)
	case request.Denied != nil && waitsForNode(request, inv):
		result.warn(limits, "%s; it waits until one does (%s)", request.Denied.PodMessage(), offeredCards(inv))
	case request.Denied != nil:
		result.refuse(limits, "%s", request.Denied.PodMessage())
	case request.Count == 0 && named:
		result.warn(name, "names card %.160s, but the pod requests no card and gets none: write the resource and the number in resources.limits of its container", text)
	default:
		for _, card := range request.Named.Names() {
			if isUnknownCard(card, inv) {
				result.warn(name, "names card %s, which no node offers now: %s", card, describeOffer(card, request.Resource, inv))
			}
		}
	}
}

// waitsForNode reports whether a denied request could be met once a node is added, so that admission only warns: no
// node offers the resource, or no node tells which card it is. No node cures two kinds of cards, or too many. A
// request has no Resource if it names a card that no node has.
func waitsForNode(request *workload.Request, inv *card.Inventory) bool {
	if len(request.ExtraResources) > 0 || request.Count > card.MaxCount {
		return false
	}
	if request.Resource == "" || !inv.IsCard(request.Resource) {
		return true
	}
	return request.Named.AllowsAny() && len(inv.NamesFor(request.Resource)) == 0
}

// checkTotals checks card.request against the pods that the workload creates, as far as their requests are known.
func checkTotals(result *Result, load *Workload, inv *card.Inventory) {
	if _, ok := load.Annotations[v1alpha1.AnnotationCardRequest]; !ok || load.IsPod() {
		return
	}
	if load.totalsErr != nil {
		result.invalid(load.annotationPath(v1alpha1.AnnotationCardRequest), load.Annotations[v1alpha1.AnnotationCardRequest], "%v", load.totalsErr)
		return
	}
	if len(load.Templates) == 0 {
		return // a PodGroup does not say what its pods request
	}

	at := load.annotationPath(v1alpha1.AnnotationCardRequest)
	pods, areKnown := podRequestsByResource(load)
	declared := map[corev1.ResourceName]card.Count{}
	for _, total := range load.totals {
		resource := inv.ResourceForRequest(total.Request)
		switch {
		case total.Count == 0:
		case resource == "":
			result.warn(at, "names %s, which no node offers now: %s", total.Request, describeOffer(total.Request.Names()[0], "", inv))
		case !areKnown: // there is nothing to compare the total with
		case len(pods[resource].requests) == 0:
			result.refuse(at, "requests %d %s, but none of its pods requests %s: write it in resources.limits of a container, or remove the entry",
				total.Count, total.Request, resource)
		case !slices.ContainsFunc(pods[resource].requests, func(r card.Request) bool { return canOverlap(r, total.Request) }):
			result.refuse(at, "requests %d %s, but its pods name other cards in %s (%s): write the same cards in both",
				total.Count, total.Request, v1alpha1.AnnotationCardName, pods[resource].requests[0])
		}

		declared[resource] = declared[resource].Add(total.Count)
	}

	if areKnown {
		checkTotalCounts(result, load, pods, declared)
	}
}

// checkTotalCounts warns of a declared total that differs from the total of the pods. It leaves out cards that no node
// offers, which have no resource, and totals of pods that are not known, which are 0.
func checkTotalCounts(result *Result, load *Workload, pods map[corev1.ResourceName]podRequests, declared map[corev1.ResourceName]card.Count) {
	for _, resource := range slices.Sorted(maps.Keys(declared)) {
		if all := pods[resource].count; resource != "" && all > 0 && all != declared[resource] {
			result.warn(load.annotationPath(v1alpha1.AnnotationCardRequest), "says %d %s in total, but its pods request %d: the annotation counts until the pods exist, then the pods count",
				declared[resource], resource, all)
		}
	}
}

// podRequests are the requests of a workload's pods for one resource.
type podRequests struct {
	requests []card.Request
	// count is the total of all pods, 0 when the number of pods is unknown.
	count card.Count
}

// podRequestsByResource returns the requests of the pods by resource. areKnown is false if the request of a
// template is unknown, or if only the first templates were read.
func podRequestsByResource(load *Workload) (out map[corev1.ResourceName]podRequests, areKnown bool) {
	out = map[corev1.ResourceName]podRequests{}
	areKnown = !load.Truncated
	for i := range load.Templates {
		t := &load.Templates[i]

		// The pods of a refused template are unknown, so sums that include them prove nothing.
		request := &t.request
		if request.Denied != nil {
			areKnown = false
			continue
		}
		if request.Count == 0 {
			continue
		}

		all := out[request.Resource]
		all.requests = append(all.requests, request.Named)
		// The bounds of both factors keep the product from an overflow.
		if replicas := card.Count(max(t.Replicas, 0)); request.Count <= card.MaxCount {
			all.count = all.count.Add(min(replicas, card.MaxCount) * request.Count)
		}
		out[request.Resource] = all
	}

	return out, areKnown
}

// canOverlap reports whether two requests can mean the same card. b names at least one.
func canOverlap(a, b card.Request) bool {
	return a.AllowsAny() || slices.ContainsFunc(b.Names(), a.Allows)
}
