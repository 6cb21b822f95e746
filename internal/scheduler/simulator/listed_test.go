//go:build !windows

package simulator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/strip"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// TestTheSchedulerReadsTheSameOfAListedPod: to save memory the CLI keeps all containers of a listed pod as one. Volcano
// must compute the same requests from it as from the whole pod. An init container counts only while it is larger than
// the containers, and a sidecar (an init container that restarts) counts beside them.
func TestTheSchedulerReadsTheSameOfAListedPod(t *testing.T) {
	for t, whole := range check.Cases(t, map[string]*corev1.Pod{
		"one container":      builder.Pod("lab", "p").GPUs(2).CPU("4").Obj(),
		"several containers": builder.Pod("lab", "p").GPUs(2).Container(builder.GPU, "1").Container(corev1.ResourceCPU, "500m").Obj(),
		"init containers":    builder.Pod("lab", "p").GPUs(1).InitContainer(builder.GPU, "4").InitContainer(corev1.ResourceCPU, "8").Obj(),
		"two sidecars, and an init container between them": builder.Pod("lab", "p").GPUs(1).
			Sidecar(corev1.ResourceCPU, "2").InitContainer(corev1.ResourceCPU, "3").Sidecar(builder.GPU, "1").Obj(),
		"a sidecar that requests nothing": builder.Pod("lab", "p").Sidecar(corev1.ResourceCPU, "0").Obj(),
		"no requests":                     builder.Pod("lab", "p").Obj(),
	}) {
		listed := whole.DeepCopy()
		strip.ListedPod(listed)
		want := schedulingapi.NewTaskInfo(whole)
		got := schedulingapi.NewTaskInfo(listed)

		check.That(t, got.InitResreq.Equal(want.InitResreq, schedulingapi.Zero), "requests at the start %v, of the whole pod %v", got.InitResreq, want.InitResreq)
		check.That(t, got.Resreq.Equal(want.Resreq, schedulingapi.Zero), "requests %v, of the whole pod %v", got.Resreq, want.Resreq)
		check.Equal(t, "has a sidecar", want.HasRestartableInitContainer, got.HasRestartableInitContainer)
		check.Equal(t, "requests nothing", want.BestEffort, got.BestEffort)
	}
}
