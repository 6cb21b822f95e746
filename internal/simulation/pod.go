package simulation

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/workload"
)

// completePod sets in a new pod what the API server sets: a UID, requests, and the priority of its class. It
// notes the name as taken. It returns an error for a pod that the API server would refuse, or that no
// scheduler places.
func (m *workloadMaker) completePod(pod *corev1.Pod) error {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if m.taken[name] {
		return fmt.Errorf("a pod %s exists already; whatif shows what a new one would do: use another name", name)
	}
	if pod.Spec.NodeName != "" {
		return fmt.Errorf("its pods name node %s, so no scheduler places them: leave out nodeName", pod.Spec.NodeName)
	}

	m.taken[name] = true
	pod.UID = types.UID("whatif-pod-" + pod.Namespace + "-" + pod.Name)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}

	workload.DefaultRequests(pod)
	class := m.classOf(pod.Spec.PriorityClassName)
	if class == nil && pod.Spec.PriorityClassName != "" {
		return fmt.Errorf("there is no PriorityClass %s, so the API server would refuse its pods", pod.Spec.PriorityClassName)
	}

	if class != nil {
		pod.Spec.Priority = ptr.To(class.Value)
		pod.Spec.PriorityClassName = class.Name
		pod.Spec.PreemptionPolicy = cmp.Or(pod.Spec.PreemptionPolicy, class.PreemptionPolicy)
	}

	return nil
}

// systemClasses are the PriorityClasses that every API server has.
var systemClasses = map[string]int32{workload.SystemClusterCritical: 2000000000, workload.SystemNodeCritical: 2000001000}

// classOf returns the PriorityClass of a name, for "" the default one of the cluster, nil if there is none.
func (m *workloadMaker) classOf(name string) *schedulingv1.PriorityClass {
	for _, class := range m.cluster.PriorityClasses {
		if (name != "" && class.Name == name) || (name == "" && class.GlobalDefault) {
			return class
		}
	}
	if value, known := systemClasses[name]; known {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	}
	return nil
}

// priorityOf returns the priority of a PriorityClass. For "" it is 0, also if there is a default class, as in Volcano's job
// controller.
func (m *workloadMaker) priorityOf(name string) int32 {
	if class := m.classOf(name); class != nil && name != "" {
		return class.Value
	}
	return 0
}

// timesRequests returns what so many pods like one request together, nothing for a negative count.
func timesRequests(pod *corev1.Pod, count int32) corev1.ResourceList {
	sum := corev1.ResourceList{}
	if count <= 0 {
		return sum
	}
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		quantity.Mul(int64(count))
		sum[name] = quantity
	}
	return sum
}

// addTo adds quantities to a sum.
func addTo(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
}
