// Package v1alpha1 is the API of Cardquota: the CardQuota type, the types and
// reasons of its conditions, and the annotation keys that users, the operator
// and the scheduler share.
//
// +kubebuilder:object:generate=true
// +groupName=cardquota.dev
package v1alpha1
