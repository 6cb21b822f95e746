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

// TestTheSchedulerReadsTheSameOfAListedPod: lists of the CLI keep the containers of a pod as one.
func TestTheSchedulerReadsTheSameOfAListedPod(t *testing.T) {
	for t, whole := range check.Cases(t, map[string]*corev1.Pod{
		"one container":        builder.Pod("lab", "p").GPUs(2).CPU("4").Obj(),
		"several containers":   builder.Pod("lab", "p").GPUs(2).Container(builder.GPU, "1").Container(corev1.ResourceCPU, "500m").Obj(),
		"an init container":    builder.Pod("lab", "p").GPUs(1).InitContainer(builder.GPU, "4").InitContainer(corev1.ResourceCPU, "8").Obj(),
		"sidecars":             builder.Pod("lab", "p").GPUs(1).Sidecar(corev1.ResourceCPU, "2").InitContainer(corev1.ResourceCPU, "3").Sidecar(builder.GPU, "1").Obj(),
		"a sidecar of nothing": builder.Pod("lab", "p").Sidecar(corev1.ResourceCPU, "0").Obj(),
		"nothing":              builder.Pod("lab", "p").Obj(),
	}) {
		listed := whole.DeepCopy()
		strip.ListedPod(listed)
		was := schedulingapi.NewTaskInfo(whole)

		is := schedulingapi.NewTaskInfo(listed)
		check.That(t, is.InitResreq.Equal(was.InitResreq, schedulingapi.Zero) && is.Resreq.Equal(was.Resreq, schedulingapi.Zero), "requests %v, of the whole pod %v", is.InitResreq, was.InitResreq)
		check.Equal(t, "has a sidecar", was.HasRestartableInitContainer, is.HasRestartableInitContainer)
		check.Equal(t, "requests nothing", was.BestEffort, is.BestEffort)
	}
}
