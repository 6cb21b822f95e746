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

// LabelManagedBy is FieldManager on everything that the operator writes. On a Queue it is so while a CardQuota
// owns it, and the operator keeps a value that another manager wrote.
const LabelManagedBy = "app.kubernetes.io/managed-by"

// NonexistentVersion is a resource version that no stored object has. An apply with it creates the object, and
// conflicts if another client has just created one.
const NonexistentVersion = "1"

// AnnotationInjectCAFrom is cert-manager's annotation of a webhook configuration whose CA bundle its cainjector
// writes: the certificate that it takes the CA from, as namespace/name.
const AnnotationInjectCAFrom = "cert-manager.io/inject-ca-from"
