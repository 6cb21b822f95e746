package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/schedulerconf"
)

func TestPolicyComesAndGoesWithoutATrace(t *testing.T) {
	g := need(t)
	newSchedulerConfig(t, schedulerConfigMap, byHand)
	before := configMap(t, schedulerConfigMap)
	policy := newPolicy(t, func(s *v1alpha1.ServiceTypePolicySpec) { // contradicts itself, which the schema cannot see
		s.Owners = []v1alpha1.OwnerKind{{Kind: "Job", ServiceType: "batch"}}
	})
	g.Eventually(synced(t)).Should(gomega.SatisfyAll(gomega.HavePrefix("False/InvalidPolicy"),
		gomega.ContainSubstring(`owner kind "Job" stands for type "batch", which is not defined`)))
	g.Consistently(schedulerText(t, schedulerConfigMap)).Should(gomega.Equal(byHand))
	patch(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) { p.Spec.Owners = nil })
	g.Eventually(synced(t)).Should(gomega.HavePrefix("True/Synced"))

	g.Eventually(schedulerText(t, schedulerConfigMap)).Should(gomega.ContainSubstring("cardreclaim"))
	written := configMap(t, schedulerConfigMap)
	text := written.Data[schedulerKey]
	g.Expect(schedulerconf.Validate(text, schedulerconf.Shipped())).To(gomega.Succeed())
	for _, kept := range []string{"Ask before you change it!", "# no preempt here", "leastrequested.weight:   2 # spread"} {
		g.Expect(text).To(gomega.ContainSubstring(kept))
	}
	g.Expect(written.Data).To(gomega.HaveKeyWithValue("other.conf", "kept"))
	g.Expect(written.Annotations).To(gomega.HaveKeyWithValue("example.com/owner", "platform"))
	original := configMap(t, schedulerConfigMap+"-original")
	g.Expect(original.Data).To(gomega.Equal(map[string]string{schedulerKey: byHand}))
	g.Expect(*original.Immutable).To(gomega.BeTrue())
	g.Expect(original.Annotations["cardquota.dev/description"]).To(gomega.ContainSubstring("before ServiceTypePolicy default first changed it"))
	g.Eventually(policyStatus(t)).Should(gomega.HaveField("ConfigHash", schedulerconf.Hash(text)))
	g.Consistently(func() string { return configMap(t, schedulerConfigMap).ResourceVersion }).Should(gomega.Equal(written.ResourceVersion), "written once")

	patch(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) { p.Spec.Reclaim, p.Spec.OverCommitPercent = "Pods", 150 })
	g.Eventually(schedulerText(t, schedulerConfigMap)).Should(gomega.And(
		gomega.ContainSubstring("overCommitFactor: 1.5"), gomega.Not(gomega.ContainSubstring("cardreclaim"))))
	g.Eventually(policyStatus(t)).Should(gomega.HaveField("Reclaim", v1alpha1.ReclaimMode("Pods")))

	admin.Remove(t, policy)
	after := configMap(t, schedulerConfigMap)
	g.Expect(after.Data).To(gomega.Equal(before.Data), "byte for byte")
	g.Expect(after.Annotations).To(gomega.Equal(before.Annotations))
	g.Expect(admin.Gone(t.Context(), original)()).To(gomega.BeTrue(), "the copy has done its duty")
}

func TestRemovalLeavesWhatOthersChanged(t *testing.T) {
	g, policy := begun(t)
	text, err := schedulerText(t, schedulerConfigMap)()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	edited := strings.Replace(text, "leastrequested.weight:   2", "leastrequested.weight:   7", 1)
	rewrite(t, schedulerConfigMap, "kubectl-edit", edited)
	g.Eventually(policyStatus(t)).Should(gomega.HaveField("ConfigHash", schedulerconf.Hash(edited)))
	g.Expect(schedulerText(t, schedulerConfigMap)()).To(gomega.Equal(edited), "what the policy does not need is left")
	g.Expect(synced(t)()).To(gomega.HavePrefix("True/Synced"))
	admin.Remove(t, policy)
	g.Expect(schedulerText(t, schedulerConfigMap)()).To(gomega.Equal(strings.Replace(byHand, "leastrequested.weight:   2", "leastrequested.weight:   7", 1)))
	g.Expect(configMap(t, schedulerConfigMap+"-original").Data[schedulerKey]).To(gomega.Equal(byHand), "the copy stays when the text is another one")
}

