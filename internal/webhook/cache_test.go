package webhook

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestCachedNamespacesKeepTheirLabels: no rule reads their annotations, and users may write many.
func TestCachedNamespacesKeepTheirLabels(t *testing.T) {
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
