package validation

import (
	"fmt"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// unwrittenExcesses checks that a CardQuota of a tree writes what each of its cards deserves.
func (w writtenTree) unwrittenExcesses(c *v1alpha1.CardQuota) (found []excess) {
	// A CardQuota with a service type and no relatives is what it is in flat queues, where it deserves its
	// quota.
	if c.Spec.Parent == "" && c.Spec.ServiceType != "" && len(w.Children(c.Name)) == 0 {
		return nil
	}

	for _, entry := range c.Spec.Cards {
		if entry.Deserved != nil {
			continue
		}

		example := ""
		if entry.Quota != nil {
			example = fmt.Sprintf("; %d, its quota, means what it means to a flat queue", *entry.Quota)
		}
		found = append(found, newExcess("no deserved", "", 1, cardPath(entry.Name, "deserved"), "is not set: in a tree it says how much the queue takes back from others, so write it%s", example))
	}

	return found
}

// applyAgain says what helps if one command raises a child and then its parent. Admission compares
// the child with the parent as it is.
const applyAgain = " and apply this again"

// ownExcesses checks the entries of the named CardQuota against those of its parent, each by itself. Of each
// card, CPU and memory it returns only the first excess, so that one mistake is one error. It leaves out sums
// of children, which sumExcesses checks, and what the schema of the API refuses.
//
// of begins the messages: "" for the CardQuota that the user writes, else the name of a child of it or below.
func (w writtenTree) ownExcesses(name, of string) (found []excess) {
	again := ""
	if of == "" {
		again = applyAgain
	}

	isKnown := map[quota.Resource]bool{}
	for _, e := range w.Excess(name) {
		if e.IsOfSum() || isKnown[e.Of] || w.isOfSchema(name, e) {
			continue
		}

		isKnown[e.Of] = true
		path := amountPath(e.Of, workload.ExcessField(e.Kind))
		if e.Kind == quota.NotInParent {
			path = namePath(e.Of)
		}
		found = append(found, newExcess(fmt.Sprint(e.Kind), e.Parent+" "+name, e.Over(), path, "%s", of+workload.RefuseExcess(e, name, w.wholeCardHint(e), again)))
	}

	return found
}

// isOfSchema reports whether amounts of a CardQuota do not fit each other, whatever its parent has. The schema
// of the API refuses that. It is false for amounts above a quota that the CardQuota inherits, which the schema does not
// know.
func (w writtenTree) isOfSchema(name string, e quota.Excess) bool {
	r := w.Resolved(name)
	_, hasQuota := r.Written.Quota[e.Of]
	isCut := e.Kind == quota.DeservedAboveQuota || e.Kind == quota.GuaranteeAboveDeserved
	return isCut && (hasQuota || e.Limit != r.Limits.Quota(e.Of))
}

// wholeCardHint says that a parent has whole cards, if a child names a slice or a share of them.
func (w writtenTree) wholeCardHint(e quota.Excess) string {
	model, _, isPart := strings.Cut(string(e.Of), "/")
	whole := w.Resolved(e.Parent).Limits.Quota(quota.Resource(model))
	if isPart && whole > 0 && whole < quota.Unlimited {
		return fmt.Sprintf(" (it grants %d %s, but whole cards never cover their slices and shares)", whole, model)
	}
	return ""
}

// sumExcesses checks what the children of a parent have together. here is the CardQuota that the user writes:
// a child of the parent, the parent, or one above it. A child is judged only for the cards, CPU and memory
// that it has itself.
func (w writtenTree) sumExcesses(parent string, here *v1alpha1.CardQuota) (found []excess) {
	again := ""
	judged := map[quota.Resource]bool{} // of which the user's change can make a sum too large
	if here.Spec.Parent == parent {
		again = applyAgain
		addEntries(judged, here)
	} else {
		for _, child := range w.Children(parent) {
			addEntries(judged, w.Quota(child))
		}
	}

	for _, e := range w.ExcessOfChildren(parent) {
		// Where the parent grants none, each child is refused by itself already.
		if !judged[e.Of] || !e.IsOfSum() || w.Resolved(parent).Limits.Quota(e.Of) == 0 {
			continue
		}

		for i, part := range e.Parts { // the message lists what each child has: "4 here, 5 by chat"
			e.Parts[i].Queue = "by " + part.Queue
			if part.Queue == here.Name {
				e.Parts[i].Queue = "here"
			}
		}
		found = append(found, newExcess("sum", parent, e.Over(), amountPath(e.Of, workload.ExcessField(e.Kind)), "%s", workload.RefuseExcess(e, "", "", again)))
	}

	return found
}

// addEntries adds the cards, CPU and memory of which a CardQuota has an entry.
func addEntries(to map[quota.Resource]bool, c *v1alpha1.CardQuota) {
	written := cardquota.TreeQueueFor(c)
	for _, name := range written.Resources() {
		to[name] = true
	}
}

// priorityExcesses checks that the priority of a CardQuota stays below the next service type of the policy, nil for
// none.
func priorityExcesses(c *v1alpha1.CardQuota, inForce *v1alpha1.ServiceTypePolicy) []excess {
	if inForce == nil {
		return nil
	}
	band, isExceeded := exceededBand(c, policy.WrittenBands(policy.Effective(inForce.Spec)))
	if !isExceeded {
		return nil
	}

	next := ""
	if band.Next != "" {
		next = fmt.Sprintf(", and service type %s begins at %d", band.Next, band.NextPriority)
	}

	return []excess{newExcess("priority", band.Type+band.Next, int64(*c.Spec.Priority), specPath.Child("priority"), "service type %s has priority %d, so its queues may have up to %d%s: write at most %d",
		band.Type, band.Lowest, band.Highest, next, band.Highest-band.Lowest)}
}
