package validation

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// ValidateWorkload answers for a workload. before is the one it replaces, nil for a new one.
//
// What another object made is only warned about: its maker was judged, and an older
// maker must be able to go on. The exception is a queue that is not for the namespace,
// which an owner reference must not be a way into. Everything is only warned about
// without a ServiceTypePolicy, and while it says so: what ran before must go on being
// created. The error is the context's.
func ValidateWorkload(ctx context.Context, load Workload, before *Workload, world WorkloadInput) (Result, error) {
	world.resolveRequests(ctx, &load)
	result, places := checkRequests(ctx, &load, &world), checkQueueAccess(&load, &world)
	if before != nil {
		world.resolveRequests(ctx, before)
		result = result.OnlyNew(checkRequests(ctx, before, &world))
		places = places.OnlyNew(checkQueueAccess(before, &world))
	}
	if metav1.GetControllerOf(&load.Meta) != nil {
		result = result.asWarnings()
	}
	result.addResult(places)
	if world.onlyWarns() {
		result = result.asWarnings()
	}
	return result, ctx.Err()
}

// checkRequests is everything but the entry into a queue. It ends early, with anything,
// when nobody waits for it.
func checkRequests(ctx context.Context, load *Workload, world *WorkloadInput) Result {
	var result Result
	for i := range load.Templates {
		if ctx.Err() != nil {
			return result
		}
		t := &load.Templates[i]
		checkCardRequest(&result, t, world.Inventory)
		checkAnnotationPlacement(&result, load, t)
		checkBypass(&result, load, t, world.policySpec(), world.User)
		if !load.IsPod() {
			warnUnknownAnnotations(&result, t.Path.Child("metadata", "annotations"), t.Pod.Annotations)
		}
	}
	if load.Truncated {
		result.refuse(specPath, "has more than %d pod templates, and no more are looked at: write fewer tasks with more replicas, or several jobs", MaxTemplates)
	}
	checkTotals(&result, load, world.Inventory)
	checkServiceTypeAndQuota(&result, load, world)
	warnUnknownAnnotations(&result, load.MetadataPath.Child("annotations"), load.Annotations)
	return result
}

// RefuseOverlarge answers for a workload that nobody reads for its size;
// was tells that the one it replaces was as large. It is refused, since cards may
// be in it; no honest one is so large.
func RefuseOverlarge(was bool, world WorkloadInput) Result {
	var result Result
	result.refuse(specPath, "has too many parts to be looked at: write fewer tasks with more replicas, or several jobs")
	if was {
		result = result.OnlyNew(result)
	}
	if world.onlyWarns() {
		result = result.asWarnings()
	}
	return result
}

// checkAnnotationPlacement tells of annotations where nobody reads them.
func checkAnnotationPlacement(result *Result, load *Workload, t *Template) {
	if load.IsPod() {
		if _, ok := t.Pod.Annotations[v1alpha1.AnnotationCardRequest]; ok {
			result.warn(load.annotationPath(v1alpha1.AnnotationCardRequest), "is read on jobs and PodGroups only: what a pod asks for is its own request of the resource")
		}
		return
	}
	if _, ok := t.Pod.Annotations[v1alpha1.AnnotationCardRequest]; ok {
		result.warn(t.annotationPath(v1alpha1.AnnotationCardRequest), "is not read here: write it in %s.annotations", load.MetadataPath)
	}
	if _, ok := load.Annotations[v1alpha1.AnnotationCardName]; !ok {
		return
	}
	_, named := t.Pod.Annotations[v1alpha1.AnnotationCardName]
	switch ask := &t.request; {
	case named: // the template says it as well
	case ask.Count > 0 && ask.Denied == nil:
		result.refuse(load.annotationPath(v1alpha1.AnnotationCardName), "is read by nobody, so its pods, which ask for %d %s each, could be placed on any card: write it in %s.metadata.annotations",
			ask.Count, ask.Resource, t.Path)
	default:
		result.warn(load.annotationPath(v1alpha1.AnnotationCardName), "is read by nobody: write it in %s.metadata.annotations", t.Path)
	}
}

// checkCardRequest judges what one pod asks for. What no node offers yet is no mistake of
// the pod, and only warned about: the node may come.
func checkCardRequest(result *Result, t *Template, inv *card.Inventory) {
	name, limits := t.annotationPath(v1alpha1.AnnotationCardName), t.Path.Child("spec", "containers")
	text, named := t.Pod.Annotations[v1alpha1.AnnotationCardName]
	switch ask := &t.request; {
	case ask.Unreadable != "":
		result.invalid(name, text, "%s", ask.Unreadable)
	case ask.Denied != nil && waitsForNode(ask, inv):
		result.warn(limits, "%s; it waits until one does (%s)", refusalDetail(ask.Denied), offeredCards(inv))
	case ask.Denied != nil:
		result.refuse(limits, "%s", refusalDetail(ask.Denied))
	case ask.Count == 0 && named:
		result.warn(name, "names card %.160s but requests no card, so it gets none: write the resource and the number in resources.limits of its container", text)
	default:
		for _, card := range ask.Named.Names() {
			if len(inv.ResourcesFor(card)) == 0 {
				result.warn(name, "names card %s, which no node offers now: %s", card, offeredCards(inv))
			}
		}
	}
}

// waitsForNode tells that a refusal is for want of a node: the resource is no card
// anywhere, or no node says which card it is.
func waitsForNode(ask *workload.Request, inv *card.Inventory) bool {
	return len(ask.ExtraResources) == 0 && ask.Count <= card.MaxCount &&
		(ask.Resource == "" || !inv.IsCard(ask.Resource) || ask.Named.AllowsAny() && len(inv.NamesFor(ask.Resource)) == 0)
}

