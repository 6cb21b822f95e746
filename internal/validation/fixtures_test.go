package validation

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	vcbatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const (
	gpu    = corev1.ResourceName("nvidia.com/gpu")
	slice  = corev1.ResourceName("nvidia.com/mig-1g.18gb")
	ascend = corev1.ResourceName("huawei.com/Ascend910")
	rdma   = corev1.ResourceName("rdma/hca")
)

// newInventory returns the cards of node a, 8 NVIDIA-H200 and 7 slices of them, and of node b, 8 NVIDIA-H800. A further
// node offers huawei.com/Ascend910, and no label names these cards.
func newInventory() *card.Inventory {
	return card.NewInventory(map[string]card.Node{
		"a": {Model: "NVIDIA-H200", Cards: []card.NodeCard{
			{Name: "NVIDIA-H200", Resource: gpu, Count: 8},
			{Name: "NVIDIA-H200/mig-1g.18gb-mixed", Resource: slice, Count: 7},
		}},
		"b": {Model: "NVIDIA-H800", Cards: []card.NodeCard{{Name: "NVIDIA-H800", Resource: gpu, Count: 8}}},
	}, ascend)
}

// findQueue returns a queue: "training" has that service type, a quota of 8 NVIDIA-H200, and takes namespaces of team chat
// only. "serving" has service type inference, "open" and "default" have no rules, and the selector of "broken" cannot be
// read. There are no others.
func findQueue(name string) *v1beta1.Queue {
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

// newInput returns what the rules know beside an object in namespace chat, which has the label team=chat: the cards of
// newInventory, the queues of findQueue, and a policy without entries. change may be nil.
func newInput(change func(*WorkloadInput)) WorkloadInput {
	w := WorkloadInput{
		Inventory: newInventory(), Policy: &v1alpha1.ServiceTypePolicy{},
		Namespace: builder.Namespace("chat", "team", "chat"),
		Queue:     findQueue,
		Tree:      func(*v1beta1.Queue) *quota.Tree { return quota.Flat },
		PodGroup:  func(string) *v1beta1.PodGroup { return nil },
		User:      "user",
	}

	if change != nil {
		change(&w)
	}
	return w
}

type amounts = map[corev1.ResourceName]string

func newPodSpec(limits amounts) corev1.PodSpec {
	list := corev1.ResourceList{}
	for name, amount := range limits {
		list[name] = resource.MustParse(amount)
	}
	return corev1.PodSpec{SchedulerName: "volcano", Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: list}}}}
}

type annotationMap = map[string]string

const (
	cardName    = v1alpha1.AnnotationCardName
	cardRequest = v1alpha1.AnnotationCardRequest
	queueName   = v1beta1.QueueNameAnnotationKey
	serviceType = v1alpha1.AnnotationServiceType
)

func newTemplate(annotations annotationMap, limits amounts) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: newPodSpec(limits)}
}

// newDeployment returns a Deployment in namespace chat, with annotations and limits in its template.
func newDeployment(annotations annotationMap, limits amounts, changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "d"}, Spec: appsv1.DeploymentSpec{Template: newTemplate(annotations, limits)}}
	for _, change := range changes {
		change(d)
	}
	return d
}

// newPod returns a pod in namespace chat as the API server hands it over, with requests like its limits.
func newPod(annotations annotationMap, limits amounts, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := podOf(newTemplate(annotations, limits))
	pod.Namespace = "chat"
	pod.Name = "p"
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func newVCJob(queue string, annotations annotationMap, tasks ...vcbatch.TaskSpec) *vcbatch.Job {
	for i := range tasks {
		tasks[i].Template.Spec.SchedulerName = ""
	}
	return &vcbatch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "j", Annotations: annotations}, Spec: vcbatch.JobSpec{Queue: queue, Tasks: tasks}}
}

func newTask(replicas int32, annotations annotationMap, limits amounts) vcbatch.TaskSpec {
	return vcbatch.TaskSpec{Replicas: replicas, Template: newTemplate(annotations, limits)}
}

// checkOnlyText checks that there is exactly one text, with each of the wanted parts, which "…" separates. For "" there
// must be none.
func checkOnlyText(t *testing.T, what string, texts []string, want string) {
	check.Must(t, len(texts) == min(1, len(want)), "%s: %q, want …%s…", what, texts, want)
	check.Contains(t, what, strings.Join(texts, ""), strings.Split(want, "…")...)
}

// checkAnswer checks the only refusal and the only warning of a validation, "" for none. Parts are separated by "…".
func checkAnswer(t *testing.T, result Result, wantRefusal, wantWarning string) {
	result = result.Truncated()
	checkOnlyText(t, "refusals", texts(result.Errors), wantRefusal)
	checkOnlyText(t, "warnings", result.Warnings, wantWarning)
}

// workloadFor returns what the webhook knows of an object that is a workload.
func workloadFor(t *testing.T, object runtime.Object) Workload {
	load, isWorkload := WorkloadOf(object)
	check.Must(t, isWorkload, "%T is no workload", object)
	return load
}

// validateNow validates a workload. before is its last version, nil for a new one.
func validateNow(t *testing.T, load Workload, before *Workload, input WorkloadInput) Result {
	return check.Value(ValidateWorkload(t.Context(), load, before, input))(t)
}

// checkNewWorkload validates a new workload and checks the only refusal and the only warning, "" for none.
func checkNewWorkload(t *testing.T, object runtime.Object, input WorkloadInput, wantRefusal, wantWarning string) {
	checkAnswer(t, validateNow(t, workloadFor(t, object), nil, input), wantRefusal, wantWarning)
}

// texts returns errors as users read them.
func texts(errors field.ErrorList) []string {
	var out []string
	for _, err := range errors {
		out = append(out, err.Error())
	}
	return out
}
