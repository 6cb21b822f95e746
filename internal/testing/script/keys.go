package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/words"
)

var podKeys = words.Keys[*corev1.Pod]{
	"cards":       quantity[*corev1.Pod](builder.GPU),
	"cpu":         quantity[*corev1.Pod](corev1.ResourceCPU),
	"memory":      quantity[*corev1.Pod](corev1.ResourceMemory),
	"card":        annotation[*corev1.Pod](v1alpha1.AnnotationCardName),
	"queue":       annotation[*corev1.Pod](v1beta1.QueueNameAnnotationKey),
	"group":       annotation[*corev1.Pod](v1beta1.KubeGroupNameAnnotationKey),
	"serviceType": annotation[*corev1.Pod](v1alpha1.AnnotationServiceType),
	"charged":     annotation[*corev1.Pod](v1alpha1.AnnotationChargedQueue),

	"node":             words.Text(func(p *corev1.Pod, name string) { p.Spec.NodeName = name }),
	"nominatedNode":    words.Text(func(p *corev1.Pod, name string) { p.Status.NominatedNodeName = name }),
	"scheduler":        words.Text(func(p *corev1.Pod, name string) { p.Spec.SchedulerName = name }),
	"priorityClass":    words.Text(func(p *corev1.Pod, name string) { p.Spec.PriorityClassName = name }),
	"priority":         words.Int(func(p *corev1.Pod, priority int) { p.Spec.Priority = ptr.To(int32(priority)) }),
	"preemptionPolicy": words.Text(func(p *corev1.Pod, policy string) { p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptionPolicy(policy)) }),
	"gracePeriod": words.Duration(func(p *corev1.Pod, d time.Duration) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(d / time.Second))
	}),
	"gated": words.OneOf(setGated, "true", "false"),
	"phase": words.Text(func(p *corev1.Pod, phase string) { p.Status.Phase = corev1.PodPhase(phase) }),
	"nodeSelector": words.Text(func(p *corev1.Pod, selector string) {
		key, wanted, _ := strings.Cut(selector, "=")
		p.Spec.NodeSelector = map[string]string{key: wanted}
	}),
	"owner": words.Text(func(p *corev1.Pod, kind string) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: ptr.To(true)}}
	}),
	// created and scheduled are seconds after Began.
	"created": second(func(p *corev1.Pod, at metav1.Time) { p.CreationTimestamp = at }),
	"scheduled": second(func(p *corev1.Pod, at metav1.Time) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at}}
	}),
	"unschedulable": words.Text(setUnschedulable),
	"evictedBy":     words.Text(setEvicted),
}

var nodeKeys = words.Keys[*corev1.Node]{
	"cards":  quantity[*corev1.Node](builder.GPU),
	"cpu":    quantity[*corev1.Node](corev1.ResourceCPU),
	"memory": quantity[*corev1.Node](corev1.ResourceMemory),
	"pods":   quantity[*corev1.Node](corev1.ResourcePods),
	"model": words.Text(func(n *corev1.Node, model string) {
		n.Labels = withEntry(withEntry(n.Labels, "nvidia.com/gpu.product", model), "nvidia.com/gpu.memory", strings.Repeat("1024", min(1, len(model))))
	}),
	"ready": words.Text(func(n *corev1.Node, status string) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionStatus(status)}}
	}),
	"cordoned": words.OneOf(func(n *corev1.Node, _ string) { n.Spec.Unschedulable = true }, "true"),
	"tainted": words.OneOf(func(n *corev1.Node, _ string) {
		n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	}, "true"),
}

