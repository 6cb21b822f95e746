package cardseconds

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
)

// TestConfigMapsRefuseWritesOfAnOldVersion: replicas A and B may both act as the leader. Each write states the version that
// the replica read, so that of A fails after B has written, and the sums of B stay. Version "" means that the replica
// found no ConfigMap. Entries are added and removed (nil) one by one, beside the text of the running sums.
func TestConfigMapsRefuseWritesOfAnOldVersion(t *testing.T) {
	existing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "volcano-system", Name: "cardquota-card-seconds-7"}}
	api := fake.NewClientBuilder().WithObjects(existing).Build()
	store := &configMaps{client: api, live: api, namespace: "volcano-system"}
	sumsOf := func(replica string) change { return change{text: ptr.To("sums of " + replica), writer: &replica} }

	missing := check.Value(store.read(t.Context(), cardseconds.Parts+cardseconds.Slots-1))(t) // the last ConfigMap
	check.Equal(t, "version of a missing ConfigMap", "", missing.version)
	check.Equal(t, "a missing ConfigMap is empty", true, missing.isEmpty())

	first := check.Value(store.read(t.Context(), 7))(t)
	second := check.Value(store.write(t.Context(), 7, first.version, sumsOf("B")))(t)
	for _, old := range []string{first.version, ""} {
		_, err := store.write(t.Context(), 7, old, sumsOf("A"))
		check.That(t, apierrors.IsConflict(err), "a write of version %q returns %v", old, err)
	}
	got := check.Value(store.read(t.Context(), 7))(t)
	check.Equal(t, "running part", fmt.Sprint(object{text: "sums of B", writer: "B", version: second}), fmt.Sprint(got))

	third := check.Value(store.write(t.Context(), 7, second, change{entries: map[string][]byte{"2026-10.0": []byte("x"), "2026-10-01.0": []byte("y")}}))(t)
	check.Value(store.write(t.Context(), 7, third, change{entries: map[string][]byte{"2026-10-01.0": nil}}))(t)
	got = check.Value(store.read(t.Context(), 7))(t)
	check.Equal(t, "entries", map[string][]byte{"2026-10.0": []byte("x")}, got.entries)
	check.Equal(t, "text beside them", "sums of B", got.text)
}
