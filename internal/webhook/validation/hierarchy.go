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
)

// IsTree reports whether CardQuotas form a tree: in force, or as the policy is written. The
// operator needs a moment between the two.
func IsTree(in *v1alpha1.ServiceTypePolicy) bool {
	return policy.IsTree(in) || (in != nil && in.Spec.QueueHierarchy == v1alpha1.QueueHierarchyTree)
}

// checkHierarchy checks the place of a CardQuota in the tree of quotas. It refuses what is newly
// wrong. An error from before that does not grow becomes a warning.
func checkHierarchy(result *Result, quota, before *v1alpha1.CardQuota, input CardQuotaInput) {
	var priorityBefore []excess
	if before != nil {
		priorityBefore = priorityExcesses(before, input.Policy)
	}

	result.addNew(priorityExcesses(quota, input.Policy), priorityBefore)
	if !IsTree(input.Policy) {
		checkFlat(result, quota, before)
		return
	}

	proposed := newTreeSnapshot(quota, input)
	earlier := newTreeSnapshot(before, withoutCardQuota(input, quota.Name))
	found := proposed.findExcesses(quota)

	had := earlier.sumsBeside(quota)
	if before != nil {
		had = append(had, earlier.findExcesses(before)...)
	} else {
		found = append(found, proposed.excessesBelow(quota)...)
		had = append(had, earlier.excessesBelow(quota)...)
	}

	if before == nil || before.Spec.Parent != quota.Spec.Parent {
		found = append(found, proposed.podExcesses(quota)...)
	}

	result.addNew(found, had)
	if before != nil && len(result.Errors) == 0 {
		warnChangedChildren(result, proposed, earlier, quota)
	}

	proposed.warnOfParent(result, quota)
}

