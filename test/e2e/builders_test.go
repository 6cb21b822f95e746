package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	api "cardquota.dev/operator/api/v1alpha1"
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
const app = "app"

// work is a workload: pods that each ask for the same cards.
type work struct {
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

func (w work) template() corev1.PodTemplateSpec {
	annotations := map[string]string{}
	for key, value := range w.annotations {
		annotations[key] = value
	}
	if w.card != "" {
		annotations[api.AnnotationCardName] = w.card
	}
	if w.queue != "" {
		annotations[api.AnnotationQueueName] = w.queue
	}
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	if w.count > 0 {
		requests[resourceOf(w.card)] = *resource.NewQuantity(int64(w.count), resource.DecimalSI)
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{app: w.name}, Annotations: annotations},
		Spec: corev1.PodSpec{
			SchedulerName:                 "volcano",
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/main", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
			}},
		},
	}
}

// vcjob is a Volcano Job. As users write it, it states its cards beforehand.
func (s *scene) vcjob(w work) *batchv1alpha1.Job {
	gang := max(w.gang, 1)
	job := &batchv1alpha1.Job{
		ObjectMeta: s.object(w.name),
		Spec: batchv1alpha1.JobSpec{
			SchedulerName: "volcano", Queue: w.queue, MinAvailable: int32(gang),
			Policies: []batchv1alpha1.LifecyclePolicy{{Event: v1alpha1.PodEvictedEvent, Action: v1alpha1.RestartJobAction}},
			Tasks:    []batchv1alpha1.TaskSpec{{Name: "worker", Replicas: int32(w.pods), Template: w.template()}},
		},
	}
	delete(job.Spec.Tasks[0].Template.Annotations, api.AnnotationQueueName)
	job.Spec.Tasks[0].Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if w.card != "" {
		job.Annotations = map[string]string{api.AnnotationCardRequest: fmt.Sprintf(`{%q:%d}`, w.card, w.pods*w.count)}
	}
	return job
}

// deploymentOf is a Deployment that Volcano schedules.
func (s *scene) deploymentOf(w work) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: s.object(w.name),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(w.pods)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{app: w.name}},
			Template: w.template(),
		},
	}
}

// barePods are pods that nobody owns.
func (s *scene) barePods(w work) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range w.pods {
		template := w.template()
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Namespace, pod.Name = s.namespace, fmt.Sprintf("%s-%d", w.name, i)
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pods = append(pods, pod)
	}
	return pods
}

// run creates bare pods.
func (s *scene) run(w work) {
	s.Helper()
	for _, pod := range s.barePods(w) {
		s.create(pod)
	}
}

// cards is a quota in the order written: card, count, card, count …
func cards(pairs ...any) []api.CardSpec {
	var out []api.CardSpec
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, api.CardSpec{Name: pairs[i].(string), Quota: int64(pairs[i+1].(int))})
	}
	return out
}

// quota creates a CardQuota for the queue of its name and waits until the queue
// takes work.
func (s *scene) quota(name string, specs []api.CardSpec) *api.CardQuota {
	s.Helper()
	quota := &api.CardQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       api.CardQuotaSpec{Tenant: "tenant-of-" + s.namespace, ServiceType: "training", Cards: specs},
	}
	s.create(quota)
	s.condition(name, api.ConditionReady, metav1.ConditionTrue)
	return quota
}

// queueByHand creates a Queue that no CardQuota knows. A quota of "" leaves the
// annotation out.
func (s *scene) queueByHand(name, quota string) *v1beta1.Queue {
	s.Helper()
	queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.QueueSpec{Weight: 1, Reclaimable: ptr.To(true)}}
	if quota != "" {
		queue.Annotations = map[string]string{api.AnnotationCardQuota: quota}
	}
	s.create(queue)
	s.Eventually(func() v1beta1.QueueState {
		live := &v1beta1.Queue{}
		_ = s.Get(s.ctx, keyOf(queue), live)
		return live.Status.State
	}).Should(Equal(v1beta1.QueueStateOpen))
	return queue
}
