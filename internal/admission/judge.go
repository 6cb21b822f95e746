package admission

import (
	"context"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/clip"
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
// The error is the context's: nobody waits for the answer any more.
func Judge(ctx context.Context, load Workload, before *Workload, world World) (Answer, error) {
	world.read(ctx, &load)
	answer, places := judge(ctx, &load, &world), entry(&load, &world)
	if before != nil {
		world.read(ctx, before)
		answer = answer.Since(judge(ctx, before, &world))
		places = places.Since(entry(before, &world))
	}
	if load.Controlled() {
		answer = answer.softened()
	}
	answer.join(places)
	if world.looksOn() {
		answer = answer.softened()
	}
	return answer, ctx.Err()
}

// judge is everything but the entry into a queue. It ends early, with anything,
// when nobody waits for it.
func judge(ctx context.Context, load *Workload, world *World) Answer {
	var answer Answer
	spec := world.spec()
	for i := range load.Templates {
		if ctx.Err() != nil {
			return answer
		}
		t := &load.Templates[i]
		who := load.where(t)
		asked(&answer, who, t, world.Inventory)
		misplaced(&answer, load, t)
		past(&answer, load, t, spec, world.User)
		if !load.Pod() {
			unknownKeys(&answer, who, t.Pod.Annotations)
		}
	}
	if load.More {
		answer.refuse("%s: has more than %d pod templates, and no more are looked at: write fewer tasks with more replicas, or several jobs", load, MostTemplates)
	}
	totals(&answer, load, world.Inventory)
	claims(&answer, load, world)
	unknownKeys(&answer, load.String(), load.Annotations)
	return answer
}

// Overlarge answers for a workload that nobody reads for its size: who names it,
// was tells that the one it replaces was as large. It is refused, since cards may
// be in it; no honest one is so large.
func Overlarge(who string, was bool, world World) Answer {
	var answer Answer
	answer.refuse("%s: has too many parts to be looked at: write fewer tasks with more replicas, or several jobs", clip.Text(who, shown))
	if was {
		answer = answer.Since(answer)
	}
	if world.looksOn() {
		answer = answer.softened()
	}
	return answer
}

// where names a template of the workload.
func (w *Workload) where(t *Template) string {
	if t.Path == "" {
		return w.String()
	}
	return w.String() + ", " + t.Path
}

// misplaced tells of annotations where nobody reads them.
func misplaced(answer *Answer, load *Workload, t *Template) {
	if load.Pod() {
		if _, ok := t.Pod.Annotations[v1alpha1.AnnotationCardRequest]; ok {
			answer.warn("%s: annotation %s is read on jobs and PodGroups only: what a pod asks for is its own request of the resource", load, v1alpha1.AnnotationCardRequest)
		}
		return
	}
	who := load.where(t)
	if _, ok := t.Pod.Annotations[v1alpha1.AnnotationCardRequest]; ok {
		answer.warn("%s: annotation %s is not read here: write it in %s.annotations", who, v1alpha1.AnnotationCardRequest, load.At)
	}
	if _, ok := load.Annotations[v1alpha1.AnnotationCardName]; !ok {
		return
	}
	_, named := t.Pod.Annotations[v1alpha1.AnnotationCardName]
	switch ask := &t.request; {
	case named: // the template says it as well
	case ask.Count > 0 && ask.Denied == nil:
		answer.refuse("%s: annotation %s in %s is read by nobody, so its pods, which ask for %d %s each, could be placed on any card: write it in %s.metadata.annotations",
			load, v1alpha1.AnnotationCardName, load.At, ask.Count, ask.Resource, t.Path)
	default:
		answer.warn("%s: annotation %s in %s is read by nobody: write it in %s.metadata.annotations", load, v1alpha1.AnnotationCardName, load.At, t.Path)
	}
}
