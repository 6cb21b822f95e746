package builder

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"

	"cardquota.dev/operator/api/v1alpha1"
)

// VCJobBuilder builds a Volcano Job.
type VCJobBuilder struct {
	object[*VCJobBuilder, *batch.Job]
}

// VCJob is a Volcano Job without tasks.
func VCJob(namespace, name string) *VCJobBuilder {
	b := &VCJobBuilder{}
	b.object = newObject("Job", namespace, name, b, &batch.Job{Spec: batch.JobSpec{SchedulerName: "volcano", MinAvailable: 1}})
	return b
}

// Gang returns a Volcano Job whose pods run all or not at all, and which restarts when one of
// them is evicted.
func Gang(namespace, name string, size int32, pod *PodBuilder) *VCJobBuilder {
	b := VCJob(namespace, name).MinAvailable(size).Task("worker", size, pod)
	b.obj.Spec.Policies = []batch.LifecyclePolicy{{Event: bus.PodEvictedEvent, Action: bus.RestartJobAction}}
	return b
}

// Queue sets the queue.
func (b *VCJobBuilder) Queue(name string) *VCJobBuilder { b.obj.Spec.Queue = name; return b }

// Request sets the cards that the job requests in total: `{"NVIDIA-H200":8}`.
func (b *VCJobBuilder) Request(text string) *VCJobBuilder {
	return b.annotateUnlessEmpty(v1alpha1.AnnotationCardRequest, text)
}

// MinAvailable sets how many pods run together or not at all.
func (b *VCJobBuilder) MinAvailable(n int32) *VCJobBuilder { b.obj.Spec.MinAvailable = n; return b }

// Task adds a task. Its pods have restartPolicy Never unless they set one.
func (b *VCJobBuilder) Task(name string, replicas int32, pod *PodBuilder) *VCJobBuilder {
	template := pod.Template()
	if template.Spec.RestartPolicy == "" {
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	b.obj.Spec.Tasks = append(b.obj.Spec.Tasks, batch.TaskSpec{Name: name, Replicas: replicas, Template: template})
	return b
}

// AppLabel is the label by which a Deployment selects its pods.
const AppLabel = "app"

// Deployment returns a Deployment of pods, which have its name in AppLabel.
func Deployment(namespace, name string, replicas int32, pod *PodBuilder) *appsv1.Deployment {
	template := pod.Template()
	template.Labels = withEntry(template.Labels, AppLabel, name)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uidFor("Deployment", namespace, name)},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: name}}, Template: template,
		},
	}
}

// PriorityClass returns a PriorityClass.
func PriorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uidFor("PriorityClass", "", name)}, Value: value}
}

// Namespace returns a Namespace with labels given as key, value, key, value …
func Namespace(name string, labels ...string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uidFor("Namespace", "", name)}}
	for i := 0; i+1 < len(labels); i += 2 {
		n.Labels = withEntry(n.Labels, labels[i], labels[i+1])
	}
	return n
}
