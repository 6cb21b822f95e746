package cardquota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
)

const (
	// mostResources bounds the extended resources that are kept of one PodGroup's
	// minResources. Volcano's controllers write three for each resource that a job
	// asks for (as it is, and with requests. and limits. before it).
	mostResources = 64
	// longestResource is the longest name of an extended resource: a DNS name, a
	// slash and 63 characters.
	longestResource = longestName + 1 + 63
)

// stripGroup keeps what the recount and the rules at admission read. A PodGroup's
// status has no writers of its own: all of it is its tenant's to write.
func stripGroup(group *v1beta1.PodGroup) *v1beta1.PodGroup {
	return &v1beta1.PodGroup{
		TypeMeta:   group.TypeMeta,
		ObjectMeta: tenantsMeta(group.ObjectMeta, nil),
		Spec:       v1beta1.PodGroupSpec{Queue: clipped(group.Spec.Queue, longestName), MinResources: stripMinimum(group.Spec.MinResources)},
		Status: v1beta1.PodGroupStatus{
			Phase:      v1beta1.PodGroupPhase(clipped(string(group.Status.Phase), longestName)),
			Running:    group.Status.Running,
			Conditions: lastBlocked(group.Status.Conditions),
		},
	}
}

// stripMinimum keeps the resources that can be cards: extended ones, the first in
// the alphabet where there are too many.
func stripMinimum(minimum *corev1.ResourceList) *corev1.ResourceList {
	if minimum == nil {
		return nil
	}
	var names []corev1.ResourceName
	for name := range *minimum {
		if strings.Contains(string(name), "/") && len(name) <= longestResource {
			names = append(names, name)
		}
	}
	if len(names) == len(*minimum) && len(names) <= mostResources {
		return minimum
	}
	slices.Sort(names)
	names = names[:min(len(names), mostResources)]
	kept := make(corev1.ResourceList, len(names))
	for _, name := range names {
		kept[name] = (*minimum)[name]
	}
	return &kept
}

// lastBlocked keeps the newest condition that tells why the PodGroup waits, and of
// its words what status.blocked shows.
func lastBlocked(all []v1beta1.PodGroupCondition) []v1beta1.PodGroupCondition {
	for _, c := range slices.Backward(all) {
		if c.Type == v1beta1.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
			return []v1beta1.PodGroupCondition{{
				Type: v1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue,
				Reason: conditions.Truncate(c.Reason, cardquota.MaxReasonLength), Message: conditions.Truncate(c.Message, conditions.MaxMessageLength),
			}}
		}
	}
	return nil
}
