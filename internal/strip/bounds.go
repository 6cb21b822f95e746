// Package strip returns what the programs keep of the objects of a cluster.
//
// A cache or a list has every object of a kind, and tenants write most of them: an object has up to
// 1.5 MiB, and decoded many times as much. So what is kept of one is bounded, whatever it says, and
// readers of it find the same as in the whole object. The package is pure.
package strip

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// maxNameLength bounds names of objects and service types, and short words. The name of an object has at
// most 253 bytes.
const maxNameLength = validation.DNS1123SubdomainMaxLength

// stripMeta keeps the metadata of a tenant's object that the operator reads, within bounds: of labels and
// annotations those in the maps, with the maximum length of a valid value.
func stripMeta(meta *metav1.ObjectMeta, labels, annotations map[string]int) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
		ResourceVersion: meta.ResourceVersion, Generation: meta.Generation,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
		DeletionGracePeriodSeconds: meta.DeletionGracePeriodSeconds,
		Labels:                     stripMap(labels, meta.Labels), Annotations: stripMap(annotations, meta.Annotations),
	}
	if owner := metav1.GetControllerOfNoCopy(meta); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{stripOwner(owner)}
	}
	return kept
}

// stripOwner keeps an owner within bounds.
func stripOwner(owner *metav1.OwnerReference) metav1.OwnerReference {
	kept := metav1.OwnerReference{
		APIVersion: truncateOneOver(owner.APIVersion, maxNameLength), Kind: truncateOneOver(owner.Kind, maxNameLength),
		Name: truncateOneOver(owner.Name, maxNameLength), UID: truncateOneOver(owner.UID, maxNameLength),
	}
	if owner.Controller != nil {
		kept.Controller = ptr.To(*owner.Controller)
	}
	return kept
}

// stripMap keeps the labels or annotations that keep lists, each within the length that it says, nil for none.
func stripMap(keep map[string]int, from map[string]string) map[string]string {
	var kept map[string]string
	for key, maxBytes := range keep {
		if value, ok := from[key]; ok {
			if kept == nil {
				kept = make(map[string]string, 1)
			}
			kept[key] = truncateOneOver(value, maxBytes)
		}
	}
	return kept
}

// truncateOneOver keeps one byte more than a valid text has, so that a text that is too long stays too
// long.
func truncateOneOver[S ~string](text S, maxBytes int) S {
	if len(text) <= maxBytes {
		return text
	}
	return S(strings.Clone(string(text[:maxBytes+1]))) // do not keep the whole text alive
}
