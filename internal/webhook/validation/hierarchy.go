package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// HierarchyFor returns whether CardQuotas form a tree: in force, or as the policy is written. The
// operator needs a moment between the two. Without a policy, nil, they are flat.
func HierarchyFor(inForce *v1alpha1.ServiceTypePolicy) v1alpha1.QueueHierarchy {
	if inForce == nil || policy.IsTree(inForce) {
		return policy.HierarchyInForce(inForce)
	}
	return inForce.Spec.QueueHierarchy
}

// checkHierarchy checks the place of a CardQuota in the tree of quotas. proposed has it as it is to be, before is the
// CardQuota as it was, nil for a new one. It refuses what is newly wrong. An error from before that does not grow becomes
// a warning.
func checkHierarchy(result *Result, quota, before *v1alpha1.CardQuota, proposed writtenTree) {
	var priorityBefore []excess
	if before != nil {
		priorityBefore = priorityExcesses(before, proposed.input.Policy)
	}

	result.addNew(priorityExcesses(quota, proposed.input.Policy), priorityBefore)
	if proposed.IsFlat() {
		checkFlat(result, quota, before)
		return
	}

	earlier := newWrittenTree(quota, before, proposed.input)
	found := proposed.findExcesses(quota)

	// A sum can be too large without this CardQuota, which is not to be refused for that.
	had := earlier.sumExcesses(quota.Spec.Parent, quota)
	if before != nil {
		had = append(had, earlier.findExcesses(before)...)
	} else {
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

// othersThan returns all CardQuotas but one.
func (i *CardQuotaInput) othersThan(name string) []*v1alpha1.CardQuota {
	return slices.DeleteFunc(slices.Clone(i.All), func(c *v1alpha1.CardQuota) bool { return c.Name == name })
}

// checkFlat refuses what only a tree allows, and warns of what only a tree uses.
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

// excess is one rule of a tree that a CardQuota breaks, and by how much. Excesses of one key are
// compared before and after a change.
type excess struct {
	key    string
	amount int64
	err    *field.Error
}

// newExcess returns the excess of a rule at a field. other is the CardQuota that it is measured
// against.
func newExcess(rule, other string, amount int64, path *field.Path, format string, values ...any) excess {
	return excess{key: rule + " " + path.String() + " " + other, amount: amount, err: field.Forbidden(path, fmt.Sprintf(format, values...))}
}

// addNew refuses each excess that is new or has grown, and warns of the others.
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

// writtenTree is the CardQuotas as they are written, of which each is judged. It is flat if they form no tree.
type writtenTree struct {
	*cardquota.Tree
	input CardQuotaInput
}

// newWrittenTree returns the CardQuotas that decide about the validated one. here is that one in the tree: as it was
// before the change or is to be, nil for neither. It owns its queue there, even if another CardQuota does so until that
// is deleted.
func newWrittenTree(validated, here *v1alpha1.CardQuota, input CardQuotaInput) writtenTree {
	w := writtenTree{Tree: cardquota.Flat, input: input}
	if HierarchyFor(input.Policy) != v1alpha1.QueueHierarchyTree {
		return w
	}

	all := slices.DeleteFunc(slices.Clone(input.All), func(c *v1alpha1.CardQuota) bool {
		return c.Name == validated.Name || c.QueueName() == validated.QueueName()
	})
	if here != nil {
		all = append(all, here)
	}

	w.Tree = cardquota.NewWrittenTree(relativesOf(all, validated, here), unownedChildren(input), policy.UnmanagedQueues(input.Policy))
	return w
}

// unownedChildren returns the Queues below others that no CardQuota owns.
func unownedChildren(input CardQuotaInput) []*v1beta1.Queue {
	owners := cardquota.OwnersByQueue(input.All)
	return slices.DeleteFunc(slices.Clone(input.Queues), func(q *v1beta1.Queue) bool {
		return q.Spec.Parent == "" || q.Spec.Parent == workload.RootQueue || owners[q.Name] != nil
	})
}

// relativesOf reduces a list of all CardQuotas, which it changes, to those that decide about the given ones: the ancestors
// of each, and all below its parent, or below itself without one. One that is being deleted needs nothing of its parent
// any more, unless there are others below it. A given one may be nil.
func relativesOf(all []*v1alpha1.CardQuota, of ...*v1alpha1.CardQuota) []*v1alpha1.CardQuota {
	byName := make(map[string]*v1alpha1.CardQuota, len(all))
	children := map[string][]*v1alpha1.CardQuota{}
	for _, c := range all {
		byName[c.Name] = c
		if c.Spec.Parent != "" {
			children[c.Spec.Parent] = append(children[c.Spec.Parent], c)
		}
	}

	// keepBelow keeps what is below a CardQuota, and reports whether there is anything. isWalked ends the walk where
	// written parents form a cycle.
	kept := map[string]bool{}
	isWalked := map[string]bool{}
	var keepBelow func(name string) bool
	keepBelow = func(name string) (keepsAny bool) {
		if isWalked[name] {
			return false
		}

		isWalked[name] = true
		for _, child := range children[name] {
			if keepBelow(child.Name) || child.DeletionTimestamp == nil {
				kept[child.Name] = true
				keepsAny = true
			}
		}
		return keepsAny
	}

	for _, c := range of {
		if c == nil {
			continue
		}

		// Siblings divide what their parent deserves and is guaranteed.
		kept[c.Name] = true
		keepBelow(c.Name)
		keepBelow(c.Spec.Parent)

		// Each ancestor bounds the quota of what is below it.
		isAbove := map[string]bool{}
		for at := byName[c.Spec.Parent]; at != nil && !isAbove[at.Name]; at = byName[at.Spec.Parent] {
			isAbove[at.Name] = true
			kept[at.Name] = true
		}
	}

	return slices.DeleteFunc(all, func(c *v1alpha1.CardQuota) bool { return !kept[c.Name] })
}

// Children returns the names of the CardQuotas that name the given one as their parent, sorted, without those
// that are being deleted.
func (w writtenTree) Children(name string) []string {
	return slices.DeleteFunc(w.Tree.Children(name), func(child string) bool { return w.Quota(child).DeletionTimestamp != nil })
}

// findExcesses returns every rule that a CardQuota breaks in the tree.
func (w writtenTree) findExcesses(c *v1alpha1.CardQuota) []excess {
	found := append(w.pathExcesses(c), w.workExcesses(c)...)
	found = append(found, w.unwrittenExcesses(c)...)
	found = append(found, w.ownExcesses(c.Name, "")...)
	return append(found, w.sumExcesses(c.Spec.Parent, c)...)
}

// excessesBelow measures what is below a new CardQuota, which may be created after its children.
// So the order of creation does not matter. below are its name and those below it.
func (w writtenTree) excessesBelow(below []string, top *v1alpha1.CardQuota) (found []excess) {
	for _, parent := range below {
		for _, child := range w.Children(parent) {
			found = append(found, w.ownExcesses(child, "CardQuota "+child+": ")...)
		}
		found = append(found, w.sumExcesses(parent, top)...)
	}
	return found
}

// pathExcesses checks that the path to the top level ends, and that it is not too deep for the CardQuota and for the
// deepest one below.
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

// workExcesses checks that only leaves take jobs.
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

// podsOf returns how many pods use something in the queue of a CardQuota, as Volcano counts them.
func (w writtenTree) podsOf(c *v1alpha1.CardQuota) int64 {
	i := slices.IndexFunc(w.input.Queues, func(q *v1beta1.Queue) bool { return q.Name == c.QueueName() })
	if i < 0 {
		return 0
	}
	pods := w.input.Queues[i].Status.Allocated[corev1.ResourcePods]
	return pods.Value()
}

// namesOf returns the names of CardQuotas.
func namesOf(quotas []*v1alpha1.CardQuota) []string {
	names := make([]string, len(quotas))
	for i, c := range quotas {
		names[i] = c.Name
	}
	return names
}