func TestDriftIsPutRightAndTheWriterNamed(t *testing.T) {
	g, policy := begun(t)
	text, err := schedulerText(t, schedulerConfigMap)()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	at := time.Now()
	rewrite(t, schedulerConfigMap, "kubectl-edit", strings.Replace(text, "cardreclaim", "preempt", 1))
	g.Eventually(schedulerText(t, schedulerConfigMap)).Should(gomega.ContainSubstring("cardreclaim"))
	t.Logf("put right after %s", time.Since(at).Round(time.Millisecond))
	g.Eventually(synced(t)).Should(gomega.SatisfyAll(gomega.HavePrefix("True/ConfigCorrected: kubectl-edit at "),
		gomega.ContainSubstring("cardreclaim"), gomega.ContainSubstring("put right at ")))
	g.Eventually(admin.Events(t, policy, "ConfigCorrected")).Should(gomega.ConsistOf(gomega.HavePrefix("kubectl-edit at ")))

	// Another writer undoes two put-backs. How the pauses grow is tested with a clock in
	// internal/controller/servicetypepolicy.
	began := time.Now()
	for range 2 {
		rewrite(t, schedulerConfigMap, "argocd", byHand)
		g.Eventually(schedulerText(t, schedulerConfigMap)).ShouldNot(gomega.Equal(byHand))
	}
	g.Expect(time.Since(began)).To(gomega.BeNumerically(">=", time.Second), "the second put-back comes a second after the first")
	rewrite(t, schedulerConfigMap, "argocd", byHand)
	g.Eventually(synced(t)).Should(gomega.SatisfyAll(gomega.HavePrefix("False/ConfigContested: argocd keeps writing"), gomega.ContainSubstring("at most a minute")))
	g.Eventually(admin.Events(t, policy, "ConfigContested")).Should(gomega.HaveLen(1))
	admin.Remove(t, policy)
	g.Expect(schedulerText(t, schedulerConfigMap)()).To(gomega.Equal(byHand))
}

func TestAConfigMapThatComesLater(t *testing.T) {
	g := need(t)
	policy := newPolicy(t, nil)
	g.Eventually(synced(t)).Should(gomega.HavePrefix("False/ConfigMapMissing: there is no ConfigMap volcano-system/volcano-scheduler-configmap"))
	cm := newSchedulerConfig(t, schedulerConfigMap, "")
	g.Eventually(synced(t)).Should(gomega.HavePrefix("False/ConfigMapMissing: ConfigMap volcano-system/volcano-scheduler-configmap has no text under key volcano-scheduler.conf"))
	for _, unreadable := range []string{"{{ not YAML", "actions: [allocate]\n", "actions: \"allocate\"\ntiers: &a [*a]\n"} {
		rewrite(t, schedulerConfigMap, "somebody", unreadable)
		g.Eventually(synced(t)).Should(gomega.HavePrefix("False/ConfigUnreadable"), unreadable)
		g.Consistently(schedulerText(t, schedulerConfigMap)).Should(gomega.Equal(unreadable))
		g.Expect(admin.Gone(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: schedulerConfigMap + "-original"}})()).To(gomega.BeTrue())
	}
	g.Eventually(admin.Events(t, policy, "ConfigUnreadable")).Should(gomega.HaveLen(1), "told once")
	hierarchy := "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: capacity\n    enableHierarchy: true\n"
	rewrite(t, schedulerConfigMap, "somebody", hierarchy)
	g.Eventually(synced(t)).Should(gomega.SatisfyAll(gomega.HavePrefix("False/HierarchyNotSupported"), gomega.ContainSubstring("write enableHierarchy: false")))
	g.Consistently(schedulerText(t, schedulerConfigMap)).Should(gomega.Equal(hierarchy))
	rewrite(t, schedulerConfigMap, "somebody", byHand)
	g.Eventually(synced(t)).Should(gomega.HavePrefix("True/Synced"))

	g.Expect(admin.Delete(t.Context(), cm)).To(gomega.Succeed())
	g.Eventually(synced(t)).Should(gomega.HavePrefix("False/ConfigMapMissing"))
	admin.Remove(t, policy)
}

