package webhook

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestCachedNamespacesKeepTheirLabels: the webhooks keep all namespaces in memory, for their labels. Users may write 256 KiB
// of annotations into their namespaces, which no rule reads. So annotations and managed fields are not kept.
func TestCachedNamespacesKeepTheirLabels(t *testing.T) {
	check.Equal(t, "kinds with an option", 1, len(CacheOptions()))
	for object, by := range CacheOptions() {
		_, isNamespace := object.(*corev1.Namespace)
		check.Must(t, isNamespace, "%T is cached", object)
		namespace := builder.Namespace("lab", "team", "chat")
		namespace.Annotations = map[string]string{"a/b": strings.Repeat("x", 200<<10)}
		namespace.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		check.Value(by.Transform(namespace))(t)
		check.Equal(t, "namespace", builder.Namespace("lab", "team", "chat"), namespace)
	}
}
