package builder

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

func trainingPod() *PodBuilder {
	return Pod("ns", "p").Queue("q").PodGroup("g").Card("NVIDIA-H200").GPUs(2).CPU("4").Owner("batch.volcano.sh/v1alpha1", "Job", "j")
}

func TestTheSameCallsMakeTheSameObject(t *testing.T) {
	check.Equal(t, "pod", trainingPod().Obj(), trainingPod().Obj())
	owner := trainingPod().Obj().OwnerReferences[0]
	job := VCJob("ns", "j").Obj()
	check.That(t, owner.UID == job.UID, "the owner has UID %s, the Job %s", owner.UID, job.UID)
}

func TestAnObjectKeepsWhatItWasWhenItWasBuilt(t *testing.T) {
	b := trainingPod()
	before := b.Obj()
	b.Running("n").Queue("other").GPUs(8).Label("a", "b").Deleted(time.Unix(1, 0))
	check.Equal(t, "a later call changed it", trainingPod().Obj(), before)
}

func TestCopiesAreDifferentPods(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range trainingPod().Copies(3) {
		seen[p.Name] = true
		seen[string(p.UID)] = true
	}
	want := []string{"p-0", "p-1", "p-2", "pod/ns/p-0", "pod/ns/p-1", "pod/ns/p-2"}
	check.Equal(t, "names and UIDs", want, slices.Sorted(maps.Keys(seen)))
}

func TestEmptyTextsLeaveFieldsOut(t *testing.T) {
	p := Pod("ns", "p").Queue("").PodGroup("").Card("").ChargedQueue("").CPU("").Obj()
	if p.Annotations != nil || p.Spec.Containers[0].Resources.Requests != nil {
		t.Errorf("annotations %v, requests %v", p.Annotations, p.Spec.Containers[0].Resources.Requests)
	}
	check.That(t, len(Pod("ns", "p").Annotation("key", "").Obj().Annotations) == 1, "an annotation may be empty when a test writes it so")
}

func TestNodesOfSharedAndCutCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		node *NodeBuilder
		want map[corev1.ResourceName]int64
	}{
		"whole":  {Node("n").GPUs("NVIDIA-H200", 8), map[corev1.ResourceName]int64{GPU: 8}},
		"MIG":    {Node("n").GPUs("NVIDIA-H200", 4).MIG("1g.18gb", 14), map[corev1.ResourceName]int64{GPU: 4, "nvidia.com/mig-1g.18gb": 14}},
		"MPS":    {Node("n").GPUs("NVIDIA-H800", 8).MPS(2), map[corev1.ResourceName]int64{"nvidia.com/gpu.shared": 16}},
		"Ascend": {Node("n").NPUs("Ascend-910B", 8), map[corev1.ResourceName]int64{"huawei.com/Ascend910": 8}},
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

func TestTemplatesCarryWhatThePodSays(t *testing.T) {
	job := Gang("ns", "j", 4, trainingPod()).Queue("q").Request(`{"NVIDIA-H200":8}`).Obj()
	task := job.Spec.Tasks[0]
	check.That(t, task.Replicas == 4 && job.Spec.MinAvailable == 4 && task.Template.Annotations["volcano.sh/card.name"] == "NVIDIA-H200",
		"the gang is %+v", job.Spec)
	d := Deployment("ns", "d", 2, trainingPod())
	check.That(t, d.Spec.Template.Labels[AppLabel] == "d" && d.Spec.Template.UID == "" && d.Spec.Template.Name == "",
		"the template is %+v", d.Spec.Template.ObjectMeta)
}
