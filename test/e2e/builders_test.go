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
	// canary is for scene.check alone.
	canary = "NVIDIA-L40S"
)

// app is the label by which a test finds the pods of a workload.
const app = builder.AppLabel

// podSet is a workload: pods that each ask for the same cards.
type podSet struct {
	name  string
	queue string
	// card is what card.name says, "" to leave it out; count how many cards
	// each pod asks for, 0 for a pod without cards.
	card  string
	count int
	pods  int
	// gang is the minAvailable of a vcjob; 0 means 1.
	gang int
	// annotations are added to the pods.
	annotations map[string]string
}

// resourceOf is the resource under which a card of the fleet is requested.
func resourceOf(card string) corev1.ResourceName {
	switch {
	case strings.Contains(card, "/mig-"):
		_, profile, _ := strings.Cut(card, "/")
		return corev1.ResourceName("nvidia.com/" + strings.TrimSuffix(profile, "-mixed"))
	case strings.Contains(card, "/mps-"):
		return "nvidia.com/gpu.shared"
	case strings.HasPrefix(card, "Ascend"):
		return "huawei.com/Ascend910"
	default:
		return "nvidia.com/gpu"
	}
}

// podTemplate is what the pods of the workload are made from.
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

// newVCJob is a Volcano Job. As users write it, it states beforehand the cards with which
// it may begin: an elastic one those of its minimum.
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

// deploymentOf is a Deployment that Volcano schedules.
func (s *scene) deploymentOf(w podSet) *appsv1.Deployment {
	return builder.Deployment(s.namespace, w.name, int32(w.pods), w.podTemplate("", ""))
}

// barePods are pods that nobody owns.
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
	s.Helper()
	for _, pod := range s.barePods(w) {
		s.createObjects(pod)
	}
}

// cardList is a quota in the order written: card, count, card, count …
func cardList(pairs ...any) []api.Card {
	var out []api.Card
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, api.Card{Name: pairs[i].(string), Quota: int64(pairs[i+1].(int))})
	}
	return out
}

// createQuota opens the queue of a CardQuota for training.
func (s *scene) createQuota(name string, specs []api.Card) {
	s.Helper()
	s.ofType(name, "training", specs)
}

// ofType opens the queue of a CardQuota of a service type.
func (s *scene) ofType(name, serviceType string, specs []api.Card) {
	s.Helper()
	s.createAndAwaitOpen(builder.CardQuota(name).ServiceType(serviceType).With(func(q *api.CardQuota) { q.Spec.Cards = specs }).Obj())
}
