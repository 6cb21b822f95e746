package security

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
)

const (
	gpu  = corev1.ResourceName("nvidia.com/gpu")
	h200 = "NVIDIA-H200"
)

// expect is gomega with the patience that a scheduler with a session every half
// second needs.
func expect(t *testing.T) *WithT {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	g.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	g.SetDefaultConsistentlyDuration(3 * time.Second)
	g.SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	return g
}

// quota is a CardQuota of one H200 for training, whose queue has its name.
func quota(name string, change func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	cpu, memory := resource.MustParse("64"), resource.MustParse("256Gi")
	q := &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CardQuotaSpec{
		Tenant: "team", ServiceType: "training",
		Cards:     []v1alpha1.CardSpec{{Name: h200, Quota: 1}},
		Resources: &v1alpha1.Resources{CPU: &cpu, Memory: &memory},
	}}
	if change != nil {
		change(q)
	}
	return q
}

// grant makes a CardQuota and waits until its queue says so.
func grant(t *testing.T, q *v1alpha1.CardQuota) {
	t.Helper()
	create(t, q)
	expect(t).Eventually(func() (bool, error) {
		live := &v1alpha1.CardQuota{}
		err := suite.admin.Get(t.Context(), client.ObjectKeyFromObject(q), live)
		for _, condition := range live.Status.Conditions {
			if condition.Type == v1alpha1.ConditionQueueSynced && condition.Status == metav1.ConditionTrue {
				return true, err
			}
		}
		return false, err
	}).Should(BeTrue())
}

// pod asks for one card as a tenant writes it.
func pod(name, queue string, change func(*corev1.Pod)) *corev1.Pod {
	one := corev1.ResourceList{gpu: resource.MustParse("1")}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name, Annotations: map[string]string{
			v1alpha1.AnnotationQueueName: queue, v1alpha1.AnnotationCardName: h200,
		}},
		Spec: corev1.PodSpec{SchedulerName: "volcano", Containers: []corev1.Container{{
			Name: "work", Image: "work", Resources: corev1.ResourceRequirements{Limits: one},
		}}},
	}
	if change != nil {
		change(p)
	}
	return p
}

// submit creates a pod as tess.
func submit(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if err := tessClient(t).Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, p) })
}

// node is where a pod runs, "" for one that waits.
func node(t *testing.T, p *corev1.Pod) func() (string, error) {
	return func() (string, error) {
		live := &corev1.Pod{}
		err := suite.admin.Get(t.Context(), client.ObjectKeyFromObject(p), live)
		return live.Spec.NodeName, err
	}
}

// why are the messages by which our scheduler says why a pod or its group waits.
func why(t *testing.T) func() (string, error) {
	return func() (string, error) {
		events := &corev1.EventList{}
		err := suite.admin.List(t.Context(), events, client.InNamespace(tenant))
		text := ""
		for _, event := range events.Items {
			text += event.InvolvedObject.Name + " " + event.Reason + ": " + event.Message + "\n"
		}
		return text, err
	}
}
