package cardquota

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// anyChange takes every update for one that matters.
func anyChange(_, _ any) bool { return true }

// labelsChanged tells whether the labels of an object have changed.
func labelsChanged(before, after any) bool {
	was, ok := before.(client.Object)
	is, isObject := after.(client.Object)
	return !ok || !isObject || !maps.Equal(was.GetLabels(), is.GetLabels())
}

// writtenQuotaChanged tells whether the card quota of a Queue has changed.
func writtenQuotaChanged(before, after any) bool {
	was, ok := before.(client.Object)
	is, isObject := after.(client.Object)
	const key = v1alpha1.AnnotationCardQuota
	return !ok || !isObject || was.GetAnnotations()[key] != is.GetAnnotations()[key]
}

// specChanged tells whether the spec of an object has changed.
func specChanged(before, after any) bool {
	was, ok := before.(client.Object)
	is, isObject := after.(client.Object)
	return !ok || !isObject || was.GetGeneration() != is.GetGeneration()
}

// quotaChanged lets changes of a CardQuota pass except those of its status,
// which the operator makes itself.
var quotaChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return specChanged(e.ObjectOld, e.ObjectNew) ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
}}

// queueChanged lets changes of a Queue pass except those of the numbers in its
// status, which the scheduler writes all the time.
var queueChanged = predicate.TypedFuncs[*v1beta1.Queue]{UpdateFunc: func(e event.TypedUpdateEvent[*v1beta1.Queue]) bool {
	return specChanged(e.ObjectOld, e.ObjectNew) || e.ObjectOld.Status.State != e.ObjectNew.Status.State ||
		!maps.Equal(e.ObjectOld.Annotations, e.ObjectNew.Annotations) || !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) ||
		(e.ObjectOld.DeletionTimestamp == nil) != (e.ObjectNew.DeletionTimestamp == nil)
}}
