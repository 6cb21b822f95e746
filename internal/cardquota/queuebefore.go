package cardquota

import (
	"encoding/json"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// queueBefore is what a Queue had before the operator first wrote it, as annotation AnnotationBefore records it. It has
// only fields that the operator may write.
type queueBefore struct {
	Spec        v1beta1.QueueSpec `json:"spec"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// replacedAnnotations are the annotations that the operator may write over those of a user.
var replacedAnnotations = []string{
	v1alpha1.AnnotationCardQuota, v1alpha1.AnnotationCardDeserved, v1alpha1.AnnotationCardGuarantee, v1alpha1.AnnotationStopPolicy,
	v1alpha1.AnnotationServiceType, v1alpha1.AnnotationNamespaceSelector, v1alpha1.AnnotationCardAllocated, v1alpha1.AnnotationUnlimitedResources,
}

// recordBefore returns the value of AnnotationBefore for a Queue that another client created, "" for none. It is kept
// from the first write until the Queue is restored. A Queue that an earlier version adopted has none.
func recordBefore(live *v1beta1.Queue) string {
	if HasOwnedFields(live) {
		return ownAnnotation(live, v1alpha1.AnnotationBefore)
	}

	before := queueBefore{
		Spec: v1beta1.QueueSpec{
			Weight: live.Spec.Weight, Priority: live.Spec.Priority, Reclaimable: live.Spec.Reclaimable, Parent: live.Spec.Parent,
			Capability: live.Spec.Capability, Deserved: live.Spec.Deserved, Guarantee: live.Spec.Guarantee,
		},
		Annotations: map[string]string{},
	}
	for _, key := range replacedAnnotations {
		if value, ok := live.Annotations[key]; ok {
			before.Annotations[key] = value
		}
	}

	text, err := json.Marshal(before)
	if err != nil {
		return "" // cannot happen with quantities and strings
	}
	return string(text)
}

// ownAnnotation returns the value of an annotation that the operator owns, "" for none. Users may write one of the same key.
func ownAnnotation(live *v1beta1.Queue, key string) string {
	if _, isOurs := managersByField(live.ManagedFields, isOwnApply)[annotationField(key)]; isOurs {
		return live.Annotations[key]
	}
	return ""
}
