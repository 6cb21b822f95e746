package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// A user who may not list nodes does not know that the pod's resource is a card.
func TestWhyExplainsAPodOnceWithoutTheNodes(t *testing.T) {
	pod := builder.Pod("lab", "waits").Queue("lab").Card("NVIDIA-H200|").GPUs(1).Unschedulable("").Obj()
	quota := counted("lab", "lab", "training", v1alpha1.CardStatus{Name: "NVIDIA-H200", Quota: 8, Free: 8, Physical: 8}).Obj()
	quota.Status.Blocked = []v1alpha1.BlockedStatus{{
		Workload: v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "lab", Name: "waits"}, Card: "nvidia.com/gpu", Count: 1,
		Since: timeAgo(0), Reason: v1alpha1.BlockedInvalidRequest,
	}}
	quota.Status.BlockedTotal = 1
	objects := []client.Object{policyOf("v0.2.0"), builder.Namespace("lab"), builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj(), quota, pod}
	check.Text(t, "explanation", strings.Join(strings.Fields(execute(t, objects, forbid(schema.GroupResource{Resource: "nodes"}, &corev1.NodeList{}), "why", "-n", "lab", "waits").out), " ")).
		Has("Pod lab/waits waits for 1 nvidia.com/gpu in queue lab", "(InvalidRequest)").
		Lacks("other reasons") // the same reason is named twice
}
