package integration

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAdmission is everything that the API server refuses, warns about or fills
// in, on one cluster. What each rule says is tested in internal/admission; here
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

// deploymentOf makes a Deployment of cards; change may be nil.
func deploymentOf(namespace, name string, spec corev1.PodSpec, annotations map[string]string, change func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	none := int32(0)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: spec},
		},
	}
	if change != nil {
		change(d)
	}
	return d
}