var queueKeys = words.Keys[*v1beta1.Queue]{
	"cards":             quantity[*v1beta1.Queue](builder.GPU),
	"cpu":               quantity[*v1beta1.Queue](corev1.ResourceCPU),
	"memory":            quantity[*v1beta1.Queue](corev1.ResourceMemory),
	"quota":             annotation[*v1beta1.Queue](v1alpha1.AnnotationCardQuota),
	"deserved":          annotation[*v1beta1.Queue](v1alpha1.AnnotationCardDeserved),
	"guarantee":         annotation[*v1beta1.Queue](v1alpha1.AnnotationCardGuarantee),
	"allocated":         annotation[*v1beta1.Queue](v1alpha1.AnnotationCardAllocated),
	"serviceType":       annotation[*v1beta1.Queue](v1alpha1.AnnotationServiceType),
	"namespaceSelector": annotation[*v1beta1.Queue](v1alpha1.AnnotationNamespaceSelector),
	"stopPolicy":        annotation[*v1beta1.Queue](v1alpha1.AnnotationStopPolicy),
	"parentOnly":        annotation[*v1beta1.Queue](v1alpha1.AnnotationParentOnly),

	"priority":    words.Int(func(q *v1beta1.Queue, priority int) { q.Spec.Priority = int32(priority) }),
	"reclaimable": words.OneOf(func(q *v1beta1.Queue, value string) { q.Spec.Reclaimable = ptr.To(value == "true") }, "true", "false"),
	"parent":      words.Text(func(q *v1beta1.Queue, name string) { q.Spec.Parent = name }),
	"state":       words.Text(func(q *v1beta1.Queue, state string) { q.Status.State = v1beta1.QueueState(state) }),
	"deservedCPU": func(q *v1beta1.Queue, value string) error {
		return setQuantity(&q.Spec.Deserved, corev1.ResourceCPU, value)
	},
	"guaranteedCPU": func(q *v1beta1.Queue, value string) error {
		return setQuantity(&q.Spec.Guarantee.Resource, corev1.ResourceCPU, value)
	},
}

var groupKeys = words.Keys[*v1beta1.PodGroup]{
	"cards":         quantity[*v1beta1.PodGroup](builder.GPU),
	"cpu":           quantity[*v1beta1.PodGroup](corev1.ResourceCPU),
	"memory":        quantity[*v1beta1.PodGroup](corev1.ResourceMemory),
	"request":       annotation[*v1beta1.PodGroup](v1alpha1.AnnotationCardRequest),
	"serviceType":   annotation[*v1beta1.PodGroup](v1alpha1.AnnotationServiceType),
	"queue":         words.Text(func(g *v1beta1.PodGroup, name string) { g.Spec.Queue = name }),
	"min":           words.Int(func(g *v1beta1.PodGroup, pods int) { g.Spec.MinMember = int32(pods) }),
	"task":          addTask,
	"priorityClass": words.Text(func(g *v1beta1.PodGroup, name string) { g.Spec.PriorityClassName = name }),
	"phase":         words.Text(func(g *v1beta1.PodGroup, phase string) { g.Status.Phase = v1beta1.PodGroupPhase(phase) }),
	"unschedulable": words.Text(func(g *v1beta1.PodGroup, message string) {
		g.Status.Conditions = []v1beta1.PodGroupCondition{{Type: v1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Message: message}}
	}),
}

var classKeys = words.Keys[*schedulingv1.PriorityClass]{
	"value": words.Int(func(c *schedulingv1.PriorityClass, value int) { c.Value = int32(value) }),
}

var namespaceKeys = words.Keys[*corev1.Namespace]{
	"team": words.Text(func(n *corev1.Namespace, name string) { n.Labels = withEntry(n.Labels, "team", name) }),
}

func annotation[Object client.Object](key string) func(Object, string) error {
	return words.Text(func(object Object, value string) {
		if key != v1alpha1.AnnotationCheckpointTime {
			value = quotaJSON(value)
		}
		object.SetAnnotations(withEntry(object.GetAnnotations(), key, value))
	})
}

func quantity[Object client.Object](name corev1.ResourceName) func(Object, string) error {
	return func(object Object, value string) error { return setQuantity(resourcesOf(object), name, value) }
}

// second returns a setter of a time, which is written as seconds after Began.
func second[Object client.Object](set func(object Object, at metav1.Time)) func(Object, string) error {
	return words.Int(func(object Object, seconds int) {
		set(object, metav1.NewTime(Began.Add(time.Duration(seconds)*time.Second)))
	})
}

// addTask adds a task and its minimum, "NAME,min:N".
func addTask(g *v1beta1.PodGroup, value string) error {
	parts := words.Parts(value)
	if len(parts) != 2 || parts[0].Key != "" || parts[1].Key != "min" {
		return fmt.Errorf("write NAME,min:N")
	}

	pods, err := strconv.Atoi(parts[1].Value)
	if g.Spec.MinTaskMember == nil {
		g.Spec.MinTaskMember = map[string]int32{}
	}
	g.Spec.MinTaskMember[parts[0].Value] = int32(pods)
	return err
}

func setGated(p *corev1.Pod, value string) {
	p.Spec.SchedulingGates = nil
	if value == "true" {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	}
}

func setUnschedulable(p *corev1.Pod, message string) {
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message},
	}
}

// setEvicted marks a pod as Volcano does for an action.
func setEvicted(p *corev1.Pod, action string) {
	const preempted = "volcano: preempting to accommodate a higher priority pod"

	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: preempted},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Evict", Message: "Pod is evicted, because of " + action},
	}
}
