package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

// newQuota makes a CardQuota of 8 H200 for training.
func newQuota(name string, change func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	quota := &v1alpha1.CardQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CardQuotaSpec{
		Tenant: "team", ServiceType: "training",
		Cards:     []v1alpha1.CardSpec{{Name: "NVIDIA-H200", Quota: 8}},
		Resources: &v1alpha1.Resources{CPU: quantity("64"), Memory: quantity("256Gi")},
	}}
	if change != nil {
		change(quota)
	}
	return quota
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// create makes an object and takes it away when the test is over. A CardQuota
// takes its queue with it before the next test begins.
func create(t *testing.T, object client.Object) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Expect(admin.Create(t.Context(), object)).To(gomega.Succeed())
	t.Cleanup(func() { remove(t, object) })
}

// remove deletes an object and waits until it is gone.
func remove(t *testing.T, object client.Object) {
	t.Helper()
	g := gomega.NewWithT(t)
	ctx := context.WithoutCancel(t.Context())
	g.Expect(client.IgnoreNotFound(admin.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(gomega.Succeed())
	g.Eventually(func() error {
		return client.IgnoreNotFound(gone(ctx, object))
	}).WithTimeout(waitLong).Should(gomega.Succeed(), "%T %s must go", object, object.GetName())
}

// gone is nil or NotFound when the object is not there.
func gone(ctx context.Context, object client.Object) error {
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", object)
	}
	if err := admin.Get(ctx, client.ObjectKeyFromObject(object), copied); err != nil {
		return err
	}
	return fmt.Errorf("%s is still there", object.GetName())
}

// patch changes an object as the given field manager, as kubectl edit does.
func patch[T client.Object](t *testing.T, object T, manager string, change func(T)) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(object), object)).To(gomega.Succeed())
	base, ok := object.DeepCopyObject().(client.Object)
	g.Expect(ok).To(gomega.BeTrue())
	change(object)
	g.Expect(admin.Patch(t.Context(), object, client.MergeFrom(base), client.FieldOwner(manager))).To(gomega.Succeed())
}

// setState plays Volcano's queue controller.
func setState(t *testing.T, name string, state v1beta1.QueueState) {
	t.Helper()
	g := gomega.NewWithT(t)
	g.Eventually(func() error {
		queue := &v1beta1.Queue{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: name}, queue); err != nil {
			return err
		}
		base := queue.DeepCopy()
		queue.Status.State = state
		return admin.Status().Patch(t.Context(), queue, client.MergeFrom(base), client.FieldOwner("queue-controller"))
	}).WithTimeout(waitLong).Should(gomega.Succeed())
}

// queueOf reads a Queue, for use in Eventually.
func queueOf(t *testing.T, name string) func() (*v1beta1.Queue, error) {
	return func() (*v1beta1.Queue, error) {
		queue := &v1beta1.Queue{}
		return queue, admin.Get(t.Context(), client.ObjectKey{Name: name}, queue)
	}
}

// annotation reads an annotation of a Queue, for use in Eventually.
func annotation(t *testing.T, name, key string) func() (string, error) {
	return func() (string, error) {
		queue, err := queueOf(t, name)()
		return queue.Annotations[key], err
	}
}

// statusOf reads the status of a CardQuota, for use in Eventually.
func statusOf(t *testing.T, name string) func() (v1alpha1.CardQuotaStatus, error) {
	return func() (v1alpha1.CardQuotaStatus, error) {
		quota := &v1alpha1.CardQuota{}
		err := admin.Get(t.Context(), client.ObjectKey{Name: name}, quota)
		return quota.Status, err
	}
}

// condition reads a condition as "Status/Reason: message", for use in
// Eventually.
func condition(t *testing.T, name, kind string) func() (string, error) {
	return func() (string, error) {
		status, err := statusOf(t, name)()
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
			return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message), err
		}
		return "", err
	}
}

// events reads the events of a CardQuota with a reason, for use in Eventually.
func events(t *testing.T, quota *v1alpha1.CardQuota, reason string) func() ([]string, error) {
	return func() ([]string, error) {
		var list corev1.EventList
		err := admin.List(t.Context(), &list)
		var messages []string
		for _, e := range list.Items {
			if e.InvolvedObject.UID == quota.UID && e.Reason == reason {
				messages = append(messages, e.Message)
			}
		}
		return messages, err
	}
}

// newNode makes a node with 8 whole cards of a model.
func newNode(t *testing.T, name, model string) {
	t.Helper()
	g := gomega.NewWithT(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": "143771",
	}}}
	create(t, node)
	base := node.DeepCopy()
	node.Status.Allocatable = corev1.ResourceList{gpu: resource.MustParse("8"), "cpu": resource.MustParse("64"), "memory": resource.MustParse("1Ti")}
	node.Status.Capacity = node.Status.Allocatable
	g.Expect(admin.Status().Patch(t.Context(), node, client.MergeFrom(base))).To(gomega.Succeed())
}

// newPod makes a pod of a queue that asks for cards. Without a node it waits.
func newPod(name, queue, node string, count int) *corev1.Pod {
	list := corev1.ResourceList{
		"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), gpu: *resource.NewQuantity(int64(count), resource.DecimalSI),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: name, Annotations: map[string]string{
			v1alpha1.AnnotationQueueName: queue, v1alpha1.AnnotationCardName: "NVIDIA-H200|NVIDIA-H800",
		}},
		Spec: corev1.PodSpec{
			SchedulerName: "volcano", NodeName: node,
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
		},
	}
}

// setPod plays the scheduler and the kubelet: it changes the status of a pod.
func setPod(t *testing.T, pod *corev1.Pod, change func(*corev1.PodStatus)) {
	t.Helper()
	g := gomega.NewWithT(t)
	base := pod.DeepCopy()
	change(&pod.Status)
	g.Expect(admin.Status().Patch(t.Context(), pod, client.MergeFrom(base))).To(gomega.Succeed())
}

// unique makes a name of the test's own name.
func unique(t *testing.T, suffix string) string {
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test")))
	return name[:min(len(name), 50)] + suffix
}