// refusalDetail is the message of a refusal without the word that begins it: who it is
// about is said before it.
func refusalDetail(refusal *workload.Refusal) string {
	return strings.TrimPrefix(refusal.Message, "Pod ")
}

// checkBypass tells early what the API server would refuse of every pod of a template:
// that it asks for a card and passes the scheduler by. Pods themselves are left
// to the ValidatingAdmissionPolicy, which says the same.
func checkBypass(result *Result, load *Workload, t *Template, spec *v1alpha1.ServiceTypePolicySpec, user string) {
	ask := &t.request
	if load.IsPod() || ask.Count == 0 || ask.Denied != nil || isExempt(load, t, spec.Admission.ExemptServiceAccounts, user) {
		return
	}
	add := result.warn
	switch spec.Admission.SchedulerBypassPolicy {
	case v1alpha1.SchedulerBypassAllow:
		return
	case v1alpha1.SchedulerBypassDeny:
		add = result.refuse
	}
	if !isOurs(load, t.Pod, spec) {
		add(t.Path.Child("spec", "schedulerName"), "its pods ask for %d %s each and name schedulerName %.160s, but only the scheduler %s hands out cards within the quota of a queue: write %s.spec.schedulerName: %s",
			ask.Count, ask.Resource, cmp.Or(t.Pod.Spec.SchedulerName, load.Scheduler), strings.Join(spec.Scheduler.Names, " or "), t.Path, spec.Scheduler.Names[0])
	}
	if node := t.Pod.Spec.NodeName; node != "" {
		add(t.Path.Child("spec", "nodeName"), "its pods ask for %d %s each and bring spec.nodeName %.160s along, which passes the scheduler and every quota by: leave nodeName out, and choose the node by a nodeSelector",
			ask.Count, ask.Resource, node)
	}
}

// isExempt tells that the policy lets the pods pass.
func isExempt(load *Workload, t *Template, accounts []v1alpha1.ServiceAccountReference, user string) bool {
	return slices.ContainsFunc(accounts, func(a v1alpha1.ServiceAccountReference) bool {
		return user == "system:serviceaccount:"+a.Namespace+":"+a.Name ||
			load.Meta.Namespace == a.Namespace && t.Pod.Spec.ServiceAccountName == a.Name
	})
}

// checkTotals judges card.request against the pods that the workload makes.
func checkTotals(result *Result, load *Workload, inv *card.Inventory) {
	if _, ok := load.Annotations[v1alpha1.AnnotationCardRequest]; !ok || load.IsPod() {
		return
	}
	if load.totalsErr != nil {
		result.invalid(load.annotationPath(v1alpha1.AnnotationCardRequest), load.Annotations[v1alpha1.AnnotationCardRequest], "%v", load.totalsErr)
		return
	}
	if len(load.Templates) == 0 {
		return // a PodGroup does not say what its pods ask for
	}
	at := load.annotationPath(v1alpha1.AnnotationCardRequest)
	pods, sure := podRequestsByResource(load)
	declared := map[corev1.ResourceName]card.Count{}
	for _, total := range load.totals {
		resource := inv.ResourceForRequest(total.Request)
		switch {
		case total.Count == 0:
		case resource == "":
			result.warn(at, "names %s, which no node offers now: %s", total.Request, offeredCards(inv))
		case !sure:
		case len(pods[resource].requests) == 0:
			result.refuse(at, "asks for %d %s, but none of its pods requests %s: write it in resources.limits of a container, or take the entry out",
				total.Count, total.Request, resource)
		case !slices.ContainsFunc(pods[resource].requests, func(r card.Request) bool { return canOverlap(r, total.Request) }):
			result.refuse(at, "asks for %d %s, but its pods name other cards in %s (%s): write the same cards in both",
				total.Count, total.Request, v1alpha1.AnnotationCardName, pods[resource].requests[0])
		}
		declared[resource] = declared[resource].Add(total.Count)
	}
	if sure {
		checkTotalCounts(result, load, pods, declared)
	}
}

// checkTotalCounts warns of a total that is not that of the pods.
func checkTotalCounts(result *Result, load *Workload, pods map[corev1.ResourceName]podRequests, declared map[corev1.ResourceName]card.Count) {
	for _, resource := range slices.Sorted(maps.Keys(declared)) {
		if all := pods[resource].count; resource != "" && all > 0 && all != declared[resource] {
			result.warn(load.annotationPath(v1alpha1.AnnotationCardRequest), "speaks of %d %s in all, its pods ask for %d: before the pods exist the annotation is believed, afterwards they are",
				declared[resource], resource, all)
		}
	}
}

// podRequests are what the pods of a workload ask for of one resource.
type podRequests struct {
	requests []card.Request
	// count is of all pods together, 0 when the number of pods is not known.
	count card.Count
}

// podRequestsByResource gathers what the pods ask for. It is false when a template asks for
// something that cannot be told yet.
func podRequestsByResource(load *Workload) (map[corev1.ResourceName]podRequests, bool) {
	out, sure := map[corev1.ResourceName]podRequests{}, !load.Truncated
	for i := range load.Templates {
		t := &load.Templates[i]
		ask := &t.request
		if ask.Denied != nil {
			sure = false
			continue
		}
		if ask.Count == 0 {
			continue
		}
		all := out[ask.Resource]
		all.requests = append(all.requests, ask.Named)
		if replicas := card.Count(max(t.Replicas, 0)); ask.Count <= card.MaxCount {
			all.count = all.count.Add(min(replicas, card.MaxCount) * ask.Count)
		}
		out[ask.Resource] = all
	}
	return out, sure
}

// canOverlap tells whether two requests can mean the same card.
func canOverlap(a, b card.Request) bool {
	return a.AllowsAny() || slices.ContainsFunc(b.Names(), a.Allows)
}
