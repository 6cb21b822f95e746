package validation

import (
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/quota"
)

// checkHierarchy checks the place of a CardQuota in the tree of quotas. proposed has it as it is to be, before is the
// CardQuota as it was, nil for a new one. It refuses what is newly wrong. An error from before that does not grow
// becomes a warning. An excess is a rule that is broken, and by how much.
func checkHierarchy(result *Result, quota, before *v1alpha1.CardQuota, proposed writtenTree) {
	// Priorities are checked in flat queues too.
	var priorityBefore []excess
	if before != nil {
		priorityBefore = priorityExcesses(before, proposed.input.Policy)
	}

	result.addNew(priorityExcesses(quota, proposed.input.Policy), priorityBefore)
	if proposed.IsFlat() {
		checkFlat(result, quota, before)
		return
	}

	// found is what is wrong with the change, had what was wrong without it.
	earlier := newWrittenTree(quota, before, proposed.input)
	found := proposed.findExcesses(quota)

	// A sum can be too large without this CardQuota, which is not to be refused for that.
	had := earlier.sumExcesses(quota.Spec.Parent, quota)
	if before != nil {
		had = append(had, earlier.findExcesses(before)...)
	} else { // its children may have been created before it
		below := append([]string{quota.Name}, proposed.Below(quota.Name)...)
		found = append(found, proposed.excessesBelow(below, quota)...)
		had = append(had, earlier.excessesBelow(below, quota)...)
	}

	// Volcano lets no Queue with pods become a parent, but accepts more children of one that is.
	if before == nil || before.Spec.Parent != quota.Spec.Parent {
		found = append(found, proposed.podExcesses(quota)...)
	}

	result.addNew(found, had)
	if before != nil && len(result.Errors) == 0 {
		warnChangedChildren(result, quota, before, proposed)
	}

	proposed.warnOfParent(result, quota)
}

// checkFlat refuses what only a tree allows, and warns of what only a tree uses. before is nil for a new CardQuota;
// what was wrong in it already only warns.
func checkFlat(result *Result, quota, before *v1alpha1.CardQuota) {
	const flat = "queueHierarchy of the ServiceTypePolicy is Flat"
	wrong := func(quota *v1alpha1.CardQuota) (found Result) {
		if quota == nil {
			return found
		}

		if quota.Spec.ServiceType == "" {
			found.refuse(specPath.Child("serviceType"), "is not set: only a parent in a tree of quotas has none, and %s", flat)
		}

		for _, c := range quota.Spec.Cards {
			if c.Quota == nil {
				found.refuse(cardPath(c.Name, "quota"), "is not set: only a child in a tree of quotas inherits one, and %s: write it", flat)
			}
		}

		return found
	}

	result.addResult(wrong(quota).OnlyNew(wrong(before)))
	if fields := cardquota.UnusedTreeFields(quota); len(fields) > 0 {
		result.warn(specPath, "%s: unused while %s; set it to Tree to use them", strings.Join(fields, ", "), flat)
	}
}

// addNew refuses each excess that is new or has grown, and warns of the others. The key says which rule is broken, at
// which field and against which CardQuota.
func (r *Result) addNew(found, before []excess) {
	had := map[string]int64{}
	for _, e := range before {
		had[e.key] = max(had[e.key], e.amount)
	}
	for _, e := range found {
		if e.amount > had[e.key] {
			r.Errors = append(r.Errors, e.err)
		} else {
			r.Warnings = append(r.Warnings, "as before: "+e.err.Error())
		}
	}
}

// findExcesses returns every rule that a CardQuota breaks in the tree, and its part in what its parent's children have
// together.
func (w writtenTree) findExcesses(c *v1alpha1.CardQuota) []excess {
	found := append(w.pathExcesses(c), w.workExcesses(c)...)
	found = append(found, w.unwrittenExcesses(c)...)
	found = append(found, w.ownExcesses(c.Name, "")...)
	return append(found, w.sumExcesses(c.Spec.Parent, c)...)
}

