package cardquota

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/workload"
)

// longestName bounds what names an object or a service type, and short words: an
// object's name has at most 253 bytes.
const longestName = 253

// keptAnnotations are those of pods and PodGroups that anybody reads in a cache,
// with the bytes of each that are understood. One byte more is kept, so that what
// is too long stays too long.
var keptAnnotations = map[string]int{
	v1alpha1.AnnotationCardName:        card.MaxRequestText,
	v1alpha1.AnnotationCardRequest:     card.MaxQuotaText,
	v1alpha1.AnnotationServiceType:     longestName,
	v1beta1.PodPreemptable:             longestName,
	v1beta1.QueueNameAnnotationKey:     longestName,
	batchv1alpha1.QueueNameKey:         longestName,
	v1alpha1.AnnotationChargedQueue:    longestName,
	v1beta1.KubeGroupNameAnnotationKey: longestName,
	workload.AnnotationOutOfSync:       longestName,
	v1alpha1.AnnotationCheckpointTime:  longestName,
}

// keptLabels are the labels of pods that anybody reads in a cache. Labels are
// short already.
var keptLabels = map[string]int{
	cardquota.PodTemplateHash:    longestName,
	workload.StockSchedulerLabel: longestName,
	v1beta1.PodPreemptable:       longestName,
}

// tenantsMeta keeps of the metadata of an object that a tenant wrote what is read,
// and of that no more than is understood.
func tenantsMeta(meta metav1.ObjectMeta, labels map[string]int) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
		ResourceVersion: meta.ResourceVersion, Generation: meta.Generation,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
		DeletionGracePeriodSeconds: meta.DeletionGracePeriodSeconds,
		Labels:                     only(labels, meta.Labels), Annotations: only(keptAnnotations, meta.Annotations),
	}
	if owner := metav1.GetControllerOf(&meta); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: clipped(owner.APIVersion, longestName), Kind: clipped(owner.Kind, longestName), Name: clipped(owner.Name, longestName),
			UID: types.UID(clipped(string(owner.UID), longestName)), Controller: owner.Controller,
		}}
	}
	return kept
}

// only keeps the chosen entries, each clipped to one byte more than is
// understood.
func only(chosen map[string]int, from map[string]string) map[string]string {
	var kept map[string]string
	for key, most := range chosen {
		value, ok := from[key]
		if !ok {
			continue
		}
		if kept == nil {
			kept = make(map[string]string, 1)
		}
		kept[key] = clipped(value, most)
	}
	return kept
}

// clipped is a text of which no more than most bytes are understood, so that one
// that is too long stays too long.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.Clone(text[:most+1]) // the whole text is not kept alive
}
