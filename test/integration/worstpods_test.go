package integration

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/strip"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/framework"
)

// TestTheAPIServerStoresTheWorstPods: the memory bound of the operator's cache is tested with pods as large as etcd
// allows, about 1 MB. The API server really accepts them, also with the defaults and managed fields that it adds. Here
// these are the four kinds whose size is in resources of containers. The cache keeps less than 32 KiB of each.
func TestTheAPIServerStoresTheWorstPods(t *testing.T) {
	g := requireControlPlane(t)
	pods := builder.WorstPods(labNamespace)
	for _, what := range []string{"limits", "sidecars", "resources", "long-resources"} {
		g.Expect(admin.Create(t.Context(), pods[what])).To(gomega.Succeed(), what)
		stored := framework.Fetch[corev1.Pod](t, admin, client.ObjectKeyFromObject(pods[what]))
		g.Expect(stored.Size()).To(gomega.BeNumerically(">", 900_000), what)
		g.Expect(strip.Pod(stored).Size()).To(gomega.BeNumerically("<", 32<<10), what)
		g.Expect(admin.Delete(t.Context(), stored, client.GracePeriodSeconds(0))).To(gomega.Succeed(), what)
	}
}
