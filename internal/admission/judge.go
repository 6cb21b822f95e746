package admission

import (
	"context"

	"cardquota.dev/operator/api/v1alpha1"
)

// Judge answers for a workload. before is the one it replaces, nil for a new one.
//
// What another object made is warned about only, since its maker was judged: an
// older maker must be able to go on. The exception is a queue that is not for the
// namespace, which an owner reference must not be a way into.
//
// Nobody is refused before there is a ServiceTypePolicy, nor as long as it says
// to warn: what ran before Cardquota came must go on being created.
//
// The error is the context's: nobody waits for the result any more.
func Judge(ctx context.Context, load Workload, before *Workload, world World) (Result, error) {
	world.read(ctx, &load)
	result, places := judge(ctx, &load, &world), entry(&load, &world)
	if before != nil {
		world.read(ctx, before)
		result = result.Since(judge(ctx, before, &world))
		places = places.Since(entry(before, &world))
	}
	if load.Controlled() {
		result = result.warnOnly()
	}
	result.join(places)
	if world.looksOn() {
		result = result.warnOnly()
	}
	return result, ctx.Err()
}

// judge is everything but the entry into a queue. It ends early, with anything,
// when nobody waits for it.
func judge(ctx context.Context, load *Workload, world *World) Result {
	var result Result
	for i := range load.Templates {
		if ctx.Err() != nil {
			return result
		}
		t := &load.Templates[i]
		asked(&result, t, world.Inventory)
		misplaced(&result, load, t)
		past(&result, load, t, world.spec(), world.User)
		if !load.Pod() {
			unknownKeys(&result, t.Path.Child("metadata", "annotations"), t.Pod.Annotations)
		}
	}
	if load.More {
		result.refuse(spec, "has more than %d pod templates, and no more are looked at: write fewer tasks with more replicas, or several jobs", MostTemplates)
	}
	totals(&result, load, world.Inventory)
	claims(&result, load, world)
	unknownKeys(&result, load.At.Child("annotations"), load.Annotations)
	return result
}

// Overlarge answers for a workload that nobody reads for its size;
// was tells that the one it replaces was as large. It is refused, since cards may
// be in it; no honest one is so large.
func Overlarge(was bool, world World) Result {
	var result Result
	result.refuse(spec, "has too many parts to be looked at: write fewer tasks with more replicas, or several jobs")
	if was {
		result = result.Since(result)
	}
	if world.looksOn() {
		result = result.warnOnly()
	}
	return result
}

// misplaced tells of annotations where nobody reads them.
func misplaced(result *Result, load *Workload, t *Template) {
	if load.Pod() {
		if _, ok := t.Pod.Annotations[v1alpha1.AnnotationCardRequest]; ok {
			result.warn(load.annotation(v1alpha1.AnnotationCardRequest), "is read on jobs and PodGroups only: what a pod asks for is its own request of the resource")
		}
		return
	}
	if _, ok := t.Pod.Annotations[v1alpha1.AnnotationCardRequest]; ok {
		result.warn(t.annotation(v1alpha1.AnnotationCardRequest), "is not read here: write it in %s.annotations", load.At)
	}
	if _, ok := load.Annotations[v1alpha1.AnnotationCardName]; !ok {
		return
	}
	_, named := t.Pod.Annotations[v1alpha1.AnnotationCardName]
	switch ask := &t.request; {
	case named: // the template says it as well
	case ask.Count > 0 && ask.Denied == nil:
		result.refuse(load.annotation(v1alpha1.AnnotationCardName), "is read by nobody, so its pods, which ask for %d %s each, could be placed on any card: write it in %s.metadata.annotations",
			ask.Count, ask.Resource, t.Path)
	default:
		result.warn(load.annotation(v1alpha1.AnnotationCardName), "is read by nobody: write it in %s.metadata.annotations", t.Path)
	}
}
