package controller

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/localquota"
)

// NamespaceChanged selects new namespaces, changes of their labels, and the start of their
// deletion. It ignores those that exist at the start, when every CardQuota is reconciled anyway.
var NamespaceChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
			(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
	},
}

// NamespaceLabelIndex is the cache index of namespaces by NamespaceLabels. SelectedNamespaces needs it.
const NamespaceLabelIndex = "label"

// NamespaceLabels returns the labels of a namespace, each as "key=value".
func NamespaceLabels(namespace client.Object) (pairs []string) {
	for key, value := range namespace.GetLabels() {
		pairs = append(pairs, key+"="+value)
	}
	return pairs
}

// listOptions selects namespaces. With an index of one label that they must have, a list does not
// look at all namespaces of the cluster.
func listOptions(selector labels.Selector) []client.ListOption {
	options := []client.ListOption{client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy}
	requirements, _ := selector.Requirements()
	for i := range requirements {
		value, isExact := selector.RequiresExactMatch(requirements[i].Key())
		if isExact {
			return append(options, client.MatchingFields{NamespaceLabelIndex: requirements[i].Key() + "=" + value})
		}
	}
	return options
}

// SelectedNamespaces returns the namespaces that a CardQuota selects explicitly, sorted.
func SelectedNamespaces(ctx context.Context, reader client.Reader, quota *v1alpha1.CardQuota) ([]string, error) {
	selector := localquota.Selector(quota)
	if selector == nil {
		return nil, nil
	}
	var list corev1.NamespaceList
	if err := reader.List(ctx, &list, listOptions(selector)...); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	return localquota.SelectNamespaces(quota, list.Items), nil
}

// RequestsForNamespace returns the requests for the CardQuotas that select a namespace explicitly.
func RequestsForNamespace(ctx context.Context, reader client.Reader, namespace client.Object) ([]reconcile.Request, error) {
	var list v1alpha1.CardQuotaList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CardQuotas: %w", err)
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if selector := localquota.Selector(&list.Items[i]); selector != nil && selector.Matches(labels.Set(namespace.GetLabels())) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
		}
	}
	return requests, nil
}
