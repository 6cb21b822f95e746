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

// TestAMisspeltFleetIsRefused: a fleet is a YAML list of the nodes that kwok simulates. An unknown field is an
// error. Otherwise a test with a misspelt fleet would run on other nodes than it says.
func TestAMisspeltFleetIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	check.NoError(t, os.WriteFile(file, []byte(`[{name: a, cuont: 2, allocatable: {cpu: "1", memory: 1Gi}}]`), 0o600))

	_, err := cluster.LoadFleet(file)
	check.Says(t, err, `unknown field "cuont"`)
}

// TestFleetNodesAreReadyAndKeptSo: kwok makes the 10 nodes of fleets/mixed.yaml Ready, without taints and with
// space for 110 pods, as real kubelets do. It keeps a Lease for each, because Kubernetes takes a node for dead
// whose Lease is not renewed.
func TestFleetNodesAreReadyAndKeptSo(t *testing.T) {
	g := NewWithT(check.Trail(t))
	c := sharedCluster(t)
	nodes := check.Value(c.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)

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

	g.Eventually(func() (int, error) {
		leases, err := c.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		return len(leases.Items), nil
	}, "20s").Should(BeNumerically(">=", 10))
}

// TestKubectlIsOfTheClustersVersion: kubectl and the API server are of one version, 1.34.1, so tests read the
// texts that users of that version read. A failed command returns what kubectl wrote. Kubernetes' own
// PriorityClasses exist as soon as a cluster has started.
func TestKubectlIsOfTheClustersVersion(t *testing.T) {
	g := NewWithT(check.Trail(t))
	c := sharedCluster(t)
	version := check.Value(c.Kubectl(t.Context(), "version", "-o", "json"))(t)
	g.Expect(strings.Count(version, `"gitVersion": "v1.34.1"`)).To(Equal(2), "of the client and of the server: %s", version)

	_, err := c.Kubectl(t.Context(), "get", "pod", "no-such-pod")
	g.Expect(err).To(MatchError(ContainSubstring(`pods "no-such-pod" not found`)))

	_, err = c.Kubectl(t.Context(), "get", "priorityclass", "system-cluster-critical", "system-node-critical")
	g.Expect(err).NotTo(HaveOccurred(), "PriorityClasses that the API server creates after its start")
}
