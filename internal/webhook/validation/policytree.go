package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
)

// warnPrioritiesCut warns of CardQuotas whose priority reaches the next higher service type. The
// operator cuts it, so that their queues stay below that type.
func warnPrioritiesCut(result *Result, effective v1alpha1.ServiceTypePolicySpec, quotas []*v1alpha1.CardQuota) {
	bandFor := policy.WrittenBands(effective)
	warnCardQuotas(result, specPath.Child("serviceTypes"), quotas, func(quota *v1alpha1.CardQuota) string {
		band, defined := bandFor(quota.Spec.ServiceType)
		if !defined || quota.Spec.Priority == nil {
			return ""
		}
		if _, cut := band.PriorityFor(*quota.Spec.Priority); !cut {
			return ""
		}

		text := fmt.Sprintf("%s: %d + %d", band.Type, band.Lowest, *quota.Spec.Priority)
		if band.Next != "" {
			text += fmt.Sprintf(", %s: %d", band.Next, band.NextPriority)
		}

		return text
	}, "have a priority that reaches the next service type", "the operator cuts it below that type: set the priorities of the types further apart, or lower spec.priority of these CardQuotas")
}

// warnQueueHierarchy warns of what a new spec.queueHierarchy means for the CardQuotas.
func warnQueueHierarchy(result *Result, hierarchy v1alpha1.QueueHierarchy, quotas []*v1alpha1.CardQuota) {
	at := specPath.Child("queueHierarchy")
	warn := func(find func(*v1alpha1.CardQuota) string, what, then string) {
		warnCardQuotas(result, at, quotas, find, what, fmt.Sprintf("with %s %s", hierarchy, then))
	}

	if hierarchy != v1alpha1.QueueHierarchyTree {
		warn(parentOf, "name a parent",
			"their queues go under root, quotas of parents no longer limit them, and deserved and guarantee have no effect")
		warn(cardsWithout(quotaWritten), "have cards without quota",
			"they may use what they deserve of these cards, and no more: write the quota")
		return
	}

	existing := map[string]bool{}
	parents := map[string]bool{}
	for _, quota := range quotas {
		existing[quota.Name] = true
		if quota.DeletionTimestamp == nil && quota.Spec.Parent != "" {
			parents[quota.Spec.Parent] = true
		}
	}

	withoutDeserved := cardsWithout(deservedWritten)
	warn(func(quota *v1alpha1.CardQuota) string {
		if existing[quota.Spec.Parent] {
			return ""
		}
		return parentOf(quota)
	}, "name a parent that does not exist", "nothing new starts in their queues until it does: create it, or correct spec.parent")

	warn(func(quota *v1alpha1.CardQuota) string {
		if !parents[quota.Name] {
			return ""
		}
		return quota.Spec.ServiceType
	}, "have a service type and are parents", "nothing new starts in their queues: give the work to a child, and remove spec.serviceType")

	warn(func(quota *v1alpha1.CardQuota) string {
		if quota.Spec.Parent == "" && !parents[quota.Name] {
			return ""
		}
		return withoutDeserved(quota)
	}, "have cards without deserved", "these cards deserve their quota, so the queue borrows none, and sums above the parent's are scaled: write deserved")
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

// warnCardQuotas warns of the CardQuotas of which find says something: how many, what they have, the
// first of them, and what follows.
func warnCardQuotas(result *Result, at *field.Path, quotas []*v1alpha1.CardQuota, find func(*v1alpha1.CardQuota) string, what, then string) {
	var found []string
	for _, quota := range quotas {
		if quota.DeletionTimestamp != nil {
			continue
		}
		if text := find(quota); text != "" {
			found = append(found, fmt.Sprintf("%s (%s)", quota.Name, text))
		}
	}

	if len(found) > 0 {
		slices.Sort(found)
		result.warn(at, "%d CardQuotas %s: %s; %s", len(found), what, conditions.JoinFirst(found, maxNames), then)
	}
}
