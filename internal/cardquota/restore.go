package cardquota

import (
	"cmp"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	apply "volcano.sh/apis/pkg/client/applyconfiguration/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/workload"
)

// NewReleasedQueue returns a Queue that the operator created, without any limit of its CardQuota: on the way back to mode
// Observe its pods continue, and it is deleted when it is empty.
func NewReleasedQueue(quota *v1alpha1.CardQuota, live *v1beta1.Queue, parent string) DesiredQueue {
	desired := newDesiredQueue(quota, live, nil, "", parent)
	desired.dropQuota()
	return desired
}

// NewRestoredQueue returns a Queue of another client as it was before the operator first wrote it. A field that another
// manager has written since keeps the value of that manager. The managed fields, and the record, are removed afterwards.
func NewRestoredQueue(quota *v1alpha1.CardQuota, live *v1beta1.Queue) DesiredQueue {
	desired := newDesiredQueue(quota, live, nil, "", "")
	desired.dropQuota()
	desired.Config.Labels = nil

	var before queueBefore
	if json.Unmarshal([]byte(ownAnnotation(live, v1alpha1.AnnotationBefore)), &before) != nil { // without a record, fields are removed that the operator owns
		return desired
	}

	owned := managersByField(live.ManagedFields, isOwnApply)
	others := managersByField(live.ManagedFields, isOtherManager)
	isRestorable := func(field string) bool {
		_, isOurs := owned[field]
		_, isTheirs := others[field]
		return isOurs || !isTheirs
	}

	annotations := map[string]string{}
	for key, value := range before.Annotations {
		if isRestorable(annotationField(key)) {
			annotations[key] = value
		}
	}
	desired.Config.WithAnnotations(annotations)
	desired.Config.Spec = restoredSpec(before.Spec, isRestorable)
	desired.dropEmptySpec()
	return desired
}

// restoredSpec returns the recorded fields that the operator may restore.
func restoredSpec(before v1beta1.QueueSpec, isRestorable func(field string) bool) *apply.QueueSpecApplyConfiguration {
	spec := apply.QueueSpec()
	restoreResources(spec, before, isRestorable)
	if before.Weight != 0 && isRestorable(fieldWeight) {
		spec.WithWeight(before.Weight)
	}
	if before.Priority != 0 && isRestorable(fieldPriority) {
		spec.WithPriority(before.Priority)
	}
	if before.Reclaimable != nil && isRestorable(fieldReclaimable) {
		spec.WithReclaimable(*before.Reclaimable)
	}

	// Volcano's queue controller writes root itself, and its patches fail while spec is missing.
	if isRestorable(fieldParent) {
		spec.WithParent(cmp.Or(before.Parent, workload.RootQueue))
	}
	return spec
}

// restoreResources restores the amounts of a spec.
func restoreResources(spec *apply.QueueSpecApplyConfiguration, before v1beta1.QueueSpec, isRestorable func(field string) bool) {
	restorableOf := func(list corev1.ResourceList, path func(key string) string) corev1.ResourceList {
		kept := maps.Clone(list)
		maps.DeleteFunc(kept, func(name corev1.ResourceName, _ resource.Quantity) bool { return !isRestorable(path(string(name))) })
		return kept
	}

	if list := restorableOf(before.Capability, capabilityField); len(list) > 0 {
		spec.WithCapability(list)
	}
	if list := restorableOf(before.Deserved, deservedField); len(list) > 0 {
		spec.WithDeserved(list)
	}
	if list := restorableOf(before.Guarantee.Resource, guaranteeField); len(list) > 0 {
		spec.WithGuarantee(apply.Guarantee().WithResource(list))
	}
}

// dropQuota drops what limits a Queue.
func (d *DesiredQueue) dropQuota() {
	for _, key := range []string{v1alpha1.AnnotationCardQuota, v1alpha1.AnnotationServiceType, v1alpha1.AnnotationNamespaceSelector} {
		delete(d.Config.Annotations, key)
	}
	d.dropEmptySpec()
}
