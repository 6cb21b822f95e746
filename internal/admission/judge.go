package admission

import (
	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/decision"
)

// Judge answers for a workload. before is the one it replaces, nil for a new one.
//
// What another object made is warned about only, since its maker was judged: an
// older maker must be able to go on. The exception is a queue that is not for the
// namespace, which an owner reference must not be a way into.
//
// Nobody is refused before there is a ServiceTypePolicy, nor as long as it says
// to warn: what ran before Cardquota came must go on being created.
func Judge(load Workload, before *Workload, world World) Answer {
	answer := judge(&load, &world)
	if before != nil {
		then := judge(before, &world)
		answer = answer.Since(then)
	}
	if load.Controlled() {
		answer = answer.softened()
	}
	places := entry(&load, &world)
	if before != nil {
		places = places.Since(entry(before, &world))
	}
	answer.Refusals = append(answer.Refusals, places.Refusals...)
	answer.Warnings = append(answer.Warnings, places.Warnings...)
	if world.looksOn() {
		return answer.softened()
	}
	return answer
}

// judge is everything but the entry into a queue.
func judge(load *Workload, world *World) Answer {
	var answer Answer
	spec := world.spec()
	for i := range load.Templates {
		t := &load.Templates[i]
		who := load.where(t)
		ask := decision.AskOf(t.Pod, world.Inventory)
		asked(&answer, who, t.Pod, ask, world.Inventory)
		misplaced(&answer, load, t, ask)
		past(&answer, load, t, ask, spec, world.User)
		if !load.Pod() {
			unknownKeys(&answer, who, t.Pod.Annotations)
		}
	}
	totals(&answer, load, world.Inventory)
	claims(&answer, load, world)
	unknownKeys(&answer, load.String(), load.Annotations)
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
func misplaced(answer *Answer, load *Workload, t *Template, ask decision.Ask) {
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
	switch {
	case named: // the template says it as well
	case ask.Count > 0 && ask.Refusal == nil:
		answer.refuse("%s: annotation %s in %s is read by nobody, so its pods, which ask for %d %s each, could be placed on any card: write it in %s.metadata.annotations",
			load, v1alpha1.AnnotationCardName, load.At, ask.Count, ask.Resource, t.Path)
	default:
		answer.warn("%s: annotation %s in %s is read by nobody: write it in %s.metadata.annotations", load, v1alpha1.AnnotationCardName, load.At, t.Path)
	}
}
