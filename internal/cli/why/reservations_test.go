package why

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// whyInLabWithoutNodes is whyInLab for a user who may list pods and PodGroups, but no nodes.
func whyInLabWithoutNodes(t *testing.T, objects []client.Object, workload string) string {
	return execute(t, objects, kubectl.Forbid(corev1.Resource("nodes"), &corev1.NodeList{}), "why -n lab "+workload).OneLine()
}

// podsOfWorks returns the pods of Volcano job works in queue roomy, which the scheduler has enqueued.
func podsOfWorks(pods, cards int) (objects []client.Object) {
	for _, pod := range kubectl.NewPod("w", "roomy", cards).PodGroup("works").Owner("batch.volcano.sh/v1alpha1", "Job", "works").Copies(pods) {
		objects = append(objects, pod)
	}
	return objects
}

// groupOfWorks is the PodGroup of job works, which needs two pods to start.
func groupOfWorks() *builder.PodGroupBuilder {
	group := builder.PodGroup("lab", "works").Queue("roomy").MinMember(2).Phase(v1beta1.PodGroupInqueue)
	return group.Owner("batch.volcano.sh/v1alpha1", "Job", "works")
}

// nextOfRoomy is pod next-0 with its PodGroup, which waits for quota of queue roomy that others reserve. The quota is
// 8, and total is what the queue would have with it and all reservations.
func nextOfRoomy(cards, total int) []client.Object {
	message := fmt.Sprintf("Queue <roomy> has insufficient <NVIDIA-H200> quota: requested <%d>, total would be <%d>, but capability is <8>", cards, total)
	return []client.Object{
		builder.PodGroup("lab", "next").Queue("roomy").MinResource(builder.GPU, fmt.Sprint(cards)).Phase(v1beta1.PodGroupPending).Unschedulable(message).Obj(),
		kubectl.NewPod("next-0", "roomy", cards).PodGroup("next").Obj(),
	}
}

// TestAJobWithPodsIsNotCalledEmpty: job works has reserved 6 cards of the quota of 8, and its two pods of 3 cards
// wait. So next-0, which requests 4, waits for its reservation. Why names job works, and must not say that it has no
// pods, after which a user would delete it. That is true also for a user who may not list nodes.
func TestAJobWithPodsIsNotCalledEmpty(t *testing.T) {
	group := groupOfWorks().MinResource(builder.GPU, "6").Request(`{"NVIDIA-H200":6}`).Obj()
	objects := slices.Concat(kubectl.ClusterWithOneFreeCard(), []client.Object{group}, podsOfWorks(2, 3), nextOfRoomy(4, 10)) // 10 = 6 reserved + 4

	for name, text := range map[string]string{
		"to a user who may read all":           whyInLab(t, objects, "next-0"),
		"to a user who may not list the nodes": whyInLabWithoutNodes(t, objects, "next-0"),
	} {
		check.Text(t, name, text).Has("Job lab/works (PodGroup works)").Lacks("has no pods", "delete")
	}
}

// TestOnlyTheMinimumIsReserved: job works has ten pods of one card each, and starts with two. So it waits for 2 cards
// with its reservation, and for 1 when one more of its pods runs already. Why of pod next-0, which waits for 7 cards
// of the same quota of 8, names job works with this number.
func TestOnlyTheMinimumIsReserved(t *testing.T) {
	objects := slices.Concat(kubectl.ClusterWithOneFreeCard(), []client.Object{groupOfWorks().Obj()}, podsOfWorks(10, 1), nextOfRoomy(7, 9)) // 9 = 2 reserved + 7
	check.Contains(t, "no pod of works runs", whyInLab(t, objects, "next-0"), "Job lab/works (PodGroup works) waits for 2 NVIDIA-H200.")

	objects = append(objects, kubectl.NewPod("first", "roomy", 1).PodGroup("works").Running("h200-0").Obj())
	check.Contains(t, "one pod of works runs", whyInLab(t, objects, "next-0"), "(PodGroup works) waits for 1 NVIDIA-H200.")
}

// TestAGangIsCountedWithAllItsPods: for a user who may not list nodes, why counts only the pods that the user asks for.
// Whether a gang is complete depends on its other pods too. The gang needs four pods of one card, and the user names
// one of them, or the PodGroup. If all four exist, why does not say that pods are missing. If two wait and one has
// succeeded, there are three. The PodGroup counts the succeeded pod, which also still exists and must not count twice.
func TestAGangIsCountedWithAllItsPods(t *testing.T) {
	const message = "pod group is not ready, 4 Pending, 4 minAvailable; Pending: 1 Unschedulable, 3 Schedulable"
	gang := func(succeeded int32, pods []*corev1.Pod) []client.Object {
		group := builder.PodGroup("lab", "g").Queue("roomy").MinMember(4).Phase(v1beta1.PodGroupInqueue).Obj()
		group.Status.Succeeded = succeeded
		objects := append(kubectl.ClusterWithOneFreeCard(), group)
		for _, pod := range pods {
			objects = append(objects, pod)
		}

		first := v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "lab", Name: "g-0"}
		kubectl.CardQuotaIn(objects, "roomy").Status.Blocked = []v1alpha1.BlockedStatus{
			{Workload: first, Card: "NVIDIA-H200", Count: 1, Reason: v1alpha1.BlockedGangIncomplete, Message: message},
		}
		return objects
	}

	pods := kubectl.NewPod("g", "roomy", 1).PodGroup("g").Unschedulable(message).Copies(4)
	check.Text(t, "four of four pods", whyInLabWithoutNodes(t, gang(0, pods), "g-0")).
		Has("(GangIncomplete): its pods fit, but others of its gang do not.").
		Lacks("the gang needs")

	pods[2].Status.Phase = corev1.PodSucceeded
	for _, asked := range []string{"g-0", "pg/g"} {
		check.Contains(t, "three of four pods, by "+asked, whyInLabWithoutNodes(t, gang(1, pods[:3]), asked), "the gang needs 4 pods, 3 exist.")
	}
}
