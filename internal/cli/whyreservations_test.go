package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// explainWithoutNodes returns what why says to a user who may list pods and PodGroups, but no nodes.
func explainWithoutNodes(t *testing.T, objects []client.Object, args ...string) string {
	mayNotList := forbid(corev1.Resource("nodes"), &corev1.NodeList{})
	r := execute(t, objects, mayNotList, append([]string{"why", "-n", "lab"}, args...)...)
	return strings.Join(strings.Fields(r.out), " ")
}

// reservingCluster has an enqueued job of two pods, and a PodGroup that waits for the quota that this job
// reserves.
func reservingCluster() []client.Object {
	const saysReserved = "Queue <roomy> has insufficient <NVIDIA-H200> quota: requested <4>, total would be <10>, but capability is <8>"
	worker := builder.Pod("lab", "w").Queue("roomy").Card("NVIDIA-H200").GPUs(3).PodGroup("works").Owner("batch.volcano.sh/v1alpha1", "Job", "works")
	objects := append(busyCluster(),
		builder.PodGroup("lab", "works").Queue("roomy").MinMember(2).MinResource(builder.GPU, "6").Request(`{"NVIDIA-H200":6}`).Owner("batch.volcano.sh/v1alpha1", "Job", "works").Phase(v1beta1.PodGroupInqueue).Obj(),
		builder.PodGroup("lab", "next").Queue("roomy").MinResource(builder.GPU, "4").Phase(v1beta1.PodGroupPending).Unschedulable(saysReserved).Obj(),
		builder.Pod("lab", "next-0").Queue("roomy").Card("NVIDIA-H200").GPUs(4).PodGroup("next").Obj())
	for _, pod := range worker.Copies(2) {
		objects = append(objects, pod)
	}
	return objects
}

// TestAJobWithPodsIsNotCalledEmpty: a user who may not list nodes may list all pods of the namespace.
func TestAJobWithPodsIsNotCalledEmpty(t *testing.T) {
	for name, text := range map[string]string{
		"everything is readable": explainLab(t, reservingCluster(), "next-0"),
		"nodes are not":          explainWithoutNodes(t, reservingCluster(), "next-0"),
	} {
		check.Text(t, name, text).Has("Job lab/works (PodGroup works)").Lacks("has no pods", "delete")
	}
}

// TestOnlyTheMinimumIsReserved: two pods of ten are enough for the job to start, and one of them runs.
func TestOnlyTheMinimumIsReserved(t *testing.T) {
	const saysReserved = "Queue <roomy> has insufficient <NVIDIA-H200> quota: requested <7>, total would be <9>, but capability is <8>"
	worker := builder.Pod("lab", "w").Queue("roomy").Card("NVIDIA-H200").GPUs(1).PodGroup("works").Owner("batch.volcano.sh/v1alpha1", "Job", "works")
	objects := append(busyCluster(),
		builder.PodGroup("lab", "works").Queue("roomy").MinMember(2).Owner("batch.volcano.sh/v1alpha1", "Job", "works").Phase(v1beta1.PodGroupInqueue).Obj(),
		builder.PodGroup("lab", "next").Queue("roomy").MinResource(builder.GPU, "7").Phase(v1beta1.PodGroupPending).Unschedulable(saysReserved).Obj(),
		builder.Pod("lab", "next-0").Queue("roomy").Card("NVIDIA-H200").GPUs(7).PodGroup("next").Obj())

	for _, pod := range worker.Copies(10) {
		objects = append(objects, pod)
	}
	check.Contains(t, "none runs", explainLab(t, objects, "next-0"), "Job lab/works (PodGroup works) waits for 2 NVIDIA-H200.")

	objects = append(objects, builder.Pod("lab", "first").Queue("roomy").Card("NVIDIA-H200").GPUs(1).PodGroup("works").Running("h200-0").Obj())
	check.Contains(t, "one runs", explainLab(t, objects, "next-0"), "(PodGroup works) waits for 1 NVIDIA-H200.")
}

// gangCluster has a gang of four, of which these pods exist. The status of its CardQuota lists one of them.
func gangCluster(succeeded int32, pods ...*corev1.Pod) []client.Object {
	group := builder.PodGroup("lab", "g").Queue("roomy").MinMember(4).Phase(v1beta1.PodGroupInqueue).
		With(func(g *v1beta1.PodGroup) { g.Status.Succeeded = succeeded })

	objects := append(busyCluster(), group.Obj())
	for _, pod := range pods {
		objects = append(objects, pod)
	}

	for _, object := range objects {
		if quota, ok := object.(*v1alpha1.CardQuota); ok && quota.Name == "roomy" {
			reference := v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "lab", Name: "g-0"}
			quota.Status.Blocked = []v1alpha1.BlockedStatus{{Workload: reference, Card: "NVIDIA-H200", Count: 1, Reason: v1alpha1.BlockedGangIncomplete, Message: saysGangWaits}}
		}
	}

	return objects
}

const saysGangWaits = "pod group is not ready, 4 Pending, 4 minAvailable; Pending: 1 Unschedulable, 3 Schedulable"

// TestAGangIsCountedWithAllItsPods: the user names one pod of it, and one that has ended is counted once.
func TestAGangIsCountedWithAllItsPods(t *testing.T) {
	pods := builder.Pod("lab", "g").Queue("roomy").Card("NVIDIA-H200").GPUs(1).PodGroup("g").Unschedulable(saysGangWaits).Copies(4)
	check.Text(t, "four of four", explainWithoutNodes(t, gangCluster(0, pods...), "g-0")).
		Has("(GangIncomplete): its pods fit, but others of its gang do not.").
		Lacks("the gang needs") // all of them exist

	pods[2].Status.Phase = corev1.PodSucceeded
	for name, asked := range map[string]string{"one pod": "g-0", "the PodGroup": "pg/g"} {
		check.Contains(t, name, explainWithoutNodes(t, gangCluster(1, pods[:3]...), asked), "the gang needs 4 pods, 3 exist.")
	}
}
