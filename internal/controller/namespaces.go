package controller

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/localquota"
	"cardquota.dev/operator/internal/workload"
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

// QuotaSelectors has the namespace selectors of CardQuotas. It makes the selector of a CardQuota once for each
// generation: otherwise each change of a namespace makes those of all CardQuotas.
type QuotaSelectors struct {
	mu    sync.Mutex
	known map[string]quotaSelector // by the name of the CardQuota
}

// quotaSelector is the selector of a generation of a CardQuota, nil for none.
type quotaSelector struct {
	uid        types.UID
	generation int64
	selector   labels.Selector
}

// NewQuotaSelectors returns QuotaSelectors that know no CardQuota.
func NewQuotaSelectors() *QuotaSelectors { return &QuotaSelectors{known: map[string]quotaSelector{}} }

// selectorFor returns which namespaces see a CardQuota, by a LocalCardQuota. It is nil for none: there is no selector,
// it is {}, it is invalid, or the queue belongs to another CardQuota.
func (s *QuotaSelectors) selectorFor(quota *v1alpha1.CardQuota) labels.Selector {
	if quota.Spec.NamespaceSelector == nil || !localquota.OwnsQueue(quota) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.known[quota.Name]
	if !ok || known.uid != quota.UID || known.generation != quota.Generation {
		known = quotaSelector{quota.UID, quota.Generation, workload.ExplicitSelector(quota.Spec.NamespaceSelector)}
		s.known[quota.Name] = known
	}
	return known.selector
}

// forgetGone forgets CardQuotas that are gone, once they are more than half of those that are known, and more than a
// hundred: so it looks at all of them rarely.
func (s *QuotaSelectors) forgetGone(quotas []v1alpha1.CardQuota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) <= 2*len(quotas)+100 {
		return
	}
	existing := make(map[string]bool, len(quotas))
	for i := range quotas {
		existing[quotas[i].Name] = true
	}
	maps.DeleteFunc(s.known, func(name string, _ quotaSelector) bool { return !existing[name] })
}

// SelectedNamespaces returns the namespaces that a CardQuota selects explicitly, sorted: by labels, and not by {} or
// without a selector, which mean all namespaces.
func (s *QuotaSelectors) SelectedNamespaces(ctx context.Context, reader client.Reader, quota *v1alpha1.CardQuota) ([]string, error) {
	selector := s.selectorFor(quota)
	if selector == nil {
		return nil, nil
	}
	var list corev1.NamespaceList
	if err := reader.List(ctx, &list, listOptions(selector)...); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	return localquota.SelectNamespaces(selector, list.Items), nil
}

// RequestsForNamespace returns the requests for the CardQuotas that select a namespace explicitly, by labels. It lists
// all CardQuotas, so it also forgets the selectors of those that are gone.
func (s *QuotaSelectors) RequestsForNamespace(ctx context.Context, reader client.Reader, namespace client.Object) ([]reconcile.Request, error) {
	var list v1alpha1.CardQuotaList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CardQuotas: %w", err)
	}

	s.forgetGone(list.Items)
	var requests []reconcile.Request
	for i := range list.Items {
		if selector := s.selectorFor(&list.Items[i]); selector != nil && selector.Matches(labels.Set(namespace.GetLabels())) {
			requests = append(requests, RequestFor(list.Items[i].Name))
		}
	}

	return requests, nil
}
