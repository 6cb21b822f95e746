package cardseconds

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
)

func TestConfigMapsStoreParts(t *testing.T) {
	const last = cardseconds.Parts - 1
	existing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: "cardquota-card-seconds-7"}}
	api := fake.NewClientBuilder().WithObjects(existing).Build()
	store := &configMaps{client: api, live: api, namespace: "volcano-system"}
	empty, err := store.read(t.Context(), 0)
	check.NoError(t, err)
	check.That(t, empty == (part{}), "a part that was never written is %v", empty)
	_, err = store.write(t.Context(), 0, part{text: "one\n", writer: "a"})
	check.NoError(t, err)
	created, err := store.read(t.Context(), 0) // the fake client gives it no version
	check.NoError(t, err)
	check.That(t, created == (part{text: "one\n", writer: "a"}), "part %v", created)

	first, err := store.read(t.Context(), last)
	check.NoError(t, err)
	second, err := store.write(t.Context(), last, part{text: "two\n", writer: "b", version: first.version})
	check.NoError(t, err)
	_, err = store.write(t.Context(), last, part{text: "three\n", writer: "a", version: first.version})
	check.That(t, apierrors.IsConflict(err), "a write of an old version returns %v", err)
	got, err := store.read(t.Context(), last)
	check.NoError(t, err)
	check.That(t, got == (part{text: "two\n", writer: "b", version: second}), "part %v", got)
	var stored corev1.ConfigMapList
	check.NoError(t, api.List(t.Context(), &stored, client.InNamespace("volcano-system")))
	check.That(t, len(stored.Items) == 2 && stored.Items[0].Name == "cardquota-card-seconds-0", "ConfigMaps %v", stored.Items)
}
