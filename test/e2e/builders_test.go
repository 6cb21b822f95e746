package e2e

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
)

// Card names of the fleet.
const (
	h200     = "NVIDIA-H200"
	h800     = "NVIDIA-H800"
	rtx4090  = "NVIDIA-GeForce-RTX-4090"
	rtx4090d = "NVIDIA-GeForce-RTX-4090-D"
	migSlice = "NVIDIA-H200/mig-1g.18gb-mixed"
	migLarge = "NVIDIA-H200/mig-3g.71gb-mixed"
	mpsHalf  = "NVIDIA-H800/mps-80g*1/2"
	ascend   = "Ascend-910B"
	// canary is only for scene.checkOtherQueues.
	canary = "NVIDIA-L40S"
)

// app is the label by which a test selects the pods of a workload.
const app = builder.AppLabel

// podSet is a workload of pods with equal requests.
type podSet struct {
	name  string
	queue string
	// card is the value of card.name, "" to omit it; count is the number of cards per pod, 0
	// for none.
	card  string
	count int
	pods  int
	// gang is the minAvailable of a vcjob; 0 means 1.
	gang int
	// annotations are added to the pods.
	annotations map[string]string
}

// resourceOf returns the resource of a card of the fleet.
func resourceOf(card string) corev1.ResourceName {
	switch {
	case strings.Contains(card, "/mig-"):
		_, profile, _ := strings.Cut(card, "/")

		return corev1.ResourceName("nvidia.com/" + strings.TrimSuffix(profile, "-mixed"))
	case strings.Contains(card, "/mps-"):
		return "nvidia.com/gpu.shared"
	case card == mi300x:
		return "amd.com/gpu"
	case card == k100:
		return "hygon.com/dcu"
	case strings.HasPrefix(card, "Ascend"):
		return "huawei.com/Ascend910"
	default:
		return "nvidia.com/gpu"
	}
}

// podTemplate returns the template of the workload's pods.
func (w podSet) podTemplate(namespace, name string) *builder.PodBuilder {
	pod := builder.Pod(namespace, name).Label(app, w.name).Queue(w.queue).Card(w.card).CPU("100m").Memory("64Mi")
	for key, value := range w.annotations {
		pod.Annotation(key, value)
	}

	if w.count > 0 {
		pod.Requests(resourceOf(w.card), strconv.Itoa(w.count))
	}

	return pod.With(func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
	})
}

// newVCJob returns a Volcano Job. As users do, it announces the cards with which it can start:
// an elastic job those of its minimum.
func (s *scene) newVCJob(w podSet) *batchv1alpha1.Job {
	least := max(w.gang, 1)
	job := builder.Gang(s.namespace, w.name, int32(w.pods), w.podTemplate("", "")).Queue(w.queue).MinAvailable(int32(least))
	if w.card != "" {
		job.Request(fmt.Sprintf(`{%q:%d}`, w.card, least*w.count))
	}
	made := job.Obj()
	delete(made.Spec.Tasks[0].Template.Annotations, v1beta1.QueueNameAnnotationKey)
	return made
}

// deploymentOf returns a Deployment for Volcano.
func (s *scene) deploymentOf(w podSet) *appsv1.Deployment {
	return builder.Deployment(s.namespace, w.name, int32(w.pods), w.podTemplate("", ""))
}

// barePods returns pods without an owner.
func (s *scene) barePods(w podSet) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range w.pods {
		pod := w.podTemplate(s.namespace, fmt.Sprintf("%s-%d", w.name, i)).Obj()
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pods = append(pods, pod)
	}
	return pods
}

// createPods creates bare pods.
func (s *scene) createPods(w podSet) {
	for _, pod := range s.barePods(w) {
		s.createObjects(pod)
	}
}

// cardList returns a quota in the given order: card, count, card, count …
func cardList(pairs ...any) []api.Card {
	var out []api.Card
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, api.Card{Name: pairs[i].(string), Quota: ptr.To(int64(pairs[i+1].(int)))})
	}
	return out
}

// createQuota creates a CardQuota for training and waits for its queue.
func (s *scene) createQuota(name string, specs []api.Card) {
	s.createQuotaOfType(name, "training", specs)
}

// createQuotaOfType creates a CardQuota of a service type and waits for its queue.
func (s *scene) createQuotaOfType(name, serviceType string, specs []api.Card) {
	s.createAndAwaitOpen(builder.CardQuota(name).ServiceType(serviceType).With(func(q *api.CardQuota) { q.Spec.Cards = specs }).Obj())
}
