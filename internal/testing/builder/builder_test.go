package builder

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// trainingPod builds a pod p of queue q and PodGroup g, with 2 H200 and 4 cores, which is owned by a Volcano
// job j.
func trainingPod() *PodBuilder {
	return Pod("ns", "p").Queue("q").PodGroup("g").Card("NVIDIA-H200").GPUs(2).CPU("4").Owner("batch.volcano.sh/v1alpha1", "Job", "j")
}

// TestTheSameCallsBuildTheSameObject: objects of tests have no random fields, so that two of them can be
// compared. UIDs follow from kind, namespace and name. So the owner that a pod names is the Job that another
// call builds.
func TestTheSameCallsBuildTheSameObject(t *testing.T) {
	check.Equal(t, "pod", trainingPod().Obj(), trainingPod().Obj())
	check.Equal(t, "UID of the owner", VCJob("ns", "j").Obj().UID, trainingPod().Obj().OwnerReferences[0].UID)
}

// TestABuiltObjectDoesNotChangeWithItsBuilder: Obj returns a copy. A test may go on with the builder, and the
// object that it has already built stays as it is.
func TestABuiltObjectDoesNotChangeWithItsBuilder(t *testing.T) {
	b := trainingPod()
	built := b.Obj()
	b.Running("n").Queue("other").GPUs(8).Label("a", "b").Deleted(time.Unix(1, 0))
	check.Equal(t, "the pod that was built before", trainingPod().Obj(), built)
}

// TestCopiesHaveNamesAndUIDsOfTheirOwn: three copies of pod p are p-0, p-1 and p-2, and none has the UID of
// another.
func TestCopiesHaveNamesAndUIDsOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range trainingPod().Copies(3) {
		seen[p.Name] = true
		seen[string(p.UID)] = true
	}
	check.Equal(t, "names and UIDs", []string{"p-0", "p-1", "p-2", "pod/ns/p-0", "pod/ns/p-1", "pod/ns/p-2"}, slices.Sorted(maps.Keys(seen)))
}

// TestEmptyTextsLeaveFieldsOut: tables pass "" for what a row does not have. Then the pod has no such
// annotation and no such request. An annotation that a test names itself may be empty.
func TestEmptyTextsLeaveFieldsOut(t *testing.T) {
	p := Pod("ns", "p").Queue("").PodGroup("").Card("").ChargedQueue("").CPU("").Obj()
	check.That(t, p.Annotations == nil, "the pod has the annotations %v", p.Annotations)
	check.That(t, p.Spec.Containers[0].Resources.Requests == nil, "the pod has the requests %v", p.Spec.Containers[0].Resources.Requests)
	check.Equal(t, "annotations", map[string]string{"key": ""}, Pod("ns", "p").Annotation("key", "").Obj().Annotations)
}

// TestNodesHaveTheResourcesOfTheirDevicePlugins: NVIDIA's device plugin offers whole cards, and each MIG profile
// as a resource of its own. It offers 8 cards that MPS shares in two as 8 × 2 = 16 shared ones. Huawei's offers its own
// resource. Capacity is what is allocatable.
func TestNodesHaveTheResourcesOfTheirDevicePlugins(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		node *NodeBuilder
		want map[corev1.ResourceName]int64
	}{
		"8 whole H200": {Node("n").GPUs("NVIDIA-H200", 8), map[corev1.ResourceName]int64{GPU: 8}},
		"4 whole H200, and 14 MIG slices": {
			Node("n").GPUs("NVIDIA-H200", 4).MIG("1g.18gb", 14), map[corev1.ResourceName]int64{GPU: 4, "nvidia.com/mig-1g.18gb": 14},
		},
		"8 H800, shared by two each": {
			Node("n").GPUs("NVIDIA-H800", 8).MPS(2), map[corev1.ResourceName]int64{"nvidia.com/gpu.shared": 16},
		},
		"8 Ascend-910B": {Node("n").NPUs("Ascend-910B", 8), map[corev1.ResourceName]int64{"huawei.com/Ascend910": 8}},
	}) {
		node := tc.node.Obj()
		got := map[corev1.ResourceName]int64{}
		for resource, quantity := range node.Status.Allocatable {
			if resource != "cpu" && resource != "memory" && resource != "pods" {
				got[resource] = quantity.Value()
			}
		}

		check.Equal(t, "cards", tc.want, got)
		check.Equal(t, "capacity", node.Status.Allocatable, node.Status.Capacity)
	}
}

// TestJobsAndDeploymentsTakeAPodAsTheirTemplate: the template of a gang of four has the annotations of the pod, and all
// four pods are its minimum. The template of a Deployment has the label by which the Deployment selects its pods, but
// neither the name nor the UID of the pod.
func TestJobsAndDeploymentsTakeAPodAsTheirTemplate(t *testing.T) {
	job := Gang("ns", "j", 4, trainingPod()).Queue("q").Request(`{"NVIDIA-H200":8}`).Obj()
	task := job.Spec.Tasks[0]
	check.Equal(t, "minAvailable", 4, job.Spec.MinAvailable)
	check.Equal(t, "replicas", 4, task.Replicas)
	check.Equal(t, "card name", "NVIDIA-H200", task.Template.Annotations["volcano.sh/card.name"])

	template := Deployment("ns", "d", 2, trainingPod()).Spec.Template
	check.Equal(t, "label of the Deployment", "d", template.Labels[AppLabel])
	check.Equal(t, "name", "", template.Name)
	check.Equal(t, "UID", "", template.UID)
}