func TestAPolicyGoesAlthoughTheTextIsSpoilt(t *testing.T) {
	g, policy := begun(t)
	rewrite(t, schedulerConfigMap, "somebody", "{{ not YAML")
	g.Eventually(synced(t)).Should(gomega.HavePrefix("False/ConfigUnreadable"))
	admin.Remove(t, policy)
	g.Expect(schedulerText(t, schedulerConfigMap)()).To(gomega.Equal("{{ not YAML"))
	g.Eventually(admin.Events(t, policy, "ConfigNotRestored")).Should(gomega.ConsistOf(gomega.ContainSubstring("is in ConfigMap volcano-scheduler-configmap-original")))
}

func TestAnotherConfigMapIsNamed(t *testing.T) {
	g := need(t)
	newSchedulerConfig(t, schedulerConfigMap, byHand)
	newSchedulerConfig(t, "second", "# another one\n"+byHand)
	policy := newPolicy(t, nil)
	g.Eventually(synced(t)).Should(gomega.HavePrefix("True/Synced"))
	patch(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) { p.Spec.Scheduler.ConfigMap.Name = "second" })
	g.Eventually(synced(t)).Should(gomega.SatisfyAll(gomega.HavePrefix("False/ConfigRefused"), gomega.ContainSubstring("forbidden"),
		gomega.ContainSubstring("grant the other name there as well")))
	g.Expect(schedulerText(t, schedulerConfigMap)()).To(gomega.ContainSubstring("cardreclaim"), "quotas stay enforced where they were")
	grantConfigMap(t, "second")
	g.Eventually(schedulerText(t, "second")).Should(gomega.ContainSubstring("cardreclaim"))
	g.Eventually(schedulerText(t, schedulerConfigMap)).Should(gomega.Equal(byHand))
	g.Expect(configMap(t, schedulerConfigMap).Annotations).NotTo(gomega.HaveKey(undoAnnotation))
	g.Eventually(synced(t)).Should(gomega.ContainSubstring("volcano-system/second"))

	rewrite(t, "second", "kubectl-edit", "# another one\n"+byHand)
	g.Eventually(schedulerText(t, "second")).Should(gomega.ContainSubstring("cardreclaim"), "the new one is watched")

	patch(t, policy, "user", func(p *v1alpha1.ServiceTypePolicy) { p.Spec.Scheduler.ConfigMap.Namespace = labNamespace })
	g.Eventually(synced(t)).Should(gomega.SatisfyAll(gomega.HavePrefix("False/ConfigRefused"), gomega.ContainSubstring("forbidden")))
	g.Expect(schedulerText(t, "second")()).To(gomega.ContainSubstring("cardreclaim"))
	admin.Remove(t, policy)
	g.Expect(schedulerText(t, "second")()).To(gomega.Equal("# another one\n" + byHand))
}

// grantConfigMap lets the operator work on a ConfigMap of another name, as docs/install.md says.
func grantConfigMap(t *testing.T, name string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: systemNamespace, Name: "cardquota-manager-" + name}
	admin.Make(t, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name + "-original"}, Verbs: []string{"get", "create", "patch", "delete"}},
	}})
	admin.Make(t, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: "cardquota-manager"}},
	})
}
