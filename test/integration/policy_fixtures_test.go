package integration

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/framework"
)

const (
	// baseConfigMap is Volcano's ConfigMap, schedulerConfigMap the one that our scheduler
	// reads.
	baseConfigMap      = "volcano-scheduler-configmap"
	schedulerConfigMap = "cardquota-scheduler-configmap"
	schedulerKey       = "volcano-scheduler.conf"
)

// byHand is a hand-written configuration with comments, an order, and plugins that no policy
// knows.
const byHand = `# The scheduler of the whole cluster. Ask before you change it!
actions:   "enqueue, allocate, backfill"   # no preempt here

tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - {name: drf, enablePreemptable: false}
  - name: predicates
  - name: nodeorder
    arguments:
      leastrequested.weight:   2 # spread
  - name: binpack
`

// newBase creates Volcano's ConfigMap like Helm.
func newBase(t *testing.T, name, text string) *corev1.ConfigMap {
	g := framework.NewGomega(t)
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name},
		Data:       map[string]string{schedulerKey: text, "other.conf": "kept"},
	}
	g.Expect(admin.Create(t.Context(), cm, client.FieldOwner("helm"))).To(gomega.Succeed())
	t.Cleanup(func() { admin.DeleteAndWait(t, cm) })
	return cm
}

// newPolicy creates the policy. It removes the policy and its objects at the end of the test:
// no garbage collector runs here.
func newPolicy(t *testing.T, change func(*v1alpha1.ServiceTypePolicySpec)) *v1alpha1.ServiceTypePolicy {
	policy := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if change != nil {
		change(&policy.Spec)
	}
	t.Cleanup(func() { deletePolicy(t, policy) })
	admin.CreateWithCleanup(t, policy)
	return policy
}

// deletePolicy deletes a policy and, like the garbage collector, its objects.
func deletePolicy(t *testing.T, policy *v1alpha1.ServiceTypePolicy) {
	admin.DeleteAndWait(t, policy)
	ctx := context.WithoutCancel(t.Context())
	var classes schedulingv1.PriorityClassList
	var configurations corev1.ConfigMapList

	g := gomega.NewWithT(check.Trail(t))
	g.Expect(admin.List(ctx, &classes)).To(gomega.Succeed())
	g.Expect(admin.List(ctx, &configurations, client.InNamespace(systemNamespace))).To(gomega.Succeed())

	var made []client.Object
	for i := range classes.Items {
		made = append(made, &classes.Items[i])
	}

	for i := range configurations.Items {
		made = append(made, &configurations.Items[i])
	}

	for _, object := range made {
		for _, owner := range object.GetOwnerReferences() {
			if owner.UID == policy.UID {
				admin.DeleteAndWait(t, object)
			}
		}
	}
}

// startPolicyTest starts a test of a policy over a hand-written configuration.
func startPolicyTest(t *testing.T) (*gomega.WithT, *v1alpha1.ServiceTypePolicy) {
	g := requireControlPlane(t)
	newBase(t, baseConfigMap, byHand)
	policy := newPolicy(t, nil)
	g.Eventually(configSynced(t)).Should(gomega.HavePrefix("True/Synced"))
	return g, policy
}

// policyStatus returns the status of the policy, for use in Eventually.
func policyStatus(t *testing.T) func() (v1alpha1.ServiceTypePolicyStatus, error) {
	return framework.Read(context.WithoutCancel(t.Context()), admin, client.ObjectKey{Name: "default"}, func(policy *v1alpha1.ServiceTypePolicy) v1alpha1.ServiceTypePolicyStatus {
		return policy.Status
	})
}

// configSynced returns condition ConfigSynced like policyCondition.
func configSynced(t *testing.T) func() (string, error) {
	return policyCondition(t, v1alpha1.ConditionConfigSynced)
}

// schedulerText returns the text of the configuration, for use in Eventually.
func schedulerText(t *testing.T, name string) func() (string, error) {
	return framework.Read(t.Context(), admin, client.ObjectKey{Namespace: systemNamespace, Name: name}, func(cm *corev1.ConfigMap) string {
		return cm.Data[schedulerKey]
	})
}

// configMap returns a stored ConfigMap.
func configMap(t *testing.T, name string) *corev1.ConfigMap {
	return framework.Fetch[corev1.ConfigMap](t, admin, client.ObjectKey{Namespace: systemNamespace, Name: name})
}

// writeConfigMap writes a text into the ConfigMap as a given field manager.
func writeConfigMap(t *testing.T, name, manager, text string) {
	patchAs(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name}}, manager, func(cm *corev1.ConfigMap) {
		cm.Data[schedulerKey] = text
	})
}