// excessesBelow returns the rules that those below a new CardQuota, top, break once it exists: it may be created after
// its children, so the order of creation does not matter. below are its name and those below it.
func (w writtenTree) excessesBelow(below []string, top *v1alpha1.CardQuota) (found []excess) {
	for _, parent := range below {
		for _, child := range w.Children(parent) {
			found = append(found, w.ownExcesses(child, "CardQuota "+child+": ")...)
		}
		found = append(found, w.sumExcesses(parent, top)...)
	}
	return found
}

// pathExcesses checks that the path to the top level is no cycle, and that neither the CardQuota nor one
// below is too deep. An excess says by how much a rule is broken: a cycle always by 1.
func (w writtenTree) pathExcesses(c *v1alpha1.CardQuota) (found []excess) {
	at := specPath.Child("parent")
	path := namesOf(append([]*v1alpha1.CardQuota{c}, w.Ancestors(c.Name)...))
	// A path without an end has no depth.
	if w.Fault(c.Name).Kind == quota.ParentCycle {
		last := w.Quota(path[len(path)-1])
		return append(found, newExcess("cycle", "", 1, at, "the parents form a cycle: %s names %s again, so no queue of them would have a path to root: name another parent",
			strings.Join(path, " names "), last.Spec.Parent))
	}

	deepest := w.deepestBelow(c.Name)
	if levels := len(path) + len(deepest); levels > quota.MaxDepth {
		slices.Reverse(path)
		found = append(found, newExcess("depth", "", int64(levels), at, "%s would be %d levels below the root, and at most %d are possible: name a parent further up",
			strings.Join(append(path, deepest...), " > "), levels, quota.MaxDepth))
	}

	return found
}

// deepestBelow returns the longest path below a CardQuota without a cycle.
func (w writtenTree) deepestBelow(name string) (deepest []string) {
	for _, child := range w.Children(name) {
		if path := append([]string{child}, w.deepestBelow(child)...); len(path) > len(deepest) {
			deepest = path
		}
	}
	return deepest
}

// workExcesses checks that only leaves take jobs: a CardQuota with children has no service type, and neither has the
// parent of another one.
func (w writtenTree) workExcesses(c *v1alpha1.CardQuota) (found []excess) {
	if children := w.Children(c.Name); len(children) > 0 && c.Spec.ServiceType != "" {
		found = append(found, newExcess("type", "", 1, specPath.Child("serviceType"), "it is the parent of %s, and only leaves take jobs: remove serviceType, and give the jobs a CardQuota of their own below this one",
			conditions.JoinFirst(children, maxNames)))
	}

	parent := w.Quota(c.Spec.Parent)
	at := specPath.Child("parent")
	if parent != nil && parent.Spec.ServiceType != "" {
		found = append(found, newExcess("parent's type", parent.Name, 1, at, "CardQuota %s has serviceType %s and takes jobs, but a parent takes none: remove serviceType there first, and give its jobs a CardQuota of their own below it",
			parent.Name, parent.Spec.ServiceType))
	}

	return found
}

// podExcesses checks that a queue with pods does not become a parent, which Volcano refuses.
func (w writtenTree) podExcesses(c *v1alpha1.CardQuota) []excess {
	parent := w.Quota(c.Spec.Parent)
	if parent == nil || len(w.Children(parent.Name)) > 1 { // with another child it is a parent already
		return nil
	}
	pods := w.podsOf(parent)
	if pods == 0 {
		return nil
	}
	return []excess{newExcess("pods", parent.Name, pods, specPath.Child("parent"), "queue %s of CardQuota %s has %d pods, and a queue with pods cannot become a parent: wait until they end, or delete them",
		parent.QueueName(), parent.Name, pods)}
}

// namesOf returns the names of CardQuotas.
func namesOf(quotas []*v1alpha1.CardQuota) []string {
	names := make([]string, len(quotas))
	for i, c := range quotas {
		names[i] = c.Name
	}
	return names
}
