package builder

import (
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// QueueBuilder builds a Queue.
type QueueBuilder struct {
	object[*QueueBuilder, *v1beta1.Queue]
}

// Queue is an open Queue of weight 1 without a quota.
func Queue(name string) *QueueBuilder {
	b := &QueueBuilder{}
	b.object = newObject("Queue", "", name, b, &v1beta1.Queue{
		Spec: v1beta1.QueueSpec{Weight: 1}, Status: v1beta1.QueueStatus{State: v1beta1.QueueStateOpen},
	})
	return b
}

// Quota sets the quota of cards: `{"NVIDIA-H200":8}`.
func (b *QueueBuilder) Quota(text string) *QueueBuilder {
	return b.annotateUnlessEmpty(v1alpha1.AnnotationCardQuota, text)
}

// ServiceType sets the queue's service type.
func (b *QueueBuilder) ServiceType(name string) *QueueBuilder {
	return b.annotateUnlessEmpty(v1alpha1.AnnotationServiceType, name)
}

// Capability limits CPU and memory.
func (b *QueueBuilder) Capability(cpu, memory string) *QueueBuilder {
	b.obj.Spec.Capability = Resources(cpu, memory)
	return b
}

// Parent sets the Queue above.
func (b *QueueBuilder) Parent(name string) *QueueBuilder { b.obj.Spec.Parent = name; return b }

// Priority sets the priority among the queues.
func (b *QueueBuilder) Priority(value int32) *QueueBuilder { b.obj.Spec.Priority = value; return b }

// State sets the state, "" before Volcano has set one.
func (b *QueueBuilder) State(state v1beta1.QueueState) *QueueBuilder {
	b.obj.Status.State = state
	return b
}

// PodGroupBuilder builds a PodGroup.
type PodGroupBuilder struct {
	object[*PodGroupBuilder, *v1beta1.PodGroup]
}

// PodGroup is a pending PodGroup of one member.
func PodGroup(namespace, name string) *PodGroupBuilder {
	b := &PodGroupBuilder{}
	b.object = newObject("PodGroup", namespace, name, b, &v1beta1.PodGroup{
		Spec: v1beta1.PodGroupSpec{MinMember: 1}, Status: v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupPending},
	})
	return b
}

// Queue sets the queue.
func (b *PodGroupBuilder) Queue(name string) *PodGroupBuilder { b.obj.Spec.Queue = name; return b }

// Request sets the cards that the group requests in total: `{"NVIDIA-H200":8}`.
func (b *PodGroupBuilder) Request(text string) *PodGroupBuilder {
	return b.annotateUnlessEmpty(v1alpha1.AnnotationCardRequest, text)
}

// MinMember sets how many pods run together or not at all.
func (b *PodGroupBuilder) MinMember(n int32) *PodGroupBuilder { b.obj.Spec.MinMember = n; return b }

// MinResource sets the minimum of a resource for the group.
func (b *PodGroupBuilder) MinResource(name corev1.ResourceName, quantity string) *PodGroupBuilder {
	if b.obj.Spec.MinResources == nil {
		b.obj.Spec.MinResources = &corev1.ResourceList{}
	}
	addQuantity(*b.obj.Spec.MinResources, name, quantity)
	return b
}

// Phase sets the phase.
func (b *PodGroupBuilder) Phase(phase v1beta1.PodGroupPhase) *PodGroupBuilder {
	b.obj.Status.Phase = phase
	return b
}

// Unschedulable sets the reason why the scheduler does not place the group.
func (b *PodGroupBuilder) Unschedulable(message string) *PodGroupBuilder {
	b.obj.Status.Conditions = append(b.obj.Status.Conditions, v1beta1.PodGroupCondition{
		Type: v1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: v1beta1.NotEnoughResourcesReason, Message: message,
	})
	return b
}
