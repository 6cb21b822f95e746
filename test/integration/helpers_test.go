package integration

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/framework"
)

// newQuota returns a CardQuota of 8 H200 for training.
func newQuota(name string, change func(*v1alpha1.CardQuota)) *v1alpha1.CardQuota {
	return framework.NewCardQuota(name, 8, change)
}

func parseQuantity(text string) *resource.Quantity {
	return ptr.To(resource.MustParse(text))
}

// patchAs changes an object as the given field manager, like kubectl edit.
func patchAs[T client.Object](t *testing.T, object T, manager string, change func(T)) {
	g := framework.NewGomega(t)
	g.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(object), object)).To(gomega.Succeed())
	base, ok := object.DeepCopyObject().(client.Object)
	g.Expect(ok).To(gomega.BeTrue())
	change(object)
	g.Expect(admin.Patch(t.Context(), object, client.MergeFrom(base), client.FieldOwner(manager))).To(gomega.Succeed())
}

// setState simulates Volcano's queue controller.
func setState(t *testing.T, name string, state v1beta1.QueueState) {
	framework.NewGomega(t).Eventually(func() error {
		queue := &v1beta1.Queue{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: name}, queue); err != nil {
			return err
		}
		base := queue.DeepCopy()
		queue.Status.State = state
		return admin.Status().Patch(t.Context(), queue, client.MergeFrom(base), client.FieldOwner("queue-controller"))
	}).Should(gomega.Succeed())
}

// queueOf returns a Queue, for use in Eventually.
func queueOf(t *testing.T, name string) func() (*v1beta1.Queue, error) {
	return framework.Read(t.Context(), admin, client.ObjectKey{Name: name}, func(q *v1beta1.Queue) *v1beta1.Queue { return q })
}

// queueAnnotation returns an annotation of a Queue, for use in Eventually.
func queueAnnotation(t *testing.T, name, key string) func() (string, error) {
	return framework.Read(t.Context(), admin, client.ObjectKey{Name: name}, func(q *v1beta1.Queue) string { return q.Annotations[key] })
}

// statusOf returns the status of a CardQuota, for use in Eventually.
func statusOf(t *testing.T, name string) func() (v1alpha1.CardQuotaStatus, error) {
	return framework.Read(t.Context(), admin, client.ObjectKey{Name: name}, func(quota *v1alpha1.CardQuota) v1alpha1.CardQuotaStatus {
		return quota.Status
	})
}

// cardQuotaCondition returns a condition as "Status/Reason: message", for use in Eventually.
func cardQuotaCondition(t *testing.T, name, kind string) func() (string, error) {
	return admin.Condition(t, newQuota(name, nil), kind)
}

// newNode creates a node with 8 whole cards of a model.
func newNode(t *testing.T, name, model string) {
	admin.CreateWithCleanup(t, builder.Node(name).GPUs(model, 8).Obj())
}

// newPod returns a pod of a queue that requests cards. Without a node it waits.
func newPod(name, queue, node string, count int) *corev1.Pod {
	return builder.Pod(labNamespace, name).Queue(queue).Card("NVIDIA-H200|NVIDIA-H800").CPU("2").Memory("4Gi").GPUs(count).Node(node).Obj()
}

// setPod simulates the scheduler and the kubelet: it changes the status of a pod.
func setPod(t *testing.T, pod *corev1.Pod, change func(*corev1.PodStatus)) {
	g := framework.NewGomega(t)
	base := pod.DeepCopy()
	change(&pod.Status)
	g.Expect(admin.Status().Patch(t.Context(), pod, client.MergeFrom(base))).To(gomega.Succeed())
}

// uniqueName derives a name from the test's name.
func uniqueName(t *testing.T, suffix string) string {
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test")))
	return name[:min(len(name), 50)] + suffix
}
