package validation

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const (
	gpu    = corev1.ResourceName("nvidia.com/gpu")
	slice  = corev1.ResourceName("nvidia.com/mig-1g.18gb")
	ascend = corev1.ResourceName("huawei.com/Ascend910")
	rdma   = corev1.ResourceName("rdma/hca")
)

// fleet has H200, H800 and slices of H200, and Ascend cards whose node does not
// say which.
func fleet() *card.Inventory {
	return card.NewInventory(map[string]card.Node{
		"a": {Model: "NVIDIA-H200", Cards: []card.NodeCard{
			{Name: "NVIDIA-H200", Resource: gpu, Count: 8},
			{Name: "NVIDIA-H200/mig-1g.18gb-mixed", Resource: slice, Count: 7},
		}},
		"b": {Model: "NVIDIA-H800", Cards: []card.NodeCard{{Name: "NVIDIA-H800", Resource: gpu, Count: 8}}},
	}, ascend)
}

// queues are training, which is of that type and only for namespaces of team chat,
// open, which says nothing, and broken, whose selector cannot be read.
func queues(name string) *v1beta1.Queue {
	q := builder.Queue(name)
	selector := v1alpha1.AnnotationNamespaceSelector
	switch name {
	case "training":
		q.ServiceType("training").Quota(`{"NVIDIA-H200":8}`).Annotation(selector, `{"matchLabels":{"team":"chat"}}`)
	case "serving":
		q.ServiceType("inference")
	case "broken":
		q.Annotation(selector, `{`)
	case "open", "default":
	default:
		return nil
	}

	return q.Obj()
}

// snapshotOf is what is known of an object in namespace chat.
func snapshotOf(change func(*WorkloadInput)) WorkloadInput {
	w := WorkloadInput{
		Inventory: fleet(), Policy: &v1alpha1.ServiceTypePolicy{},
		Namespace: builder.Namespace("chat", "team", "chat"),
		Queue:     queues,
		PodGroup:  func(string) *v1beta1.PodGroup { return nil },
		User:      "somebody",
	}
	if change != nil {
		change(&w)
	}
	return w
}

type amounts = map[corev1.ResourceName]string

func specOf(limits amounts) corev1.PodSpec {
	list := corev1.ResourceList{}
	for name, amount := range limits {
		list[name] = resource.MustParse(amount)
	}
	return corev1.PodSpec{SchedulerName: "volcano", Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: list}}}}
}

type notes = map[string]string

const (
	name    = v1alpha1.AnnotationCardName
	request = v1alpha1.AnnotationCardRequest
	inQueue = v1beta1.QueueNameAnnotationKey
	ofType  = v1alpha1.AnnotationServiceType
)

func templateOf(annotations notes, limits amounts) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: specOf(limits)}
}

// deployment asks for cards in its template; change may be nil.
func deployment(annotations notes, limits amounts, change func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "d"}, Spec: appsv1.DeploymentSpec{Template: templateOf(annotations, limits)}}
	if change != nil {
		change(d)
	}
	return d
}

// requested makes a pod as the API server hands it over, with requests.
func requested(annotations notes, limits amounts, change func(*corev1.Pod)) *corev1.Pod {
	pod := podOf(templateOf(annotations, limits))
	pod.Namespace = "chat"
	pod.Name = "p"
	if change != nil {
		change(pod)
	}
	return pod
}

func vcjobOf(queue string, annotations notes, tasks ...vcbatch.TaskSpec) *vcbatch.Job {
	for i := range tasks {
		tasks[i].Template.Spec.SchedulerName = ""
	}
	return &vcbatch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "j", Annotations: annotations}, Spec: vcbatch.JobSpec{Queue: queue, Tasks: tasks}}
}

func task(replicas int32, annotations notes, limits amounts) vcbatch.TaskSpec {
	return vcbatch.TaskSpec{Replicas: replicas, Template: templateOf(annotations, limits)}
}

// says fails unless there is exactly one text with every word, or none for "".
func says(t *testing.T, what string, texts []string, words string) {
	if words == "" {
		check.That(t, len(texts) == 0, "%s: %q, want none", what, texts)
		return
	}
	check.Must(t, len(texts) == 1, "%s: %q, want one with %q", what, texts, words)
	check.Contains(t, what, texts[0], strings.Split(words, "…")...)
}

// answers checks what an answer says.
func answers(t *testing.T, result Result, refusal, warning string) {
	result = result.Truncated()
	says(t, "refusals", texts(result.Errors), refusal)
	says(t, "warnings", result.Warnings, warning)
}

// judged is the answer to a caller that waits for it.
func judged(t *testing.T, load Workload, before *Workload, scene WorkloadInput) Result {
	return check.Value(ValidateWorkload(t.Context(), load, before, scene))(t)
}

// texts are errors as users read them.
func texts(errors field.ErrorList) []string {
	var out []string
	for _, err := range errors {
		out = append(out, err.Error())
	}
	return out
}
