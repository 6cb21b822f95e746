package reader_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// TestAReaderStopsAtAnError: the cluster lacks the first kind that is read, and then does not answer any more. The
// command ignores the missing kind and reads on. After the second error it reads nothing, so it does not wait for
// each of its requests, and a command that ignores missing kinds keeps that error.
func TestAReaderStopsAtAnError(t *testing.T) {
	answers := []error{&meta.NoKindMatchError{}, errors.New("silent")}
	requests := 0
	r := reader.New(kubectl.NewCluster(t, nil, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		requests++
		return answers[requests-1]
	}}))
	find := func() bool {
		_, mayRead := reader.Find(t.Context(), r, client.ObjectKey{Name: "cluster"}, &v1alpha1.CardInventory{})
		return mayRead
	}

	check.That(t, !find() && r.IgnoreMissingKind() && r.Err() == nil, "the missing kind is not ignored")
	for range 2 {
		check.That(t, !find() && !r.IgnoreMissingKind(), "the reader goes on after an error")
	}
	check.Equal(t, "requests", 2, requests)
	check.Text(t, "error", r.Err().Error()).Has("silent")
}
