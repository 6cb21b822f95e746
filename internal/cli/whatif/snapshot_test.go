package whatif

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// TestOnlyTheSimulationKeepsImagesOfNodes: a node lists its images, which are as large as the rest of it. Volcano's
// plugins may score nodes by them, so the simulation of whatif keeps them. All other commands drop them, and
// managedFields.
func TestOnlyTheSimulationKeepsImagesOfNodes(t *testing.T) {
	node := builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj()
	node.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}, SizeBytes: 1 << 30}}
	node.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{}}`)},
	}}

	r := reader.New(kubectl.NewCluster(t, []client.Object{node}, kubectl.MayReadAll))
	loaded := reader.ReadWorkloads(t.Context(), r)
	check.NoError(t, r.Err())
	check.Must(t, len(loaded.Nodes) == 1, "nodes %v", loaded.Nodes)
	check.Equal(t, "images", 0, len(loaded.Nodes[0].Status.Images))
	check.Equal(t, "managed fields", 0, len(loaded.Nodes[0].ManagedFields))

	simulated, _, err := readSimulated(t.Context(), r, reader.DefaultSystemNamespace)
	check.NoError(t, err)
	check.Must(t, len(simulated.Nodes) == 1, "nodes of the simulation %v", simulated.Nodes)
	check.Equal(t, "images in the simulation", 1, len(simulated.Nodes[0].Status.Images))
}
