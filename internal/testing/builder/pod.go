package builder

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// PodBuilder builds a pod.
type PodBuilder struct {
	object[*PodBuilder, *corev1.Pod]
}

// Pod returns a pending pod for Volcano with one container that requests nothing.
func Pod(namespace, name string) *PodBuilder {
	b := &PodBuilder{}
	b.object = newObject("Pod", namespace, name, b, &corev1.Pod{
		Spec:   corev1.PodSpec{SchedulerName: "volcano", Containers: []corev1.Container{{Name: "main", Image: "registry.example/main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	})
	return b
}

// Queue sets the queue in the pod's own annotation.
func (b *PodBuilder) Queue(name string) *PodBuilder {
	return b.annotateUnlessEmpty(v1beta1.QueueNameAnnotationKey, name)
}

// ChargedQueue sets the record of the binding.
func (b *PodBuilder) ChargedQueue(name string) *PodBuilder {
	return b.annotateUnlessEmpty(v1alpha1.AnnotationChargedQueue, name)
}

// PodGroup puts the pod into a PodGroup.
func (b *PodBuilder) PodGroup(name string) *PodBuilder {
	return b.annotateUnlessEmpty(v1beta1.KubeGroupNameAnnotationKey, name)
}

// Card sets the requested card, or alternatives: "NVIDIA-H200|NVIDIA-H800".
func (b *PodBuilder) Card(name string) *PodBuilder {
	return b.annotateUnlessEmpty(v1alpha1.AnnotationCardName, name)
}

// ServiceType sets the pod's own service type.
func (b *PodBuilder) ServiceType(name string) *PodBuilder {
	return b.annotateUnlessEmpty(v1alpha1.AnnotationServiceType, name)
}

// GPUs requests whole NVIDIA cards.
func (b *PodBuilder) GPUs(count int) *PodBuilder { return b.Requests(GPU, strconv.Itoa(count)) }

// CPU requests CPU.
func (b *PodBuilder) CPU(quantity string) *PodBuilder {
	return b.Requests(corev1.ResourceCPU, quantity)
}

// Memory requests memory.
func (b *PodBuilder) Memory(quantity string) *PodBuilder {
	return b.Requests(corev1.ResourceMemory, quantity)
}

// Requests sets the request and the limit of the first container for a resource.
func (b *PodBuilder) Requests(name corev1.ResourceName, quantity string) *PodBuilder {
	setRequestAndLimit(&b.obj.Spec.Containers[0], name, quantity)
	return b
}

// Container adds a container that requests a resource.
func (b *PodBuilder) Container(name corev1.ResourceName, quantity string) *PodBuilder {
	b.obj.Spec.Containers = append(b.obj.Spec.Containers, newContainer("more", len(b.obj.Spec.Containers), name, quantity))
	return b
}

// InitContainer adds an init container that requests a resource.
func (b *PodBuilder) InitContainer(name corev1.ResourceName, quantity string) *PodBuilder {
	b.obj.Spec.InitContainers = append(b.obj.Spec.InitContainers, newContainer("init", len(b.obj.Spec.InitContainers), name, quantity))
	return b
}

// Sidecar adds an init container that keeps running beside the others.
func (b *PodBuilder) Sidecar(name corev1.ResourceName, quantity string) *PodBuilder {
	b.InitContainer(name, quantity)
	b.obj.Spec.InitContainers[len(b.obj.Spec.InitContainers)-1].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return b
}

// Gated adds a scheduling gate.
func (b *PodBuilder) Gated() *PodBuilder {
	b.obj.Spec.SchedulingGates = append(b.obj.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "wait"})
	return b
}

func newContainer(kind string, i int, name corev1.ResourceName, quantity string) corev1.Container {
	c := corev1.Container{Name: fmt.Sprintf("%s-%d", kind, i), Image: "registry.example/" + kind}
	setRequestAndLimit(&c, name, quantity)
	return c
}

func setRequestAndLimit(c *corev1.Container, name corev1.ResourceName, quantity string) {
	c.Resources.Requests = addQuantity(c.Resources.Requests, name, quantity)
	c.Resources.Limits = addQuantity(c.Resources.Limits, name, quantity)
}

// Node binds the pod to a node; it stays pending.
func (b *PodBuilder) Node(name string) *PodBuilder { b.obj.Spec.NodeName = name; return b }

// Running binds the pod to a node and lets it run there.
func (b *PodBuilder) Running(node string) *PodBuilder { return b.Node(node).Phase(corev1.PodRunning) }

// Phase sets the phase.
func (b *PodBuilder) Phase(phase corev1.PodPhase) *PodBuilder { b.obj.Status.Phase = phase; return b }

// Condition adds a condition.
func (b *PodBuilder) Condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) *PodBuilder {
	b.obj.Status.Conditions = append(b.obj.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	return b
}

// Unschedulable sets the reason why the scheduler does not place the pod.
func (b *PodBuilder) Unschedulable(message string) *PodBuilder {
	return b.Condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, message)
}

// Scheduler sets another scheduler than Volcano, or none with "".
func (b *PodBuilder) Scheduler(name string) *PodBuilder { b.obj.Spec.SchedulerName = name; return b }

// Priority sets the value of the pod's priority.
func (b *PodBuilder) Priority(value int32) *PodBuilder { b.obj.Spec.Priority = &value; return b }

// PriorityClass sets the pod's PriorityClass.
func (b *PodBuilder) PriorityClass(name string) *PodBuilder {
	b.obj.Spec.PriorityClassName = name
	return b
}

// GracePeriod sets the termination grace period in seconds.
func (b *PodBuilder) GracePeriod(seconds int64) *PodBuilder {
	b.obj.Spec.TerminationGracePeriodSeconds = &seconds
	return b
}

// Copies returns n pods that differ by the number at the end of their names.
func (b *PodBuilder) Copies(n int) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		p := b.Obj()
		p.Name = fmt.Sprintf("%s-%d", p.Name, i)
		p.UID = uidFor("Pod", p.Namespace, p.Name)
		pods[i] = p
	}
	return pods
}

// Template returns the pod as the template of a workload.
func (b *PodBuilder) Template() corev1.PodTemplateSpec {
	p := b.Obj()
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations}, Spec: p.Spec}
}
