package tide

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/test/bench/harness"
)

const (
	model = "NVIDIA-H200"
	// The queues of training gangs, of single training pods, and of inference.
	gangQueue, singleQueue, inferenceQueue = "training", "experiments", "inference"
	// nodePrefix is the first part of the nodes' names.
	nodePrefix = "h200"
	// gangNameFormat is the name of a training gang, by its number.
	gangNameFormat = "gang-%03d"
	// singlesName is the workload of the training pods that wait beside the gangs.
	singlesName = "experiments"
)

// gangJob is a vcjob whose pods run all or not at all, with the policies that users
// write. Its retries are counted and never run out, so that it comes back as
// often under one action as under the other.
func gangJob(role, name, queue string, size int) *batch.Job {
	return builder.VCJob(harness.Namespace, name).Label(harness.RoleLabel, role).Queue(queue).MinAvailable(int32(size)).
		Request(fmt.Sprintf("{%q:%d}", model, size)).Task("worker", int32(size), harness.CardPod(role, name, name, model)).
		With(func(j *batch.Job) {
			j.Spec.MaxRetry = 10000
			j.Spec.Policies = []batch.LifecyclePolicy{
				{Events: []bus.Event{bus.PodEvictedEvent, bus.PodFailedEvent}, Action: bus.RestartJobAction},
				{Event: bus.TaskCompletedEvent, Action: bus.CompleteJobAction},
			}
		}).Obj()
}

// preferNode is a wish for a node.
func preferNode(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
			}},
		}},
	}}
}

// newDeployment is a Deployment.
func newDeployment(role, name, queue string, replicas int) *appsv1.Deployment {
	d := builder.Deployment(harness.Namespace, name, int32(replicas), harness.CardPod(role, name, name, model).Queue(queue))
	d.Labels = map[string]string{harness.RoleLabel: role}
	return d
}
