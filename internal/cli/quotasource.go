package cli

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
)

// quotaSource is where a user finds quotas: CardQuotas, or the LocalCardQuotas of his namespace if he
// may not list those.
type quotaSource struct {
	newList func() client.ObjectList
	example client.Object
	options []client.ListOption
	// note says what the source leaves out, "" for CardQuotas.
	note string
}

func allCardQuotas() quotaSource {
	return quotaSource{newList: newCardQuotaList, example: &v1alpha1.CardQuota{}}
}

func localCardQuotas(namespace string) quotaSource {
	return quotaSource{
		newList: func() client.ObjectList { return &v1alpha1.LocalCardQuotaList{} }, example: &v1alpha1.LocalCardQuota{},
		options: []client.ListOption{client.InNamespace(namespace)},
		note:    fmt.Sprintf("You may not list CardQuotas. These are the LocalCardQuotas of %s.", describeNamespace(namespace)),
	}
}

// describeNamespace returns a namespace, or all, as prose.
func describeNamespace(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return "all namespaces"
	}
	return "namespace " + namespace
}

// isLocal reports whether the source has only what the user may see of some quotas.
func (s quotaSource) isLocal() bool { return s.note != "" }

// list returns all quotas of the source.
func (s quotaSource) list(ctx context.Context, c client.Client) ([]*v1alpha1.CardQuota, error) {
	var quotas []*v1alpha1.CardQuota
	err := listAll(ctx, c, s.newList, func(object runtime.Object) {
		if quota := asCardQuota(object); quota != nil {
			quotas = append(quotas, quota)
		}
	}, s.options...)
	return quotas, err
}

// noViewError is the refusal to list CardQuotas where a namespace shows no LocalCardQuota either.
type noViewError struct {
	error
	namespace string
	// isRefused reports whether the user may not list the LocalCardQuotas of the namespace.
	isRefused bool
}

// Unwrap returns the refusal.
func (e *noViewError) Unwrap() error { return e.error }

// readCardQuotas returns the quotas that the user may list, and where they come from. The error is a
// noViewError if there are none.
func readCardQuotas(ctx context.Context, c client.Client, namespace string) ([]*v1alpha1.CardQuota, quotaSource, error) {
	source := allCardQuotas()
	quotas, err := source.list(ctx, c)
	if !isForbidden(err) {
		return quotas, source, err
	}

	source = localCardQuotas(namespace)
	local, localErr := source.list(ctx, c)
	switch {
	case localErr == nil && len(local) > 0:
		return local, source, nil
	case localErr == nil || isForbidden(localErr):
		err = &noViewError{err, namespace, localErr != nil}
	}

	return nil, source, err
}

// asCardQuota returns a CardQuota, or what a LocalCardQuota says about one. The operator writes a
// LocalCardQuota only for a CardQuota whose queue it has counted, and without conditions.
func asCardQuota(object any) *v1alpha1.CardQuota {
	switch object := object.(type) {
	case *v1alpha1.CardQuota:
		return object
	case *v1alpha1.LocalCardQuota:
		quota := &v1alpha1.CardQuota{
			ObjectMeta: metav1.ObjectMeta{Name: object.Name, Namespace: object.Namespace},
			Spec:       v1alpha1.CardQuotaSpec{QueueName: object.Status.Queue, ServiceType: object.Status.ServiceType},
			Status: v1alpha1.CardQuotaStatus{
				Summary: object.Status.Summary, PendingSummary: object.Status.PendingSummary, Cards: object.Status.Cards,
				CPU: object.Status.CPU, Memory: object.Status.Memory,
				Blocked: object.Status.Blocked, BlockedTotal: object.Status.BlockedTotal + object.Status.BlockedElsewhere,
			},
		}
		if object.Status.State == v1alpha1.QueueDraining {
			quota.DeletionTimestamp = &metav1.Time{} // when, it does not say
		}

		if object.Status.Queue != "" {
			quota.Status.Queue = &v1alpha1.QueueStatus{Name: object.Status.Queue, State: object.Status.State}
		}

		for _, card := range object.Status.Cards {
			quota.Spec.Cards = append(quota.Spec.Cards, v1alpha1.Card{Name: card.Name, Quota: &card.Quota})
		}

		return quota
	default:
		return nil
	}
}
