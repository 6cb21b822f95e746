package admission

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
)

// totals judges card.request against the pods that the workload makes.
func totals(result *Result, load *Workload, inv *card.Inventory) {
	if _, ok := load.Annotations[v1alpha1.AnnotationCardRequest]; !ok || load.Pod() {
		return
	}
	if load.wrong != nil {
		result.invalid(load.annotation(v1alpha1.AnnotationCardRequest), load.Annotations[v1alpha1.AnnotationCardRequest], "%v", load.wrong)
		return
	}
	if len(load.Templates) == 0 {
		return // a PodGroup does not say what its pods ask for
	}
	at := load.annotation(v1alpha1.AnnotationCardRequest)
	pods, sure := podsOf(load)
	said := map[corev1.ResourceName]card.Count{}
	for _, total := range load.totals {
		resource := inv.ResourceOf(total.Request)
		switch {
		case total.Count == 0:
		case resource == "":
			result.warn(at, "names %s, which no node offers now: %s", total.Request, offered(inv))
		case !sure:
		case len(pods[resource].requests) == 0:
			result.refuse(at, "asks for %d %s, but none of its pods requests %s: write it in resources.limits of a container, or take the entry out",
				total.Count, total.Request, resource)
		case !slices.ContainsFunc(pods[resource].requests, func(r card.Request) bool { return meet(r, total.Request) }):
			result.refuse(at, "asks for %d %s, but its pods name other cards in %s (%s): write the same cards in both",
				total.Count, total.Request, v1alpha1.AnnotationCardName, pods[resource].requests[0])
		}
		said[resource] = said[resource].Add(total.Count)
	}
	if sure {
		counted(result, load, pods, said)
	}
}

// counted warns of a total that is not that of the pods.
func counted(result *Result, load *Workload, pods map[corev1.ResourceName]asks, said map[corev1.ResourceName]card.Count) {
	for _, resource := range slices.Sorted(maps.Keys(said)) {
		if all := pods[resource].count; resource != "" && all > 0 && all != said[resource] {
			result.warn(load.annotation(v1alpha1.AnnotationCardRequest), "speaks of %d %s in all, its pods ask for %d: before the pods exist the annotation is believed, afterwards they are",
				said[resource], resource, all)
		}
	}
}

// asks are what the pods of a workload ask for of one resource.
type asks struct {
	requests []card.Request
	// count is of all pods together, 0 when the number of pods is not known.
	count card.Count
}

// podsOf gathers what the pods ask for. It is false when a template asks for
// something that cannot be told yet.
func podsOf(load *Workload) (map[corev1.ResourceName]asks, bool) {
	out, sure := map[corev1.ResourceName]asks{}, !load.More
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

// meet tells whether two requests can mean the same card.
func meet(a, b card.Request) bool {
	return a.Any() || slices.ContainsFunc(b.Names(), a.Allows)
}
