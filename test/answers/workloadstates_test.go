package answers

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/framework"
)

// workloadStates are those in which the reason alone does not say what helps: what the controller of a pod
// does, the labels of nodes, or other objects decide.
func workloadStates() []state {
	return []state{
		evicted(),
		plain("oversized", api.BlockedQuotaExhausted, 2, 0, podOf("oversized", waits, 3).Obj()),
		rollout(),
		deletedQuota(),
		refusedPods(),
		orphan(),
		claimed(),
		plain("misspelt", api.BlockedUnknownCard, 4, 0, podOf("misspelt", waits, 1).Card("MISSPELT").Obj()),
		plain("withheld", api.BlockedUnknownCard, 4, 0, podOf("withheld", waits, 1).Obj()).with(func(s *state) {
			s.nodes[0].Labels["nvidia.com/gpu.count"] = "2"
		}),
		plain("unnamed", api.BlockedUnknownCard, 4, 0, podOf("unnamed", waits, 0).Card("Hygon-UNNAMED").Requests("hygon.com/dcu", "1").Obj()).with(func(s *state) {
			s.nodes = []cluster.NodeProfile{{Name: "unnamed", Labels: map[string]string{"hygon.com/dcu.product": "Hygon-UNNAMED"},
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "hygon.com/dcu": resource.MustParse("4")}}}

			s.quotas[0].Spec.Cards[0].Name = "Hygon-UNNAMED"
		}),
	}
}

// reserved is a queue whose quota is reserved for a PodGroup that has no pods. The reservation ends.
func reserved() state {
	s := plain("reserved", api.BlockedQuotaExhausted, 4, 0)
	s.isBrief = true
	s.change = func(p *play) {
		p.create(builder.PodGroup("reserved", "empty").Queue("reserved").MinResource("nvidia.com/gpu", "4").Obj())
		p.awaitPhase("reserved", "empty", v1beta1.PodGroupInqueue)
		p.awaitNextSecond() // the API server keeps no smaller times
		p.create(podOf("reserved", waits, 2).Obj())
	}
	return s
}

// evicted is a Deployment that borrowed, and whose pod was evicted for the queue that deserves the cards.
func evicted() state {
	s := plain("evicted", api.BlockedNoFreeCard, 4, 0)
	s.quotas = []*api.CardQuota{quotaOf("evicted", "evicted", "", treeCard("evicted", 4, 2, 0)), quotaOf("evicted", "evicted-owner", "", treeCard("evicted", 4, 2, 0))}
	s.holders = []*corev1.Pod{podOf("evicted", "holds", 2).Obj()}
	s.change = func(p *play) {
		p.create(builder.Deployment("evicted", waits, 1, podOf("evicted", "", 2).Priority(0)))
		p.awaitPlaced("evicted", 2)
		p.create(podOf("evicted", "owner", 2).Queue("evicted-owner").Obj())
		p.awaitRunning("evicted", "owner")
	}
	s.asked = unplacedPod(s.name)
	return s
}

// rollout is a Deployment whose new pod waits for the old ones, which have the whole quota.
func rollout() state {
	s := plain("rollout", api.BlockedQuotaExhausted, 2, 0)
	s.change = func(p *play) {
		p.create(builder.Deployment("rollout", waits, 2, podOf("rollout", "", 1)))
		p.awaitPlaced("rollout", 2)
		deployment := framework.Fetch[appsv1.Deployment](p, p, client.ObjectKey{Namespace: "rollout", Name: waits})
		before := deployment.DeepCopy()
		deployment.Spec.Template.Spec.Containers[0].Image = "registry.example/main:2"
		newGomega(p.T).Expect(p.Patch(p.Context(), deployment, client.MergeFrom(before))).To(gomega.Succeed())
	}

	s.asked = unplacedPod(s.name)
	return s
}

// deletedQuota is a queue whose CardQuota is being deleted while a pod still runs.
func deletedQuota() state {
	s := plain("deleted", api.BlockedNoQuota, 4, 1)
	s.change = func(p *play) {
		p.remove(s.quotas[0])
		p.awaitQuotaGone("deleted")
		p.create(podOf("deleted", waits, 2).Obj())
	}
	return s
}

// refusedPods is a Deployment whose pods admission refuses, because they would evade the quota.
func refusedPods() state {
	s := plain("refused", "", 4, 0, builder.Deployment("refused", waits, 2, podOf("refused", "", 1).Scheduler("")))
	s.asked = func(*play, *testing.T) string { return "deployment/" + waits }
	s.hasNoEvents = true
	return s
}

// orphan is a pod that names a PodGroup that does not exist.
func orphan() state {
	s := plain("orphan", api.BlockedPodGroupNotFound, 4, 0, podOf("orphan", waits, 1).PodGroup("gone").Obj())
	s.hasNoEvents = true
	return s
}

// claimed is a pod with a ResourceClaim for a card that a driver of dynamic resource allocation hands out.
func claimed() state {
	const driver = "gpu.nvidia.com"
	s := plain("claimed", api.BlockedUnmanagedClaim, 4, 0)

	s.change = func(p *play) {
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "claimed-0"}}
		slice.Spec = resourcev1.ResourceSliceSpec{
			Driver:   driver,
			Pool:     resourcev1.ResourcePool{Name: "claimed-0", ResourceSliceCount: 1},
			NodeName: ptr.To("claimed-0"),
			Devices:  []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
		}

		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}}
		class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}}

		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "card"}}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "card", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: driver}}}

		pod := podOf(s.name, waits, 0).With(func(pod *corev1.Pod) {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "card", ResourceClaimName: ptr.To(claim.Name)}}
		})
		p.create(slice, class, claim, pod.Obj())
	}
	return s
}

// unplacedPod returns a pod of a namespace that has no node, "" for none yet.
func unplacedPod(namespace string) func(*play, *testing.T) string {
	return func(p *play, t *testing.T) string {
		pods := &corev1.PodList{}
		newGomega(t).Expect(p.List(t.Context(), pods, client.InNamespace(namespace))).To(gomega.Succeed())
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName == "" {
				return pods.Items[i].Name
			}
		}
		return ""
	}
}

// awaitPlaced waits until so many pods of a namespace run.
func (p *play) awaitPlaced(namespace string, count int) {
	newGomega(p.T).Eventually(func() (running int, err error) {
		pods := &corev1.PodList{}
		err = p.List(p.Context(), pods, client.InNamespace(namespace))
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running, err
	}).Should(gomega.Equal(count), "running pods of namespace %s", namespace)
}

// awaitPhase waits until a PodGroup has a phase.
func (p *play) awaitPhase(namespace, name string, phase v1beta1.PodGroupPhase) {
	newGomega(p.T).Eventually(framework.Read(p.Context(), p, client.ObjectKey{Namespace: namespace, Name: name}, func(group *v1beta1.PodGroup) v1beta1.PodGroupPhase {
		return group.Status.Phase
	})).Should(gomega.Equal(phase), "PodGroup %s/%s", namespace, name)
}

// awaitQuotaGone waits until a Queue has no quota any more.
func (p *play) awaitQuotaGone(name string) {
	newGomega(p.T).Eventually(framework.Read(p.Context(), p, client.ObjectKey{Name: name}, func(queue *v1beta1.Queue) string {
		return queue.Annotations[api.AnnotationCardQuota]
	})).Should(gomega.BeElementOf("", "{}"), "quota of Queue %s", name)
}
