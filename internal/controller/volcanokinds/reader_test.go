package volcanokinds

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestTheReaderFindsNoObjectsOfAMissingKind: the client of an API server without a kind says that nothing matches. For a
// kind that was missing at the start, there is no object then. For another kind it stays an error: the API server may
// only fail to say that it has it, and the operator must not take its Queues for deleted.
func TestTheReaderFindsNoObjectsOfAMissingKind(t *testing.T) {
	noMatch := &meta.NoKindMatchError{GroupKind: v1beta1.SchemeGroupVersion.WithKind("Queue").GroupKind()}
	from := interceptor.NewClient(fake.NewClientBuilder().WithScheme(newScheme(t)).Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return noMatch
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return noMatch },
	})

	r := &reader{Reader: from, kinds: &Kinds{missing: []string{"Queue"}}, scheme: newScheme(t)}
	err := r.Get(t.Context(), client.ObjectKey{Name: "lab"}, &v1beta1.Queue{})
	check.That(t, apierrors.IsNotFound(err), "the read of a Queue says: %v", err)

	queues := &v1beta1.QueueList{Items: []v1beta1.Queue{{}}}
	check.NoError(t, r.List(t.Context(), queues))
	check.Equal(t, "Queues", 0, len(queues.Items))

	err = r.Get(t.Context(), client.ObjectKey{Name: "lab"}, &v1beta1.PodGroup{})
	check.That(t, meta.IsNoMatchError(err), "the read of a PodGroup says: %v", err)
	err = r.List(t.Context(), &v1beta1.PodGroupList{})
	check.That(t, meta.IsNoMatchError(err), "the list of PodGroups says: %v", err)
}

// TestTheReaderReadsAKindThatCame: Volcano was installed after the start. Until the operator starts again, the reader finds
// the Queues that exist.
func TestTheReaderReadsAKindThatCame(t *testing.T) {
	from := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(builder.Queue("lab").Obj()).Build()
	r := &reader{Reader: from, kinds: &Kinds{missing: []string{"Queue"}}, scheme: newScheme(t)}
	check.NoError(t, r.Get(t.Context(), client.ObjectKey{Name: "lab"}, &v1beta1.Queue{}))

	queues := &v1beta1.QueueList{}
	check.NoError(t, r.List(t.Context(), queues))
	check.Equal(t, "Queues", 1, len(queues.Items))
}
