package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// treeAmounts are what a CardQuota says about one card, CPU or memory.
type treeAmounts struct {
	quota, deserved, guarantee int64
	// isNamed reports whether the CardQuota has an entry, and inherits whether that has no quota.
	isNamed, inherits bool
}

// needsGrant reports whether the entry asks the parent for something.
func (a treeAmounts) needsGrant() bool { return a.inherits || a.quota > 0 }

// exceedsInherited reports whether an amount is more than the quota, which the entry inherits.
func (a treeAmounts) exceedsInherited(amount int64) bool { return a.inherits && amount > a.quota }

// names returns the cards, CPU and memory of which a CardQuota has an entry.
func (w *treeSnapshot) names(c *v1alpha1.CardQuota) []quota.Resource {
	written := w.writtenFor(c.Name)
	return written.Resources()
}

// amounts returns what a CardQuota says about a name, with the quota that it inherits. It is false
// if that is unknown, because an ancestor does not exist yet.
func (w *treeSnapshot) amounts(c *v1alpha1.CardQuota, name quota.Resource) (a treeAmounts, known bool) {
	written := w.writtenFor(c.Name)
	limit, hasQuota := written.Quota[name]
	deserved, hasDeserved := written.Deserved[name]
	guarantee, hasGuarantee := written.Guarantee[name]
	a.isNamed = hasQuota || hasDeserved || hasGuarantee
	if !a.isNamed {
		return a, true
	}

	a.inherits = !hasQuota
	if a.inherits && c.Spec.Parent != "" {
		limit, known = w.inheritedQuota(c, name)
		if !known {
			return a, false
		}
	}

	if !hasDeserved && w.deservesQuota(c, name) {
		deserved = limit
	}

	a.quota = limit
	a.deserved = deserved
	a.guarantee = guarantee
	return a, true
}

// deservesQuota reports whether a CardQuota that does not write what it deserves deserves its quota.
// CPU and memory are only ceilings if nothing below writes more about them either.
func (w *treeSnapshot) deservesQuota(c *v1alpha1.CardQuota, name quota.Resource) bool {
	if name.IsCard() {
		return true
	}
	return slices.ContainsFunc(append(w.below(c), c), func(c *v1alpha1.CardQuota) bool {
		written := w.writtenFor(c.Name)
		_, deserves := written.Deserved[name]
		return deserves || written.Guarantee[name] > 0
	})
}

// inheritedQuota returns the quota of the nearest ancestor that writes one, and 0 below one
// without an entry. It is false if an ancestor is missing.
func (w *treeSnapshot) inheritedQuota(c *v1alpha1.CardQuota, name quota.Resource) (limit int64, known bool) {
	above := w.ancestors(c)
	for _, ancestor := range above {
		written := w.writtenFor(ancestor.Name)
		if limit, hasQuota := written.Quota[name]; hasQuota {
			return limit, true
		}
		if !slices.Contains(w.names(ancestor), name) {
			return 0, true
		}
	}
	return 0, len(above) > 0 && above[len(above)-1].Spec.Parent == ""
}

// ownExcesses checks the entries of a CardQuota by themselves.
func (w *treeSnapshot) ownExcesses(c *v1alpha1.CardQuota) (found []excess) {
	isInTree := c.Spec.Parent != "" || c.Spec.ServiceType == "" || len(w.children[c.Name]) > 0
	written := w.writtenFor(c.Name)
	for _, name := range w.names(c) {
		limit, hasQuota := written.Quota[name]
		if _, hasDeserved := written.Deserved[name]; isInTree && !hasDeserved && name.IsCard() {
			example := ""
			if hasQuota {
				example = fmt.Sprintf("; %s, its quota, means what it means to a flat queue", workload.FormatTreeAmount(name, limit))
			}
			found = append(found, newExcess("no deserved", "", 1, amountPath(name, "deserved"), "is not set: in a tree it says how much the queue takes back from others, so write it%s", example))
		}

		if c.Spec.Parent == "" && !hasQuota {
			found = append(found, newExcess("no quota", "", 1, amountPath(name, "quota"), "is not set, and there is no parent to inherit it from: write it"))
		}
	}

	return found
}

// applyAgain says what helps if one command raises a child and then its parent. Admission compares
// the child with the parent as it is.
const applyAgain = " and apply this again"

// amountExcesses checks the entries of a child against those of its parent. of begins the
// messages: "" if the child is what the user writes.
func (w *treeSnapshot) amountExcesses(child, parent *v1alpha1.CardQuota, of string) (found []excess) {
	again := ""
	if of == "" {
		again = applyAgain
	}

	for _, name := range w.names(child) {
		own, ownKnown := w.amounts(child, name)
		above, aboveKnown := w.amounts(parent, name)
		if !ownKnown || !aboveKnown {
			continue
		}

		add := func(rule string, amount int64, path *field.Path, format string, values ...any) {
			found = append(found, newExcess(rule, parent.Name+" "+child.Name, amount, path, "%s", of+fmt.Sprintf(format, values...)))
		}
		is := func(n int64) string { return workload.FormatTreeAmount(name, n) }
		switch {
		case above.quota == 0 && own.needsGrant():
			add("not in parent", max(1, own.quota), namePath(name), "parent %s grants no %s%s: grant it there first%s, or remove it from %s", parent.Name, name, w.wholeCardHint(parent, name), again, child.Name)
		case !own.inherits && own.quota > above.quota:
			add("quota", own.quota-above.quota, amountPath(name, "quota"), "is %s, but parent %s has %s: lower it, or raise the parent first%s", is(own.quota), parent.Name, is(above.quota), again)
		case own.exceedsInherited(own.deserved):
			add("deserved", own.deserved-own.quota, amountPath(name, "deserved"), "is %s, but the quota inherited from parent %s is %s: lower it, or raise the parent first%s", is(own.deserved), parent.Name, is(own.quota), again)
		case own.exceedsInherited(own.guarantee):
			add("guarantee", own.guarantee-own.quota, amountPath(name, "guarantee"), "is %s, but the quota inherited from parent %s is %s: lower it, or raise the parent first%s", is(own.guarantee), parent.Name, is(own.quota), again)
		}
	}

	return found
}

