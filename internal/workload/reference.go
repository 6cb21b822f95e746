package workload

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
)

// PodTemplateHash is the label by which a Deployment distinguishes its ReplicaSets. The
// name of a ReplicaSet ends with its value.
const PodTemplateHash = "pod-template-hash"

// ReferenceFor returns the controller of a pod, the Deployment instead of its ReplicaSet, or
// the pod itself.
func ReferenceFor(pod *corev1.Pod) v1alpha1.WorkloadReference {
	out := ControllerReference(pod, "", "Pod")
	if hash := pod.Labels[PodTemplateHash]; out.Kind == "ReplicaSet" && hash != "" {
		if deployment, ok := strings.CutSuffix(out.Name, "-"+hash); ok {
			out.Kind = "Deployment"
			out.Name = deployment
		}
	}
	return out
}

// ControllerReference returns the controller of an object, or the object itself, which is of
// the given group and kind.
func ControllerReference(object metav1.Object, group, kind string) v1alpha1.WorkloadReference {
	out := v1alpha1.WorkloadReference{APIGroup: group, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		out.Kind = owner.Kind
		out.Name = owner.Name
		out.APIGroup = ""
		if strings.Contains(owner.APIVersion, "/") { // the core group has none
			out.APIGroup, _, _ = strings.Cut(owner.APIVersion, "/")
		}
	}
	return out
}
