package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/cluster"
)

func TestLoadFleetRefuses(t *testing.T) {
	cases := map[string]struct{ text, wantError string }{
		"an unknown field":       {`[{name: a, cuont: 2, allocatable: {cpu: "1", memory: 1Gi}}]`, `unknown field "cuont"`},
		"a name twice":           {`[{name: a, allocatable: {cpu: "1", memory: 1Gi}}, {name: a, allocatable: {cpu: "1", memory: 1Gi}}]`, `name "a" is used twice`},
		"a bad name":             {`[{name: A_B, allocatable: {cpu: "1", memory: 1Gi}}]`, `name "A_B"`},
		"a negative count":       {`[{name: a, count: -1, allocatable: {cpu: "1", memory: 1Gi}}]`, "count -1 is negative"},
		"a missing memory":       {`[{name: a, allocatable: {cpu: "1"}}]`, "allocatable memory is missing"},
		"a negative resource":    {`[{name: a, allocatable: {cpu: "1", memory: 1Gi, nvidia.com/gpu: "-1"}}]`, "nvidia.com/gpu is negative"},
		"something not a number": {`[{name: a, allocatable: {cpu: much, memory: 1Gi}}]`, "quantities must match"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "fleet.yaml")
			check.NoError(t, os.WriteFile(file, []byte(tc.text), 0o600))
			_, err := cluster.LoadFleet(file)
			check.Says(t, err, tc.wantError)
		})
	}
}

func TestMixedFleetHasEveryKindOfCard(t *testing.T) {
	fleet, err := cluster.LoadFleet("fleets/mixed.yaml")
	check.NoError(t, err)
	got := map[string]string{} // profile → its accelerator resources
	for _, profile := range fleet {
		resources := []string{}
		for _, name := range []corev1.ResourceName{"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.18gb", "nvidia.com/mig-3g.71gb", "huawei.com/Ascend910"} {
			if amount, ok := profile.Allocatable[name]; ok {
				resources = append(resources, string(name)+"="+amount.String())
			}
		}
		got[profile.Name] = profile.Labels["nvidia.com/gpu.product"] + profile.Labels["huawei.com/npu.product"] + " " + strings.Join(resources, " ")
	}
	want := map[string]string{
		"h200":       "NVIDIA-H200 nvidia.com/gpu=8",
		"h800":       "NVIDIA-H800 nvidia.com/gpu=8",
		"rtx4090":    "NVIDIA-GeForce-RTX-4090 nvidia.com/gpu=8",
		"rtx4090d":   "NVIDIA-GeForce-RTX-4090-D nvidia.com/gpu=8",
		"h200-mig":   "NVIDIA-H200 nvidia.com/gpu=4 nvidia.com/mig-1g.18gb=14 nvidia.com/mig-3g.71gb=4",
		"h800-mps":   "NVIDIA-H800 nvidia.com/gpu.shared=16",
		"ascend910b": "Ascend-910B huawei.com/Ascend910=8",
		"cpu":        " ",
	}
	check.Equal(t, "fleet", want, got)
}

func TestFleetNodesAreReadyAndKeptSo(t *testing.T) {
	g := NewWithT(t)
	c := whole(t)
	nodes, err := c.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	names := map[string]bool{}
	for _, node := range nodes.Items {
		names[node.Name] = true
		g.Expect(node.Spec.Taints).To(BeEmpty(), node.Name)
		g.Expect(node.Status.Allocatable.Pods().Value()).To(Equal(int64(110)), node.Name)
		g.Expect(node.Status.Conditions).To(ContainElement(And(
			HaveField("Type", corev1.NodeReady), HaveField("Status", corev1.ConditionTrue))), node.Name)
	}
	g.Expect(names).To(HaveKey("h200-1"))
	g.Expect(names).To(HaveKey("cpu-1"))
	g.Expect(names).To(HaveLen(10))

	// kwok keeps them alive by their leases, as kubelets do.
	g.Eventually(func() (int, error) {
		leases, err := c.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		return len(leases.Items), nil
	}, "20s").Should(BeNumerically(">=", 10))
}