// withoutCardQuota returns the input without one CardQuota.
func withoutCardQuota(input CardQuotaInput, name string) CardQuotaInput {
	input.All = slices.DeleteFunc(slices.Clone(input.All), func(c *v1alpha1.CardQuota) bool { return c.Name == name })
	return input
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

// treeSnapshot is all CardQuotas, with one of them as it is written.
type treeSnapshot struct {
	all      []*v1alpha1.CardQuota
	byName   map[string]*v1alpha1.CardQuota
	children map[string][]*v1alpha1.CardQuota // by name, without those that are being deleted
	// written has what writtenFor has returned: most CardQuotas decide nothing.
	written map[string]quota.TreeQueue
	queues  []*v1beta1.Queue
	// handWritten are the Queues without a CardQuota, by the Queue that they name as parent.
	handWritten map[string][]*v1beta1.Queue
	unmanaged   v1alpha1.UnmanagedQueues
}

// newTreeSnapshot returns the CardQuotas of the input with one of them replaced. nil replaces none.
func newTreeSnapshot(replaced *v1alpha1.CardQuota, input CardQuotaInput) *treeSnapshot {
	w := &treeSnapshot{
		byName: map[string]*v1alpha1.CardQuota{}, children: map[string][]*v1alpha1.CardQuota{}, written: map[string]quota.TreeQueue{},
		queues: input.Queues, handWritten: map[string][]*v1beta1.Queue{}, unmanaged: policy.UnmanagedQueues(input.Policy),
	}

	if replaced != nil {
		input = withoutCardQuota(input, replaced.Name)
		w.all = append(w.all, replaced)
	}

	w.all = append(w.all, input.All...)
	for _, c := range w.all {
		w.byName[c.Name] = c
		if c.Spec.Parent != "" && c.DeletionTimestamp == nil {
			w.children[c.Spec.Parent] = append(w.children[c.Spec.Parent], c)
		}
	}

	w.addHandWritten()
	for _, children := range w.children {
		slices.SortFunc(children, func(a, b *v1alpha1.CardQuota) int { return strings.Compare(a.Name, b.Name) })
	}

	return w
}

// addHandWritten adds the Queues that no CardQuota owns.
func (w *treeSnapshot) addHandWritten() {
	owned := map[string]bool{}
	for _, c := range w.all {
		owned[c.QueueName()] = true
	}
	for _, queue := range w.queues {
		if !owned[queue.Name] && queue.Spec.Parent != "" {
			w.handWritten[queue.Spec.Parent] = append(w.handWritten[queue.Spec.Parent], queue)
		}
	}
}

// writtenFor returns a CardQuota as part of a tree, by name. Without one it is empty.
func (w *treeSnapshot) writtenFor(name string) quota.TreeQueue {
	written, known := w.written[name]
	if c := w.byName[name]; !known && c != nil {
		written = cardquota.TreeQueueFor(c)
		w.written[name] = written
	}
	return written
}

// findExcesses returns every rule that a CardQuota breaks in the tree.
func (w *treeSnapshot) findExcesses(c *v1alpha1.CardQuota) []excess {
	found := append(w.pathExcesses(c), w.workExcesses(c)...)
	found = append(found, w.ownExcesses(c)...)
	if parent := w.byName[c.Spec.Parent]; parent != nil && !w.isCyclic(c) {
		found = append(found, w.amountExcesses(c, parent, "")...)
		found = append(found, w.sumExcesses(parent, c, w.names(c))...)
	}
	return found
}

// sumsBeside returns what is already too much together with the children of a CardQuota's parent.
func (w *treeSnapshot) sumsBeside(c *v1alpha1.CardQuota) []excess {
	parent := w.byName[c.Spec.Parent]
	written := cardquota.TreeQueueFor(c)
	if parent == nil {
		return nil
	}
	return w.sumExcesses(parent, c, written.Resources())
}

// excessesBelow measures what is below a new CardQuota, which may be created after its children.
// So the order of creation does not matter.
func (w *treeSnapshot) excessesBelow(top *v1alpha1.CardQuota) (found []excess) {
	for _, parent := range append(w.below(top), top) {
		if w.byName[parent.Name] == nil {
			continue
		}

		names := quota.Amounts{}
		for _, child := range w.children[parent.Name] {
			if w.isCyclic(child) {
				continue
			}
			found = append(found, w.amountExcesses(child, parent, "CardQuota "+child.Name+": ")...)
			for _, name := range w.names(child) {
				names[name] = 1
			}
		}
		found = append(found, w.sumExcesses(parent, top, names.Sorted())...)
	}
	return found
}

// ancestors returns the CardQuotas above c, the nearest first. It ends before a missing one, and
// before one that repeats.
func (w *treeSnapshot) ancestors(c *v1alpha1.CardQuota) (above []*v1alpha1.CardQuota) {
	for at := w.byName[c.Spec.Parent]; at != nil && at.Name != c.Name && !slices.Contains(above, at); at = w.byName[at.Spec.Parent] {
		above = append(above, at)
	}
	return above
}

// isCyclic reports whether the parents of a CardQuota lead back to one of them.
func (w *treeSnapshot) isCyclic(c *v1alpha1.CardQuota) bool {
	last := c
	if above := w.ancestors(c); len(above) > 0 {
		last = above[len(above)-1]
	}
	return w.byName[last.Spec.Parent] != nil
}

// pathExcesses checks the path to the top level, and that of the deepest CardQuota below.
func (w *treeSnapshot) pathExcesses(c *v1alpha1.CardQuota) (found []excess) {
	at := specPath.Child("parent")
	path := namesOf(append([]*v1alpha1.CardQuota{c}, w.ancestors(c)...))
	if w.isCyclic(c) {
		last := w.byName[path[len(path)-1]]
		return append(found, newExcess("cycle", "", 1, at, "the parents form a cycle: %s names %s again, so no queue of them would have a path to root: name another parent",
			strings.Join(path, " names "), last.Spec.Parent))
	}

	deepest := w.deepestBelow(c, quota.MaxDepth)
	if levels := len(path) + len(deepest); levels > quota.MaxDepth {
		slices.Reverse(path)
		found = append(found, newExcess("depth", "", int64(levels), at, "%s would be %d levels below the root, and at most %d are possible: name a parent further up",
			strings.Join(append(path, deepest...), " > "), levels, quota.MaxDepth))
	}

	return found
}

// deepestBelow returns the longest path below a CardQuota, as far as so many levels.
func (w *treeSnapshot) deepestBelow(c *v1alpha1.CardQuota, levels int) (deepest []string) {
	if levels == 0 {
		return nil
	}
	for _, child := range w.children[c.Name] {
		if path := append([]string{child.Name}, w.deepestBelow(child, levels-1)...); len(path) > len(deepest) {
			deepest = path
		}
	}
	return deepest
}

// workExcesses checks that only leaves take jobs.
func (w *treeSnapshot) workExcesses(c *v1alpha1.CardQuota) (found []excess) {
	if children := w.children[c.Name]; len(children) > 0 && c.Spec.ServiceType != "" {
		found = append(found, newExcess("type", "", 1, specPath.Child("serviceType"), "it is the parent of %s, and only leaves take jobs: remove serviceType, and give the jobs a CardQuota of their own below this one",
			conditions.JoinFirst(namesOf(children), maxNames)))
	}

	parent := w.byName[c.Spec.Parent]
	at := specPath.Child("parent")
	if parent == nil {
		return found
	}

	if parent.Spec.ServiceType != "" {
		found = append(found, newExcess("parent's type", parent.Name, 1, at, "CardQuota %s has serviceType %s and takes jobs, but a parent takes none: remove serviceType there first, and give its jobs a CardQuota of their own below it",
			parent.Name, parent.Spec.ServiceType))
	}

	return found
}

// podExcesses checks that a queue with pods does not become a parent, which Volcano refuses.
func (w *treeSnapshot) podExcesses(c *v1alpha1.CardQuota) []excess {
	parent := w.byName[c.Spec.Parent]
	if parent == nil || len(w.children[parent.Name]) > 1 {
		return nil
	}
	pods := w.podsOf(parent)
	if pods == 0 {
		return nil
	}
	return []excess{newExcess("pods", parent.Name, pods, specPath.Child("parent"), "queue %s of CardQuota %s has %d pods, and a queue with pods cannot become a parent: wait until they end, or delete them",
		parent.QueueName(), parent.Name, pods)}
}

// podsOf returns how many pods hold something in the queue of a CardQuota, as Volcano counts them.
func (w *treeSnapshot) podsOf(c *v1alpha1.CardQuota) int64 {
	i := slices.IndexFunc(w.queues, func(q *v1beta1.Queue) bool { return q.Name == c.QueueName() })
	if i < 0 {
		return 0
	}
	pods := w.queues[i].Status.Allocated[corev1.ResourcePods]
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
