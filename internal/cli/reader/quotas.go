package reader

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
)

// QuotaSource is where a user finds quotas: CardQuotas, or the LocalCardQuotas of his namespace if he
// may not list CardQuotas. The zero value is for a user who may list neither, and gets CardQuotas by name.
type QuotaSource struct {
	kind client.ObjectList
	// Example is an empty object of the kind.
	Example client.Object
	// Options restrict which objects the source has.
	Options []client.ListOption
	// Note says what the source leaves out, "" for CardQuotas.
	Note string
}

// allCardQuotas is the source of a user who may list CardQuotas.
func allCardQuotas() QuotaSource {
	return QuotaSource{kind: &v1alpha1.CardQuotaList{}, Example: &v1alpha1.CardQuota{}}
}

// localCardQuotas is the source of a user who may not: the LocalCardQuotas of one namespace, or of all.
func localCardQuotas(namespace string) QuotaSource {
	return QuotaSource{
		kind: &v1alpha1.LocalCardQuotaList{}, Example: &v1alpha1.LocalCardQuota{},
		Options: []client.ListOption{client.InNamespace(namespace)},
		Note:    fmt.Sprintf("You may not list CardQuotas. These are the LocalCardQuotas of %s.", describeNamespace(namespace)),
	}
}

// describeNamespace returns a namespace, or all, as prose.
func describeNamespace(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return "all namespaces"
	}
	return "namespace " + namespace
}

// IsLocal reports whether the source has only what the user may see of some quotas.
func (s QuotaSource) IsLocal() bool { return s.Note != "" }

// MayList reports whether the user may list the source.
func (s QuotaSource) MayList() bool { return s.kind != nil }

// NewList returns an empty list of the source.
func (s QuotaSource) NewList() client.ObjectList { return newList(s.kind) }

// list returns all quotas of the source.
func (s QuotaSource) list(ctx context.Context, c client.Client) ([]*v1alpha1.CardQuota, error) {
	var quotas []*v1alpha1.CardQuota
	err := List(ctx, c, s.kind, func(object runtime.Object) { quotas = append(quotas, AsCardQuota(object)) }, s.Options...)
	return quotas, err
}

// NoViewError is the refusal to list CardQuotas where the user also sees no LocalCardQuota of the namespace.
type NoViewError struct {
	error
	namespace string
	// isRefused reports whether the user may not list the LocalCardQuotas of the namespace.
	isRefused bool
}

// Unwrap returns the refusal.
func (e *NoViewError) Unwrap() error { return e.error }

// ReadCardQuotas returns the quotas that the user may list, and where they come from. The error is a
// NoViewError if there are none.
func ReadCardQuotas(ctx context.Context, c client.Client, namespace string) ([]*v1alpha1.CardQuota, QuotaSource, error) {
	source := allCardQuotas()
	quotas, err := source.list(ctx, c)
	if !IsForbidden(err) {
		return quotas, source, err
	}

	// Tenants may usually read only the LocalCardQuotas of their own namespaces.
	source = localCardQuotas(namespace)
	local, localErr := source.list(ctx, c)
	switch {
	case localErr == nil && len(local) > 0:
		return local, source, nil
	case localErr == nil || IsForbidden(localErr):
		err = &NoViewError{err, namespace, localErr != nil}
	}

	return nil, source, err
}

// AsCardQuota returns a CardQuota as it is, or a CardQuota with what a LocalCardQuota says about one. That
// has no conditions, and no status before the operator has counted its queue. AsCardQuota panics for objects
// of other kinds, which no QuotaSource has.
func AsCardQuota(object any) *v1alpha1.CardQuota {
	if quota, isWhole := object.(*v1alpha1.CardQuota); isWhole {
		return quota
	}

	local := object.(*v1alpha1.LocalCardQuota)
	quota := &v1alpha1.CardQuota{
		ObjectMeta: metav1.ObjectMeta{Name: local.Name, Namespace: local.Namespace},
		Spec:       v1alpha1.CardQuotaSpec{QueueName: local.Status.Queue, ServiceType: local.Status.ServiceType},
		Status: v1alpha1.CardQuotaStatus{
			Summary: local.Status.Summary, PendingSummary: local.Status.PendingSummary, Cards: local.Status.Cards,
			CPU: local.Status.CPU, Memory: local.Status.Memory,
			Blocked: local.Status.Blocked, BlockedTotal: local.Status.BlockedTotal + local.Status.BlockedElsewhere,
		},
	}
	if local.Status.State == v1alpha1.QueueDraining {
		quota.DeletionTimestamp = &metav1.Time{} // the CardQuota is being deleted; since when is not known
	}

	if local.Status.Queue != "" {
		quota.Status.Queue = &v1alpha1.QueueStatus{Name: local.Status.Queue, State: local.Status.State}
	}

	for _, card := range local.Status.Cards {
		quota.Spec.Cards = append(quota.Spec.Cards, v1alpha1.Card{Name: card.Name, Quota: &card.Quota})
	}

	return quota
}
