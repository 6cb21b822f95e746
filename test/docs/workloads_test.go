package docs

import (
	"slices"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/testing/builder"
)

const (
	team      = "llm" // the sample llm-training selects it
	workImage = "localhost/work:test"
	card      = "NVIDIA-H200"
)

// createDeployment creates a Deployment of pods with real containers, which request cards or
// only CPU.
func (e *engineer) createDeployment(name, queue string, replicas int32, cards int) {
	pod := builder.Pod(team, name).Queue(queue).With(useTestImage)
	if cards > 0 {
		pod.Card(card).GPUs(cards)
	} else {
		pod.With(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = builder.Resources("10m", "") })
	}
	e.Expect(e.Create(e.ctx, builder.Deployment(team, name, replicas, pod))).To(Succeed())
}

// useTestImage makes a pod run the image that was built for it.
func useTestImage(pod *corev1.Pod) {
	pod.Spec.Containers[0].Image = workImage
	pod.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
}

// runningPods returns the pods of some Deployments whose container runs, by UID; without names, those of all.
func (e *engineer) runningPods(names ...string) map[types.UID]string {
	pods := &corev1.PodList{}
	// It retries when the API server does not answer: one failed request must not end a poll.
	e.Eventually(func() error { return e.List(e.ctx, pods, client.InNamespace(team)) }).Should(Succeed())
	out := map[types.UID]string{}
	for _, pod := range pods.Items {
		if isRunning(&pod) && (len(names) == 0 || slices.Contains(names, pod.Labels["app"])) {
			out[pod.UID] = pod.Name
		}
	}
	return out
}

func isRunning(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Running != nil
}

func (e *engineer) countRunning(name string) func() int {
	return func() int { return len(e.runningPods(name)) }
}

// runningCounts returns the number of running pods of each Deployment.
func (e *engineer) runningCounts(names ...string) func() map[string]int {
	return func() map[string]int {
		out := map[string]int{}
		for _, name := range names {
			out[name] = len(e.runningPods(name))
		}
		return out
	}
}

// checkStillRunning checks that the given pods still run.
func (e *engineer) checkStillRunning(before map[types.UID]string) {
	now := e.runningPods()
	for uid, name := range before {
		e.Expect(now).To(HaveKey(uid), "pod %s ran before", name)
	}
}

func (e *engineer) scaleDeployment(name string, replicas int32) {
	deployment := &appsv1.Deployment{}
	e.Expect(e.Get(e.ctx, client.ObjectKey{Namespace: team, Name: name}, deployment)).To(Succeed())
	before := deployment.DeepCopy()
	deployment.Spec.Replicas = &replicas
	e.Expect(e.Patch(e.ctx, deployment, client.MergeFrom(before))).To(Succeed())
}
