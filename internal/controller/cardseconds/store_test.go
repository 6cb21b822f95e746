package cardseconds

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
)

func TestConfigMapsStoreObjects(t *testing.T) {
	last := cardseconds.Parts + cardseconds.Slots - 1
	existing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: "cardquota-card-seconds-7"}}
	api := fake.NewClientBuilder().WithObjects(existing).Build()
	store := &configMaps{client: api, live: api, namespace: "volcano-system"}
	one := "one\n"
	two := "two\n"
	three := "three\n"
	a := "a"
	b := "b"

	empty := check.Value(store.read(t.Context(), last))(t)
	check.That(t, empty.version == "" && empty.isEmpty(), "a ConfigMap that does not exist is %v", empty)

	first := check.Value(store.read(t.Context(), 7))(t)

	second := check.Value(store.write(t.Context(), 7, first.version, change{text: &two, writer: &b}))(t)
	_, err := store.write(t.Context(), 7, first.version, change{text: &three, writer: &a})
	check.That(t, apierrors.IsConflict(err), "a write of an old version returns %v", err)

	got := check.Value(store.read(t.Context(), 7))(t)
	check.Equal(t, "running part", fmt.Sprint(object{text: two, writer: b, version: second}), fmt.Sprint(got))
	_, err = store.write(t.Context(), 7, "", change{text: &one, writer: &a})
	check.That(t, apierrors.IsConflict(err), "a write of a ConfigMap that another replica created returns %v", err)

	version := check.Value(store.write(t.Context(), 7, second, change{entries: map[string][]byte{"2026-10.0": []byte("x"), "2026-10-01.0": []byte("y")}}))(t)
	check.Value(store.write(t.Context(), 7, version, change{entries: map[string][]byte{"2026-10-01.0": nil}}))(t)

	got = check.Value(store.read(t.Context(), 7))(t)
	check.Equal(t, "entries", map[string][]byte{"2026-10.0": []byte("x")}, got.entries)
	check.Equal(t, "text beside them", two, got.text)
}
