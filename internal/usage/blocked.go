package usage

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// Blocked is one workload that waits, and why.
type Blocked struct {
	// Workload is type/namespace/name.
	Workload string
	// Card is the card request, or the resource when the pods name no card, ""
	// for work without cards.
	Card string
	// Count is how many cards wait.
	Count card.Count
	// Reason and Message are the scheduler's.
	Reason, Message string
}

// blockedKey is what makes two blocked pods one entry.
type blockedKey struct{ workload, card, reason string }

type blockedSet map[blockedKey]Blocked

// add joins a pod to its workload's entry. Of different messages the first in
// the alphabet stays, so that the order of pods does not matter.
func (s blockedSet) add(b Blocked) {
	key := blockedKey{b.Workload, b.Card, b.Reason}
	if had, ok := s[key]; ok {
		b.Count = b.Count.Add(had.Count)
		b.Message = min(b.Message, had.Message)
	}
	s[key] = b
}

func (s blockedSet) list() []Blocked {
	out := make([]Blocked, 0, len(s))
	for _, b := range s {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b Blocked) int {
		return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Card, b.Card), cmp.Compare(a.Reason, b.Reason))
	})
	return out[:min(len(out), v1alpha1.MaxBlocked)]
}

// whyPod finds why a waiting pod waits: it can never run as it is written, its
// own condition, or the condition of its PodGroup. It is false for a pod that
// no scheduler has looked at yet.
func whyPod(pod *corev1.Pod, group *v1beta1.PodGroup, refusal *workload.Refusal) (workload.Refusal, bool) {
	if refusal != nil {
		return *refusal, true
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return workload.Refusal{Reason: condition.Reason, Message: condition.Message}, true
		}
	}
	if group != nil {
		return whyGroup(group)
	}
	return workload.Refusal{}, false
}

// whyGroup finds why a PodGroup waits in its newest Unschedulable condition.
func whyGroup(group *v1beta1.PodGroup) (workload.Refusal, bool) {
	for _, condition := range slices.Backward(group.Status.Conditions) {
		if condition.Type == v1beta1.PodGroupUnschedulableType && condition.Status == corev1.ConditionTrue {
			return workload.Refusal{Reason: condition.Reason, Message: condition.Message}, true
		}
	}
	return workload.Refusal{}, false
}

// textOf shows what a pod asks for: its request, else the bare resource.
func textOf(request card.Request, resource corev1.ResourceName) string {
	if request.Any() {
		return string(resource)
	}
	return request.String()
}

// PodTemplateHash is the label by which a Deployment tells its ReplicaSets
// apart; the ReplicaSet's name ends with it.
const PodTemplateHash = "pod-template-hash"

// workloadOf names what a pod belongs to as type/namespace/name, so that
// kubectl get <type> -n <namespace> <name> finds it: its controller, a
// Deployment instead of its ReplicaSet, or the pod itself.
func workloadOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return "pod/" + pod.Namespace + "/" + pod.Name
	}
	if hash := pod.Labels[PodTemplateHash]; owner.Kind == "ReplicaSet" && hash != "" {
		if deployment, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			return "deployment/" + pod.Namespace + "/" + deployment
		}
	}
	return typeOf(owner) + "/" + pod.Namespace + "/" + owner.Name
}

func workloadOfGroup(group *v1beta1.PodGroup) string {
	if owner := metav1.GetControllerOfNoCopy(group); owner != nil {
		return typeOf(owner) + "/" + group.Namespace + "/" + owner.Name
	}
	return "podgroup/" + group.Namespace + "/" + group.Name
}

// typeOf is the resource type as kubectl takes it. Volcano's Job has the kind
// of Kubernetes' own Job and is called by its short name.
func typeOf(owner *metav1.OwnerReference) string {
	if owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch.volcano.sh/") {
		return "vcjob"
	}
	return strings.ToLower(owner.Kind)
}
