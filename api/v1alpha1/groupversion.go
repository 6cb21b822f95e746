package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every type in this package.
var GroupVersion = schema.GroupVersion{Group: "cardquota.dev", Version: "v1alpha1"}

// AddToScheme makes the types of this package known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &CardQuota{}, &CardQuotaList{}, &ServiceTypePolicy{}, &ServiceTypePolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// FieldManager is the field manager under which the operator writes: it owns what it
// wrote by that name, and nothing else.
const FieldManager = "cardquota"
