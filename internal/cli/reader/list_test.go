package reader_test

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/enforcement"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/kubectl"
	"cardquota.dev/operator/internal/workload"
)

// wholePod is a pod as an API server returns it. What no command reads has the value "unread".
func wholePod() *corev1.Pod {
	pod := builder.Pod("lab", "train-0").Queue("research").Card("NVIDIA-H200").GPUs(2).CPU("4").Sidecar(builder.GPU, "1").Running("h200-0").Obj()
	for subresource, fields := range map[string]string{"": `{"f:spec":{"f:containers":{}}}`, "status": `{"f:status":{"f:phase":{}}}`} {
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: "unread", Subresource: subresource, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
		})
	}

	pod.Annotations[corev1.LastAppliedConfigAnnotation] = "unread"
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/unread", Port: intstr.FromInt32(80)}}}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			c.Image = "image"
			c.Command = []string{"unread"}
			c.Args = []string{"unread"}
			c.WorkingDir = "/unread"
			c.Env = []corev1.EnvVar{{Name: "A", Value: "unread"}}
			c.EnvFrom = []corev1.EnvFromSource{{Prefix: "unread"}}
			c.Ports = []corev1.ContainerPort{{HostPort: 8080, ContainerPort: 80}}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/unread"}}
			c.VolumeDevices = []corev1.VolumeDevice{{Name: "unread"}}

			c.LivenessProbe = probe
			c.ReadinessProbe = probe
			c.StartupProbe = probe
		}
	}

	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{TargetContainerName: "unread"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "unread", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "unread", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}},
		{Name: "unread", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "unread", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}},
		{Name: "unread", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		{Name: "unread", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}},
		{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
		{Name: "disk", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "disk"}}},
	}

	resized := &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9"), builder.GPU: resource.MustParse("2")}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, ImageID: "unread", ContainerID: "unread", Resources: resized, AllocatedResources: resized.Requests}, {Name: "unread"}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "unread", Image: "unread"}}
	pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "unread"}}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "unread"}}
	pod.Status.HostIPs = []corev1.HostIP{{IP: "unread"}}
	pod.Status.NominatedNodeName = "h200-0"
	return pod
}

// TestListsDropWhatIsNotRead: a cluster has many pods, and most of a pod matters to no command. So a list keeps only
// a part of each pod. In wholePod, values that no command reads are "unread", and the list keeps none of them. What
// the commands compute is the same from the whole pod and from the kept part.
func TestListsDropWhatIsNotRead(t *testing.T) {
	whole := wholePod()
	r := reader.New(kubectl.NewCluster(t, []client.Object{whole.DeepCopy()}, kubectl.MayReadAll))
	var pods []*corev1.Pod
	reader.ListInto(t.Context(), r, &corev1.PodList{}, &pods)
	check.NoError(t, r.Err())

	kept := pods[0]
	check.Text(t, "pod of the list", string(check.Value(json.Marshal(kept))(t))).Lacks("unread")

	nodes := []*corev1.Node{builder.Node("h200-0").GPUs("NVIDIA-H200", 8).Obj()}
	resolver := workload.Resolver{Inventory: reader.Workloads{Nodes: nodes}.Tracker().Inventory()}
	describe := func(pod *corev1.Pod) []string {
		var facts []string
		for _, fact := range []any{
			resolver.Request(pod), resolver.Usage(pod, nil, nil), workload.ReferenceFor(pod), workload.HostPorts(&pod.Spec),
			enforcement.ProvenanceOf(pod), requestedBy(pod), pod.Status.NominatedNodeName, pod.Spec.Containers[0].Image,
		} {
			facts = append(facts, fmt.Sprintf("%+v", fact))
		}

		for _, v := range pod.Spec.Volumes {
			if v.Name != "unread" {
				facts = append(facts, v.Name)
			}
		}

		return facts
	}
	check.Equal(t, "what is made of the pod", describe(whole), describe(kept))
}

// requestedBy returns what a pod requests now, as texts.
func requestedBy(pod *corev1.Pod) map[corev1.ResourceName]string {
	texts := map[corev1.ResourceName]string{}
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true}) {
		texts[name] = quantity.String()
	}
	return texts
}