// wholeCardHint says that a parent has whole cards, if a child names a slice or a share of them.
func (w *treeSnapshot) wholeCardHint(parent *v1alpha1.CardQuota, name quota.Resource) string {
	model, _, isPart := strings.Cut(string(name), "/")
	if whole, known := w.amounts(parent, quota.Resource(model)); isPart && known && whole.quota > 0 {
		return fmt.Sprintf(" (it grants %d %s, but whole cards never cover their slices and shares)", whole.quota, model)
	}
	return ""
}

// sumExcesses checks what the children of a parent have together of some names. here is the
// CardQuota that the user writes: a child, or the parent.
func (w *treeSnapshot) sumExcesses(parent, here *v1alpha1.CardQuota, names []quota.Resource) (found []excess) {
	again := ""
	if here.Spec.Parent == parent.Name {
		again = applyAgain
	}

	for _, name := range names {
		above, known := w.amounts(parent, name)
		if !known {
			continue
		}

		for _, rule := range []struct {
			field  string
			limit  int64
			amount func(treeAmounts) int64
		}{
			{"deserved", above.deserved, func(a treeAmounts) int64 { return a.deserved }},
			{"guarantee", above.guarantee, func(a treeAmounts) int64 { return a.guarantee }},
		} {
			sum := int64(0)
			parts := []string(nil)
			add := func(a treeAmounts, part string) {
				if amount := rule.amount(a); amount > 0 {
					sum = quota.AddSaturating(sum, amount)
					parts = append(parts, workload.FormatTreeAmount(name, amount)+" "+part)
				}
			}

			for _, child := range w.children[parent.Name] {
				own, _ := w.amounts(child, name)
				add(own, partOf(child, here))
			}

			for _, queue := range w.handWritten[parent.QueueName()] {
				add(w.handWrittenAmounts(queue, name, above.quota), "by queue "+queue.Name)
			}

			if over := sum - rule.limit; over > 0 && above.quota > 0 {
				found = append(found, newExcess("sum", parent.Name, over, amountPath(name, rule.field), "the children of %s have %s together (%s), but %s has %s, %s too many: lower a child, or raise the parent first%s",
					parent.Name, workload.FormatTreeAmount(name, sum), conditions.JoinFirst(parts, maxNames), parent.Name, workload.FormatTreeAmount(name, rule.limit), workload.FormatTreeAmount(name, over), again))
			}
		}
	}

	return found
}

// handWrittenAmounts returns what a Queue without a CardQuota says about a name. inherited is the
// quota of its parent.
func (w *treeSnapshot) handWrittenAmounts(queue *v1beta1.Queue, name quota.Resource, inherited int64) treeAmounts {
	written := workload.QueueRulesFor(queue, w.unmanaged, nil).Tree
	limit, hasQuota := written.Quota[name]
	deserved, hasDeserved := written.Deserved[name]
	if !hasQuota && (hasDeserved || written.Guarantee[name] > 0) {
		limit = inherited
	}
	if !hasDeserved && (name.IsCard() || written.Guarantee[name] > 0) {
		deserved = limit
	}

	deserved = min(deserved, limit)
	return treeAmounts{quota: limit, deserved: deserved, guarantee: min(written.Guarantee[name], deserved)}
}

func partOf(child, here *v1alpha1.CardQuota) string {
	if child.Name == here.Name {
		return "here"
	}
	return "by " + child.Name
}

// priorityExcesses checks that the priority of a CardQuota stays below the next service type.
func priorityExcesses(c *v1alpha1.CardQuota, in *v1alpha1.ServiceTypePolicy) []excess {
	if in == nil || c.Spec.Priority == nil {
		return nil
	}

	band, isDefined := policy.WrittenBands(policy.Effective(in.Spec))(c.Spec.ServiceType)
	inside := *c.Spec.Priority
	if !isDefined {
		return nil
	}
	if _, isCut := band.PriorityFor(inside); !isCut {
		return nil
	}

	next := ""
	if band.Next != "" {
		next = fmt.Sprintf(", and service type %s begins at %d", band.Next, band.NextPriority)
	}

	return []excess{newExcess("priority", band.Type+band.Next, int64(inside), specPath.Child("priority"), "service type %s has priority %d, so its queues may have up to %d%s: write at most %d",
		band.Type, band.Lowest, band.Highest, next, band.Highest-band.Lowest)}
}

// cardPath returns the path of a field of a card.
func cardPath(name, of string) *field.Path { return specPath.Child("cards").Key(name).Child(of) }

// namePath returns the path of the entry of a card, CPU or memory.
func namePath(name quota.Resource) *field.Path {
	if name.IsCard() {
		return specPath.Child("cards").Key(name.String())
	}
	return specPath.Child("resources", name.String())
}

// amountPath returns the path of one amount of a card, CPU or memory.
func amountPath(name quota.Resource, of string) *field.Path {
	switch {
	case name.IsCard():
		return cardPath(name.String(), of)
	case of == "quota":
		return namePath(name)
	default:
		return specPath.Child("resources", of, name.String())
	}
}
