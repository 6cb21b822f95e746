package integration

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// helmApplies writes the chart's ConfigMap as Helm 4 does: server-side, with everything that the
// chart says of it, as field manager helm.
func helmApplies(t *testing.T, options ...client.ApplyOption) error {
	t.Helper()
	chart := applycorev1.ConfigMap(schedulerConfigMap, systemNamespace).WithData(map[string]string{schedulerKey: byHand})
	return admin.Apply(t.Context(), chart, append(options, client.FieldOwner("helm"))...)
}

// TestHelm4NeedsForce: what docs/helm.md says of upgrades by Helm 4. Without --force-conflicts
// the upgrade ends and nothing is changed; with it the operator completes the configuration again,
// so that the next upgrade needs it as well.
func TestHelm4NeedsForce(t *testing.T) {
	g := need(t)
	g.Expect(helmApplies(t)).To(gomega.Succeed())
	t.Cleanup(func() {
		for _, name := range []string{schedulerConfigMap, schedulerConfigMap + "-original"} {
			admin.Remove(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name}})
		}
	})
	policy := newPolicy(t, nil)
	g.Eventually(synced(t)).Should(gomega.HavePrefix("True/Synced"))
	ours, err := schedulerText(t, schedulerConfigMap)()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for range 2 {
		err := helmApplies(t)
		g.Expect(apierrors.IsConflict(err)).To(gomega.BeTrue(), "%v", err)
		g.Expect(err).To(gomega.MatchError(gomega.And(gomega.ContainSubstring(`conflict with "cardquota"`), gomega.ContainSubstring(".data."+schedulerKey))))
		g.Expect(schedulerText(t, schedulerConfigMap)()).To(gomega.Equal(ours))

		g.Expect(helmApplies(t, client.ForceOwnership)).To(gomega.Succeed())
		g.Eventually(schedulerText(t, schedulerConfigMap)).Should(gomega.Equal(ours))
		g.Eventually(synced(t)).Should(gomega.HavePrefix("True/ConfigCorrected: helm at "))
	}
	admin.Remove(t, policy)
	g.Expect(schedulerText(t, schedulerConfigMap)()).To(gomega.Equal(byHand))
}
