package tide

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/test/cluster"
)

const (
	namespace = metav1.NamespaceDefault
	model     = "NVIDIA-H200"
	gpu       = corev1.ResourceName("nvidia.com/gpu")
	// GangSize is how many pods a training job has, with one card each, and how
	// many cards a node has.
	GangSize = 8
	// The queues of training gangs, of single training pods, and of inference.
	gangQueue, singleQueue, inferenceQueue = "training", "experiments", "inference"
	// roleLabel and groupLabel tell what a pod is and to which workload it belongs.
	roleLabel, groupLabel = "tide.role", "tide.group"
	// profile is the first part of the nodes' names.
	profile = "h200"
	// gangName is the name of a training gang, by its number.
	gangName = "gang-%03d"
	// singles is the workload of the training pods that wait beside the gangs.
	singles = "experiments"
)

// Roles of pods.
const (
	trainer   = "trainer"   // of a gang
	single    = "single"    // training on its own
	inference = "inference" // takes cards back
)

func amounts(cpu, memory string, cards int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		gpu: *resource.NewQuantity(cards, resource.DecimalSI),
	}
}

func fleet(nodes int) []cluster.NodeProfile {
	return []cluster.NodeProfile{{
		Name: profile, Count: nodes,
		Labels:      map[string]string{"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": "143771"},
		Allocatable: amounts("64", "512Gi", GangSize),
	}}
}

// quota gives a queue all cards of the cluster, so that only cards that are not
// free ever hold anybody up.
func quota(name, serviceType string, cards int) *v1alpha1.CardQuota {
	return &v1alpha1.CardQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.CardQuotaSpec{
			Tenant: name, ServiceType: serviceType, Cards: []v1alpha1.CardSpec{{Name: model, Quota: int64(cards)}},
		},
	}
}

// template is a pod with one card. queue is "" for the pods of a vcjob, which
// names it itself.
func template(role, group, queue string) corev1.PodTemplateSpec {
	requests := amounts("1", "4Gi", 1)
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{roleLabel: role, groupLabel: group},
			Annotations: map[string]string{v1alpha1.AnnotationCardName: model},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "volcano",
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/main", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
			}},
		},
	}
	if queue != "" {
		t.Annotations[v1alpha1.AnnotationQueueName] = queue
	}
	return t
}

// gang is a vcjob whose pods run all or not at all, with the policies that users
// write. Its retries are counted and never run out, so that it comes back as
// often under one action as under the other.
func gang(role, name, queue string, size int) *batch.Job {
	t := template(role, name, "")
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batch.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{roleLabel: role},
			Annotations: map[string]string{v1alpha1.AnnotationCardRequest: fmt.Sprintf("{%q:%d}", model, size)},
		},
		Spec: batch.JobSpec{
			SchedulerName: "volcano", Queue: queue, MinAvailable: int32(size), MaxRetry: 10000,
			Policies: []batch.LifecyclePolicy{
				{Events: []bus.Event{bus.PodEvictedEvent, bus.PodFailedEvent}, Action: bus.RestartJobAction},
				{Event: bus.TaskCompletedEvent, Action: bus.CompleteJobAction},
			},
			Tasks: []batch.TaskSpec{{Name: "worker", Replicas: int32(size), Template: t}},
		},
	}
}

func nodeName(i int) string { return fmt.Sprintf("%s-%d", profile, i) }

// prefers is a wish for a node.
func prefers(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 1,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
			}},
		}},
	}}
}

// service is a Deployment.
func service(role, name, queue string, replicas int) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{roleLabel: role}},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: name}},
			Template: template(role, name, queue),
		},
	}
}

// pod is one on its own.
func pod(role, name, queue string) *corev1.Pod {
	t := template(role, name, queue)
	t.Namespace, t.Name = namespace, name
	return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
}
