package cluster_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/test/cluster"
)

const failingPods = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-fails}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - jq: {key: .status.phase, operator: In, values: [Pending]}
  next:
    patches:
    - {subresource: status, root: status, template: "phase: Failed"}
`

func TestStagesCanBeReplacedAndComeBack(t *testing.T) {
	g := NewWithT(t)
	stages := filepath.Join(t.TempDir(), "stages.yaml")
	g.Expect(os.WriteFile(stages, []byte(failingPods), 0o600)).To(Succeed())
	c := start(t, cluster.Options{
		WithoutVolcano: true,
		StageFiles:     []string{stages},
		Nodes: []cluster.NodeProfile{{Name: "cpu", Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		}}},
	})
	boundPod(t, c, "fails", 30, nil)
	g.Eventually(phaseOf(t, c, "fails"), "10s").Should(Equal(corev1.PodFailed))

	g.Expect(c.SetStages(t.Context())).To(Succeed())
	boundPod(t, c, "runs", 30, nil)
	g.Eventually(phaseOf(t, c, "runs"), "10s").Should(Equal(corev1.PodRunning))
}

// TestDeploymentsScale: the controller manager works under its own rights.
func TestDeploymentsScale(t *testing.T) {
	g := NewWithT(t)
	c := whole(t)
	g.Expect(c.Apply(t.Context(), []byte(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: cpu-1
      containers: [{name: main, image: web}]
`))).To(Succeed())
	pods := func() (map[corev1.PodPhase]int, error) {
		list, err := c.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return nil, err
		}
		phases := map[corev1.PodPhase]int{}
		for _, pod := range list.Items {
			phases[pod.Status.Phase]++
		}
		return phases, nil
	}
	g.Eventually(pods, "15s", "50ms").Should(Equal(map[corev1.PodPhase]int{corev1.PodRunning: 3}))
	_, err := c.Kubectl(t.Context(), "scale", "deployment", "web", "--replicas=1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(pods, "15s", "50ms").Should(Equal(map[corev1.PodPhase]int{corev1.PodRunning: 1}))
	_, err = c.Kubectl(t.Context(), "delete", "deployment", "web", "--wait=false")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(pods, "15s", "50ms").Should(BeEmpty())
}
