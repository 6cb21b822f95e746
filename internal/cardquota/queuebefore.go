package cardquota

import (
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
			Capability: computeOf(live.Spec.Capability), Deserved: computeOf(live.Spec.Deserved),
			Guarantee: v1beta1.Guarantee{Resource: computeOf(live.Spec.Guarantee.Resource)},
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

// computeOf returns the CPU and memory of a list, of which alone the operator writes amounts.
func computeOf(list corev1.ResourceList) corev1.ResourceList {
	kept := maps.Clone(list)
	maps.DeleteFunc(kept, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return name != corev1.ResourceCPU && name != corev1.ResourceMemory
	})
	return kept
}
