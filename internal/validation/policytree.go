package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/servicetype"
)

// warnPrioritiesCut warns of CardQuotas whose priority reaches the next higher service type. The
// operator cuts it, so that their queues stay below that type.
func warnPrioritiesCut(result *Result, effective v1alpha1.ServiceTypePolicySpec, quotas []*v1alpha1.CardQuota) {
	bandFor := policy.WrittenBands(effective)
	describeCut := func(quota *v1alpha1.CardQuota) string {
		band, isExceeded := exceededBand(quota, bandFor)
		if !isExceeded {
			return ""
		}

		text := fmt.Sprintf("%s: %d + %d", band.Type, band.Lowest, *quota.Spec.Priority)
		if band.Next != "" {
			text += fmt.Sprintf(", %s: %d", band.Next, band.NextPriority)
		}

		return text
	}

	warnCardQuotas(result, specPath.Child("serviceTypes"), quotas, describeCut, "have a priority that reaches the next service type",
		"the operator cuts it below that type: set the priorities of the types further apart, or lower spec.priority of these CardQuotas")
}

// exceededBand returns the band of priorities that the service type of a CardQuota has, if the priority of the
// CardQuota is beyond it. It returns false for a CardQuota without a priority, and for a type that is not defined.
func exceededBand(quota *v1alpha1.CardQuota, bandFor func(serviceType string) (servicetype.Band, bool)) (servicetype.Band, bool) {
	band, isDefined := bandFor(quota.Spec.ServiceType)
	if !isDefined || quota.Spec.Priority == nil {
		return band, false
	}
	_, isCut := band.PriorityFor(*quota.Spec.Priority)
	return band, isCut
}

// warnQueueHierarchy warns of what a new spec.queueHierarchy means for the CardQuotas.
func warnQueueHierarchy(result *Result, hierarchy v1alpha1.QueueHierarchy, quotas []*v1alpha1.CardQuota) {
	warn := func(describe func(*v1alpha1.CardQuota) string, what, then string) {
		warnCardQuotas(result, specPath.Child("queueHierarchy"), quotas, describe, what, fmt.Sprintf("with %s %s", hierarchy, then))
	}

	if hierarchy != v1alpha1.QueueHierarchyTree {
		warn(parentOf, "name a parent",
			"their queues go under root, quotas of parents no longer limit them, and deserved and guarantee have no effect")
		warn(cardsWithout(quotaWritten), "have cards without quota",
			"they may use what they deserve of these cards, and no more: write the quota")
		return
	}

	family := findParents(quotas)
	warn(family.missingParent, "name a parent that does not exist",
		"nothing new starts in their queues until it does: create it, or correct spec.parent")
	warn(family.typeOfParent, "have a service type and are parents",
		"nothing new starts in their queues: give the work to a child, and remove spec.serviceType")
	warn(family.cardsWithoutDeserved, "have cards without deserved",
		"these cards deserve their quota, so the queue borrows none, and sums above the parent's are scaled: write deserved")
}

// parentNames says which CardQuotas exist, and which of them are the parents of others, by name.
type parentNames struct{ existing, parents map[string]bool }

// findParents returns the names of CardQuotas. One that is being deleted makes no other one a parent.
func findParents(quotas []*v1alpha1.CardQuota) parentNames {
	p := parentNames{existing: map[string]bool{}, parents: map[string]bool{}}
	for _, quota := range quotas {
		p.existing[quota.Name] = true
		if quota.DeletionTimestamp == nil && quota.Spec.Parent != "" {
			p.parents[quota.Spec.Parent] = true
		}
	}
	return p
}

// missingParent describes the parent of a CardQuota that does not exist, "" if it does or none is named.
func (p parentNames) missingParent(quota *v1alpha1.CardQuota) string {
	if p.existing[quota.Spec.Parent] {
		return ""
	}
	return parentOf(quota)
}

// typeOfParent returns the service type of a CardQuota that is a parent, "" for none.
func (p parentNames) typeOfParent(quota *v1alpha1.CardQuota) string {
	if !p.parents[quota.Name] {
		return ""
	}
	return quota.Spec.ServiceType
}

// cardsWithoutDeserved describes the cards of a CardQuota that lack deserved, "" for none. A CardQuota that is alone at
// the top level needs none: it deserves its quota, as a flat queue does.
func (p parentNames) cardsWithoutDeserved(quota *v1alpha1.CardQuota) string {
	if quota.Spec.Parent == "" && !p.parents[quota.Name] {
		return ""
	}
	return cardsWithout(deservedWritten)(quota)
}

// parentOf describes the parent of a CardQuota, "" for none.
func parentOf(quota *v1alpha1.CardQuota) string {
	if quota.Spec.Parent == "" {
		return ""
	}
	return "parent " + quota.Spec.Parent
}

func quotaWritten(c v1alpha1.Card) bool    { return c.Quota != nil }
func deservedWritten(c v1alpha1.Card) bool { return c.Deserved != nil }

// cardsWithout returns a function that describes the cards of a CardQuota that lack an amount, ""
// for none.
func cardsWithout(isWritten func(v1alpha1.Card) bool) func(*v1alpha1.CardQuota) string {
	return func(quota *v1alpha1.CardQuota) string {
		var names []string
		for _, c := range quota.Spec.Cards {
			if !isWritten(c) {
				names = append(names, c.Name)
			}
		}

		return conditions.JoinFirst(names, 1)
	}
}

// warnCardQuotas warns of the CardQuotas of which describe returns a text: how many, what they have, the
// first of them with that text, and what follows.
func warnCardQuotas(result *Result, at *field.Path, quotas []*v1alpha1.CardQuota, describe func(*v1alpha1.CardQuota) string, what, then string) {
	var found []string
	for _, quota := range quotas {
		if quota.DeletionTimestamp != nil {
			continue
		}
		if text := describe(quota); text != "" {
			found = append(found, fmt.Sprintf("%s (%s)", quota.Name, text))
		}
	}

	if len(found) > 0 {
		slices.Sort(found)
		result.warn(at, "%d CardQuotas %s: %s; %s", len(found), what, conditions.JoinFirst(found, maxNames), then)
	}
}
