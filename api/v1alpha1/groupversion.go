// Package v1alpha1 is the API of Cardquota: the kinds CardQuota, LocalCardQuota,
// ServiceTypePolicy and CardInventory, the types and reasons of their conditions and events, and the annotations.
//
// +kubebuilder:object:generate=true
// +groupName=cardquota.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every type in this package.
var GroupVersion = schema.GroupVersion{Group: "cardquota.dev", Version: "v1alpha1"}

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &CardQuota{}, &CardQuotaList{}, &ServiceTypePolicy{}, &ServiceTypePolicyList{},
		&CardInventory{}, &CardInventoryList{}, &LocalCardQuota{}, &LocalCardQuotaList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// FieldManager is the field manager of everything that the operator writes.
const FieldManager = "cardquota"
