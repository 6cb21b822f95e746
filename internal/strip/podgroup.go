package strip

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/waiting"
)

// groupAnnotations are the annotations of PodGroups that a reader of the cache needs, with the maximum
// length of a valid value.
var groupAnnotations = map[string]int{v1alpha1.AnnotationCardRequest: card.MaxTotalsText}

// PodGroup returns what the usage count and admission read of a PodGroup. A tenant can write any field of
// it, also its status.
func PodGroup(group *v1beta1.PodGroup) *v1beta1.PodGroup {
	kept := &v1beta1.PodGroup{
		TypeMeta: group.TypeMeta, ObjectMeta: stripMeta(&group.ObjectMeta, nil, groupAnnotations),
		Spec: v1beta1.PodGroupSpec{
			Queue: truncateOneOver(group.Spec.Queue, maxNameLength), MinMember: group.Spec.MinMember, MinResources: stripMinResources(group.Spec.MinResources),
		},
		Status: v1beta1.PodGroupStatus{Phase: truncateOneOver(group.Status.Phase, maxNameLength), Running: group.Status.Running},
	}

	if why, blocked := waiting.PodGroupPendingReason(group); blocked {
		kept.Status.Conditions = []v1beta1.PodGroupCondition{{
			Type: v1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue,
			Reason: conditions.Truncate(why.Reason, cardquota.MaxReasonLength), Message: conditions.Truncate(why.Message, conditions.MaxMessageLength),
		}}

		// Their equal transitionIDs say that both belong together, and without any they still do. Truncated JSON
		// cannot be read, and then the text of the first condition counts.
		if refused, isRefused := waiting.RefusalCondition(group, &why); isRefused {
			kept.Status.Conditions = append(kept.Status.Conditions, v1beta1.PodGroupCondition{
				Type: refused.Type, Message: conditions.Truncate(refused.Message, conditions.MaxMessageLength),
			})
		}
	}
	return kept
}

// stripMinResources keeps the resources that can be cards: extended ones, the maxResources most relevant.
func stripMinResources(minimum *corev1.ResourceList) *corev1.ResourceList {
	if minimum == nil {
		return nil
	}
	extended := slices.DeleteFunc(slices.Collect(maps.Keys(*minimum)), func(name corev1.ResourceName) bool { return !strings.Contains(string(name), "/") })
	kept := corev1.ResourceList{}
	for _, name := range mostRelevant(extended) {
		kept[name] = (*minimum)[name]
	}
	return &kept
}
