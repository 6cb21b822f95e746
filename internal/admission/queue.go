package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/servicetype"
	"cardquota.dev/operator/internal/workload"
)

// Queue judges the annotations of a Queue. before is nil for a new one.
func Queue(queue, before *v1beta1.Queue) Result {
	result := annotated(queue)
	if before != nil {
		return result.Since(annotated(before))
	}
	return result
}

// annotated is what is wrong with the annotations of one Queue: what the
// scheduler would withhold every card for.
func annotated(queue *v1beta1.Queue) Result {
	var result Result
	annotations := field.NewPath("metadata", "annotations")
	wrong := func(key string, err error) {
		if err != nil {
			result.invalid(annotations.Key(key), queue.Annotations[key], "%v", err)
		}
	}
	if text, ok := queue.Annotations[v1alpha1.AnnotationCardQuota]; ok {
		_, err := card.ParseQuota(text)
		wrong(v1alpha1.AnnotationCardQuota, err)
	}
	if text, ok := queue.Annotations[v1alpha1.AnnotationNamespaceSelector]; ok {
		_, err := workload.ParseNamespaceSelector(text)
		wrong(v1alpha1.AnnotationNamespaceSelector, err)
	}
	if name, ok := queue.Annotations[v1alpha1.AnnotationServiceType]; ok {
		wrong(v1alpha1.AnnotationServiceType, servicetype.ValidateName(name))
	}
	for _, key := range []string{v1alpha1.AnnotationCardName, v1alpha1.AnnotationCardRequest} {
		if _, ok := queue.Annotations[key]; ok {
			result.warn(annotations.Key(key), "is read on workloads only: what a queue may use is written in %s", v1alpha1.AnnotationCardQuota)
		}
	}
	unknownKeys(&result, annotations, queue.Annotations)
	return result
}
