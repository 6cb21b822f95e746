// Package admission tests everything that the API server refuses, warns about or
// fills in for us, on a cluster with Volcano's own webhooks.
package admission

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAdmission runs on one cluster, in this order. What each rule says is tested in internal/admission; here
// it is tested that it is asked, and when nobody can be asked.
func TestAdmission(t *testing.T) {
	w := newGate(t)
	t.Run("bypass", func(t *testing.T) { bypassTests(t, w) })
	t.Run("workloads", func(t *testing.T) { workloadTests(t, w) })
	t.Run("quotas", func(t *testing.T) { quotaTests(t, w) })
	t.Run("jobs", func(t *testing.T) { vcjobTests(t, w) })
	t.Run("without an operator", func(t *testing.T) { aloneTests(t, w) })
	t.Run("certificate", func(t *testing.T) { certificateTests(t, w) })
}

// podTemplate is a pod template of a workload that finds its pods by label app.
func podTemplate(spec corev1.PodSpec, annotations map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels, Annotations: annotations}, Spec: spec}
}

var selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}

// deploymentOf makes a Deployment of cards without a replica.
func deploymentOf(name string, spec corev1.PodSpec, annotations map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32), Selector: selector, Template: podTemplate(spec, annotations)},
	}
}
