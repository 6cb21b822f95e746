package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
)

const (
	schedulerConfigMap = "volcano-scheduler-configmap"
	schedulerKey       = "volcano-scheduler.conf"
	undoAnnotation     = "cardquota.dev/scheduler-config-undo"
)

// byHand is a configuration that somebody has cared for: comments, an order, odd
// spaces, and plugins that no policy knows of.
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

// newSchedulerConfig makes the scheduler's ConfigMap as helm does, with a key
// beside the configuration.
func newSchedulerConfig(t *testing.T, name, text string) *corev1.ConfigMap {
	t.Helper()
	g := gomega.NewWithT(t)
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name, Annotations: map[string]string{"example.com/owner": "platform"}},
		Data:       map[string]string{schedulerKey: text, "other.conf": "kept"},
	}
	g.Expect(admin.Create(t.Context(), cm, client.FieldOwner("helm"))).To(gomega.Succeed())
	t.Cleanup(func() {
		remove(t, cm)
		remove(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name + "-original"}})
	})
	return cm
}

// newPolicy makes the policy, and takes it away when the test is over, before
// its ConfigMap.
func newPolicy(t *testing.T, change func(*v1alpha1.ServiceTypePolicySpec)) *v1alpha1.ServiceTypePolicy {
	t.Helper()
	policy := &v1alpha1.ServiceTypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if change != nil {
		change(&policy.Spec)
	}
	create(t, policy)
	return policy
}

// policyStatus reads the status of the policy, for use in Eventually.
func policyStatus(t *testing.T) func() (v1alpha1.ServiceTypePolicyStatus, error) {
	return func() (v1alpha1.ServiceTypePolicyStatus, error) {
		policy := &v1alpha1.ServiceTypePolicy{}
		err := admin.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Name: "default"}, policy)
		return policy.Status, err
	}
}

// synced reads condition ConfigSynced as "Status/Reason: message", for use in
// Eventually.
func synced(t *testing.T) func() (string, error) {
	return func() (string, error) {
		status, err := policyStatus(t)()
		if c := meta.FindStatusCondition(status.Conditions, "ConfigSynced"); c != nil {
			return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message), err
		}
		return "", err
	}
}

// schedulerText reads the configuration, for use in Eventually.
func schedulerText(t *testing.T, name string) func() (string, error) {
	return func() (string, error) {
		cm := &corev1.ConfigMap{}
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: name}, cm)
		return cm.Data[schedulerKey], err
	}
}

// configMap reads a ConfigMap as it is stored.
func configMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{}
	gomega.NewWithT(t).Expect(admin.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: name}, cm)).To(gomega.Succeed())
	return cm
}

// rewrite puts a text into the ConfigMap as somebody does.
func rewrite(t *testing.T, name, manager, text string) {
	t.Helper()
	patch(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name}}, manager, func(cm *corev1.ConfigMap) {
		cm.Data[schedulerKey] = text
	})
}

// policyEvents reads the events of the policy with a reason, for use in
// Eventually.
func policyEvents(t *testing.T, policy *v1alpha1.ServiceTypePolicy, reason string) func() ([]string, error) {
	return func() ([]string, error) {
		var list corev1.EventList
		err := admin.List(t.Context(), &list)
		var messages []string
		for _, e := range list.Items {
			if e.InvolvedObject.UID == policy.UID && e.Reason == reason {
				messages = append(messages, e.Message)
			}
		}
		return messages, err
	}
}
