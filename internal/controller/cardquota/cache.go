package cardquota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/strip"
)

// CacheOptions strip pods, PodGroups and nodes to what the operator reads. The cache has every pod of the
// cluster, and tenants write pods and PodGroups, so package strip bounds what is kept of each.
func CacheOptions() cache.Options {
	pods := &strip.Pods{}
	return cache.Options{DefaultTransform: stripOwnKinds, ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}:       {Field: unfinishedPods(), Transform: transformOnly(pods.Strip)},
		&corev1.Node{}:      {Transform: transformOnly(stripNode)},
		&v1beta1.PodGroup{}: {Transform: transformOnly(strip.PodGroup)},
	}}
}

// stripOwnKinds drops from managedFields who wrote the status of a CardQuota or LocalCardQuota. With many cards
// that is as large as the rest of the object, and there may be 50 LocalCardQuotas for each CardQuota. Who wrote the
// spec of a CardQuota is kept: the operator reads it.
//
// It is the transform of all kinds without one of their own. A transform in ByObject would need LocalCardQuotas in
// the API, and a cluster may not have them yet.
func stripOwnKinds(object any) (any, error) {
	switch kept := object.(type) {
	case *v1alpha1.CardQuota:
		kept.ManagedFields = slices.DeleteFunc(kept.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "status" })
	case *v1alpha1.LocalCardQuota:
		return strip.LocalCardQuota(kept), nil
	}
	return object, nil
}

// unfinishedPods selects the pods that may use cards or be pending.
func unfinishedPods() fields.Selector {
	return fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
}

// transformOnly returns a cache transform for one type. Other objects, such as tombstones,
// stay unchanged.
func transformOnly[T any](strip func(*T) *T) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if typed, ok := object.(*T); ok {
			return strip(typed), nil
		}
		return object, nil
	}
}

// stripNode keeps what cards are recognised by, the labels and the resources, and whether the node is Ready and takes
// new pods. The capacity beyond what is allocatable are broken cards. A node without a condition is not Ready.
func stripNode(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{
		TypeMeta: node.TypeMeta, ObjectMeta: node.ObjectMeta, Spec: corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
		Status: corev1.NodeStatus{Allocatable: node.Status.Allocatable, Capacity: node.Status.Capacity},
	}
	kept.ManagedFields = nil
	if card.IsNodeReady(node) {
		kept.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return kept
}
