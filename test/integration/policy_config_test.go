package integration

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/testing/check"
)

// TestVolcanosConfigurationIsOnlyRead: the operator reads Volcano's ConfigMap, the base, and writes its own for our
// scheduler. So Helm finds the base as Helm wrote it. With an invalid policy the operator writes nothing. With a valid
// one it writes its ConfigMap once, and again when the policy or the base changes.
func TestVolcanosConfigurationIsOnlyRead(t *testing.T) {
	g := requireControlPlane(t)
	helm := func(text string) error { // as Helm 4 does: server-side, with everything the chart says of it
		chart := applycorev1.ConfigMap(baseConfigMap, systemNamespace).WithData(map[string]string{schedulerKey: text})
		return admin.Apply(t.Context(), chart, client.FieldOwner("helm"))
	}
	g.Expect(helm(byHand)).To(gomega.Succeed())

	t.Cleanup(func() {
		admin.DeleteAndWait(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: baseConfigMap}})
	})

	before := configMap(t, baseConfigMap)
	policy := newPolicy(t, func(s *v1alpha1.ServiceTypePolicySpec) { // contradicts itself, which the schema cannot see
		s.Owners = []v1alpha1.OwnerKind{{Kind: "Job", ServiceType: "batch"}}
	})

	g.Eventually(configSynced(t)).Should(gomega.SatisfyAll(gomega.HavePrefix("False/InvalidPolicy"),
		gomega.ContainSubstring(`spec.owners[Job].serviceType: Invalid value: "batch": is not defined`)))
	g.Expect(admin.IsGone(t.Context(), renderedConfigMap())()).To(gomega.BeTrue())
	patchAs(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) { p.Spec.Owners = nil })
	g.Eventually(configSynced(t)).Should(gomega.HavePrefix("True/Synced"))

	written := configMap(t, schedulerConfigMap)
	text := written.Data[schedulerKey]
	g.Expect(schedulerconfig.Validate(text, schedulerconfig.Shipped())).To(gomega.Succeed())
	g.Expect(text).To(gomega.And(gomega.ContainSubstring("cardreclaim"), gomega.ContainSubstring("leastrequested.weight: 2"), // as in the base
		gomega.HavePrefix("# Rendered by cardquota-manager from ConfigMap volcano-system/volcano-scheduler-configmap, key volcano-scheduler.conf")))
	g.Expect(written.OwnerReferences).To(gomega.ConsistOf(gomega.HaveField("UID", policy.UID)))
	g.Eventually(policyStatus(t)).Should(gomega.HaveField("ConfigHash", schedulerconfig.Hash(text)))
	g.Consistently(func() string { return configMap(t, schedulerConfigMap).ResourceVersion }).Should(gomega.Equal(written.ResourceVersion), "written once")

	patchAs(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) {
		p.Spec.Reclaim = "Pods"
		p.Spec.OverCommitPercent = 150
	})

	g.Eventually(schedulerText(t, schedulerConfigMap)).Should(gomega.And(
		gomega.ContainSubstring("overCommitFactor: 1.5"), gomega.Not(gomega.ContainSubstring("cardreclaim"))))
	g.Eventually(policyStatus(t)).Should(gomega.HaveField("Reclaim", v1alpha1.ReclaimMode("Pods")))
	g.Expect(configMap(t, baseConfigMap).ResourceVersion).To(gomega.Equal(before.ResourceVersion))

	g.Expect(helm(strings.Replace(byHand, "  - name: binpack\n", "  - name: sla\n", 1))).To(gomega.Succeed())
	g.Eventually(schedulerText(t, schedulerConfigMap)).Should(gomega.ContainSubstring("name: sla"), "a change of the base is followed")
	g.Expect(policy.Finalizers).To(gomega.BeEmpty())
}

// TestAnotherBaseNeedsARightToReadIt: the policy names another base, which the shipped rights do not include. The
// condition says what to grant, and the scheduler keeps its configuration. With the right, the operator reads and
// watches the new base. The right is for this namespace, so the condition then refuses a base in namespace lab.
func TestAnotherBaseNeedsARightToReadIt(t *testing.T) {
	g, policy := startPolicyTest(t)
	before := check.Value(schedulerText(t, schedulerConfigMap)())(t)

	newBase(t, "second", strings.Replace(byHand, "binpack", "sla", 1))
	patchAs(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) { p.Spec.Scheduler.BaseConfigMap.Name = "second" })
	g.Eventually(configSynced(t)).Should(gomega.SatisfyAll(gomega.HavePrefix("False/ConfigRefused"), gomega.ContainSubstring("forbidden"),
		gomega.ContainSubstring("grant another base or namespace as well")))
	g.Expect(schedulerText(t, schedulerConfigMap)()).To(gomega.Equal(before), "quotas stay enforced")

	grantConfigMap(t, "second")
	g.Eventually(schedulerText(t, schedulerConfigMap)).Should(gomega.ContainSubstring("name: sla"))
	g.Eventually(configSynced(t)).Should(gomega.ContainSubstring("volcano-system/second"))
	writeConfigMap(t, "second", "kubectl-edit", byHand)
	g.Eventually(schedulerText(t, schedulerConfigMap)).Should(gomega.ContainSubstring("name: binpack"), "the new one is watched")

	patchAs(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) { p.Spec.Scheduler.BaseConfigMap.Namespace = labNamespace })
	g.Eventually(configSynced(t)).Should(gomega.SatisfyAll(gomega.HavePrefix("False/ConfigRefused"), gomega.ContainSubstring("forbidden")))
}

// renderedConfigMap returns the ConfigMap that our scheduler reads.
func renderedConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: schedulerConfigMap}}
}

// grantConfigMap lets the operator read a base of another name, as in docs/install.md.
func grantConfigMap(t *testing.T, name string) {
	meta := metav1.ObjectMeta{Namespace: systemNamespace, Name: "cardquota-manager-" + name}
	admin.CreateWithCleanup(t, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name}, Verbs: []string{"get", "list", "watch"}},
	}})
	admin.CreateWithCleanup(t, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: "cardquota-manager"}},
	})
}
