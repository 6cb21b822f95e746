package realnode

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

// TestContainersRunBesideTheFleet: a test cluster has one real node, with a kubelet and containers, beside nodes
// that kwok plays. Its 4 cards go to two pods of 2 each. The subtests check that its pods, Services, probes and
// logs work as on any node, and that its kubelet has no rights on other nodes.
func TestContainersRunBesideTheFleet(t *testing.T) {
	c := startRealNode(t, cluster.Options{
		Fleet: "../cluster/fleets/mixed.yaml", WithoutVolcano: true, WithKubeScheduler: true, RealNode: cardNode(),
	})

	importResponder(t, c)
	g := NewWithT(check.Trail(t))
	g.Expect(c.Apply(t.Context(), responderManifests("responder", 2, cards/2))).To(Succeed())

	pods := waitForRunning(t, c, "responder", 2)
	service := check.Value(c.Client().CoreV1().Services("default").Get(t.Context(), "responder", metav1.GetOptions{}))(t)

	t.Run("the node is a card node", func(t *testing.T) {
		g := NewWithT(check.Trail(t))
		node := check.Value(c.Client().CoreV1().Nodes().Get(t.Context(), c.RealNodeName(), metav1.GetOptions{}))(t)
		g.Expect(node.Labels).To(And(
			HaveKeyWithValue(cluster.RealNodeLabel, "true"), HaveKeyWithValue("nvidia.com/gpu.product", "NVIDIA-H200")))
		offered := node.Status.Allocatable["nvidia.com/gpu"]
		g.Expect(offered.Value()).To(BeEquivalentTo(cards))
		g.Expect(node.Status.NodeInfo.ContainerRuntimeVersion).To(HavePrefix("containerd://"))
	})

	t.Run("every container gets its own cards", func(t *testing.T) {
		var seen []string
		for _, pod := range pods {
			seen = append(seen, strings.Split(mustGet(t, "%s:8080/env?name=NVIDIA_VISIBLE_DEVICES", pod.Status.PodIP), ",")...)
		}
		slices.Sort(seen)
		check.Equal(t, "cards", []string{"card-0", "card-1", "card-2", "card-3"}, seen)
	})

	t.Run("a pod reaches the API server with its token", func(t *testing.T) {
		check.Equal(t, "user", "system:serviceaccount:default:default", mustGet(t, "%s:8080/whoami", pods[0].Status.PodIP))
		kubernetesService := check.Value(c.Client().CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}))(t)
		check.Equal(t, "host", kubernetesService.Spec.ClusterIP, mustGet(t, "%s:8080/env?name=KUBERNETES_SERVICE_HOST", pods[0].Status.PodIP))
	})

	t.Run("a Service reaches only the pod that is ready", func(t *testing.T) {
		g := NewWithT(check.Trail(t))
		_, err := getPage(t, "%s/healthz", service.Spec.ClusterIP)
		g.Expect(err).To(HaveOccurred(), "no pod is ready")
		mustGet(t, "%s:8080/become-ready", pods[1].Status.PodIP)
		g.Eventually(func() (string, error) {
			return getPage(t, "%s/env?name=HOSTNAME", service.Spec.ClusterIP)
		}, "60s", "100ms").Should(Equal(pods[1].Name), "reached from this machine by the ClusterIP")
		g.Expect(isPodReady(t, c, pods[0].Name)).To(BeFalse())
	})

	t.Run("logs come through the kubelet", func(t *testing.T) {
		check.Contains(t, "log", check.Value(c.Kubectl(t.Context(), "logs", pods[0].Name))(t), "serving")
	})

	t.Run("the kubelet may write its own node and no other", func(t *testing.T) {
		config := check.Value(clientcmd.BuildConfigFromFlags(c.Config().Host, c.Dir()+"/kubelet.kubeconfig"))(t)
		kubelet := check.Value(kubernetes.NewForConfig(config))(t)
		for node, isForbidden := range map[string]bool{c.RealNodeName(): false, "h200-0": true} {
			_, err := kubelet.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(`{"metadata":{"labels":{"stolen":"true"}}}`), metav1.PatchOptions{})
			check.That(t, apierrors.IsForbidden(err) == isForbidden && (err == nil) != isForbidden, "%s: %v", node, err)
		}
	})

	t.Run("kwok still plays the other nodes", func(t *testing.T) {
		g := NewWithT(check.Trail(t))
		check.Value(c.Client().CoreV1().Pods("default").Create(t.Context(), builder.Pod("default", "played").Node("h200-0").Obj(), metav1.CreateOptions{}))(t)
		g.Eventually(func() (bool, error) { return isPodReady(t, c, "played") }, "60s", "100ms").Should(BeTrue())
	})
}

// waitForRunning waits until all pods of an app run and have an address.
func waitForRunning(t *testing.T, c *cluster.Cluster, app string, count int) []corev1.Pod {
	var pods []corev1.Pod
	NewWithT(check.Trail(t)).Eventually(func(g Gomega) {
		list, err := c.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(list.Items).To(HaveLen(count))
		for _, pod := range list.Items {
			g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning), pod.Name)
			g.Expect(pod.Status.PodIP).NotTo(BeEmpty(), pod.Name)
			g.Expect(getPage(t, "%s:8080/healthz", pod.Status.PodIP)).To(BeEmpty())
		}
		pods = list.Items
	}, "90s", "200ms").Should(Succeed())

	return pods
}

func isPodReady(t *testing.T, c *cluster.Cluster, name string) (bool, error) {
	pod, err := c.Client().CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	return err == nil && slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	}), err
}
