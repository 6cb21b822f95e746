package why

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/kubectl"
)

// TestWhyNamesAReasonOnceWithoutTheNodes: a user who may not list nodes does not know that nvidia.com/gpu is a card,
// so the pod seems to request none. The status lists it for this resource, with reason InvalidRequest. Why must not
// take the pod for a second one that waits for another reason.
func TestWhyNamesAReasonOnceWithoutTheNodes(t *testing.T) {
	quota := kubectl.CountedQuota("lab", "lab", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 8}).Obj()
	quota.Status.BlockedTotal = 1
	quota.Status.Blocked = []v1alpha1.BlockedStatus{{
		Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "lab", Name: "waits"},
		Since:    kubectl.TimeAgo(0), Card: "nvidia.com/gpu", Count: 1, Reason: v1alpha1.BlockedInvalidRequest,
	}}
	objects := []client.Object{
		kubectl.PolicyWithScheduler("v0.2.0"), builder.Namespace("lab"), builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(), quota,
		builder.Pod("lab", "waits").Queue("lab").Card("NVIDIA-H200|").GPUs(1).Unschedulable("").Obj(), // an alternative without a name
	}

	execute(t, objects, kubectl.Forbid(corev1.Resource("nodes"), &corev1.NodeList{}), "why -n lab waits").
		Prints("Pod lab/waits waits for 1 nvidia.com/gpu in queue lab", "(InvalidRequest)").
		Lacks("other reasons")
}

// TestWhyOfATenantCountsCardsAndNoNetworkDevices: pod wide requests 2 H200 and 1 RDMA device. A tenant may
// read neither nodes nor the CardInventory, and still reads that the pod waits for 2 H200.
func TestWhyOfATenantCountsCardsAndNoNetworkDevices(t *testing.T) {
	execute(t, append(kubectl.ClusterWithOneFreeCard(), kubectl.NewPod("wide", "llm", 2).Requests("rdma/hca", "1").Unschedulable("").Obj()),
		kubectl.ForbidCluster("lab"), "why -n lab wide").Prints("waits for 2 NVIDIA-H200 in queue llm")
}

// TestWhyOfAPodWithoutCardsNeedsNoNodes: pod tf-ps-0 requests no cards, and all nodes lack CPU for it. A user who may not
// list nodes reads that, and not that too few cards are free.
func TestWhyOfAPodWithoutCardsNeedsNoNodes(t *testing.T) {
	execute(t, append(kubectl.ClusterWithOneFreeCard(), groupOfTF().Obj(), podOfTF("tf-ps-0").CPU("4").Unschedulable("all nodes are unavailable: 1 Insufficient cpu.").Obj()),
		kubectl.Forbid(corev1.Resource("nodes"), &corev1.NodeList{}), "why -n lab tf-ps-0").Prints("(NodesUnsuitable): every node refuses the pod.")
}
