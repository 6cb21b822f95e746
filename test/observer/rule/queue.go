package rule

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

// rootQueue is Volcano's root queue.
const rootQueue = "root"

// Unlimited stands for no limit.
const Unlimited int64 = math.MaxInt64

// Values of the argument unmanagedQueues.
const (
	UnmanagedEnforce = "Enforce"
	UnmanagedIgnore  = "Ignore"
	UnmanagedDeny    = "Deny"
)

// Limits are what a queue may use.
type Limits struct {
	// AnyCard reports whether cards are not limited.
	AnyCard          bool
	Cards            Quota
	MilliCPU, Memory int64
	// Closed is why the queue takes no work at all, "" when it does.
	Closed string
}

// String returns a text that differs between different limits.
func (l Limits) String() string {
	return fmt.Sprintf("any card %t, %s, cpu %dm, memory %d, closed %q", l.AnyCard, l.Cards, l.MilliCPU, l.Memory, l.Closed)
}

// LimitsOf returns the limits of a Queue. unmanaged is the argument unmanagedQueues.
//
// A queue with card.quota is limited by it and by spec.capability, where unset is 0, unless
// unlimited.resources names it. An entry of that which is neither cpu nor memory closes the queue. Any other
// queue keeps Volcano's meaning of spec.capability, where unset and 0 are unlimited; while
// unmanaged queues are denied, unset is 0 there too. The root queue is never limited in CPU and
// memory, but takes no work while unmanaged queues are denied.
func LimitsOf(queue *v1beta1.Queue, unmanaged string) Limits {
	text, managed := queue.Annotations[v1alpha1.AnnotationCardQuota]
	limits := Limits{Closed: whyClosed(queue), MilliCPU: capabilityOf(queue, corev1.ResourceCPU), Memory: capabilityOf(queue, corev1.ResourceMemory)}
	if queue.Name == rootQueue || !managed {
		limits.AnyCard = unmanaged == UnmanagedIgnore
		if unmanaged == UnmanagedDeny {
			if queue.Name == rootQueue {
				limits.MilliCPU = 0
				limits.Memory = 0
			}
			return limits
		}

		for _, limit := range []*int64{&limits.MilliCPU, &limits.Memory} {
			if *limit == 0 || queue.Name == rootQueue {
				*limit = Unlimited
			}
		}

		return limits
	}

	cards, err := ParseQuota(text)
	if err != nil {
		return Limits{Closed: "its quota cannot be read: " + err.Error()}
	}

	unlimited, err := unlimitedOf(queue)
	if err != nil {
		return Limits{Closed: "unlimited.resources cannot be read: " + err.Error()}
	}

	limits.Cards = cards
	if unlimited[corev1.ResourceCPU] {
		limits.MilliCPU = Unlimited
	}
	if unlimited[corev1.ResourceMemory] {
		limits.Memory = Unlimited
	}

	return limits
}

// unlimitedOf returns which of CPU and memory a Queue with card.quota does not limit: those that unlimited.resources
// names and spec.capability does not.
func unlimitedOf(queue *v1beta1.Queue) (map[corev1.ResourceName]bool, error) {
	text, ok := queue.Annotations[v1alpha1.AnnotationUnlimitedResources]
	if !ok {
		return nil, nil
	}

	unlimited := map[corev1.ResourceName]bool{}
	for _, part := range strings.Split(text, ",") {
		switch name := corev1.ResourceName(strings.TrimSpace(part)); name {
		case corev1.ResourceCPU, corev1.ResourceMemory:
			_, isLimited := queue.Spec.Capability[name]
			unlimited[name] = !isLimited
		default:
			return nil, fmt.Errorf("unknown resource %q", name)
		}
	}

	return unlimited, nil
}

// whyClosed returns why a queue takes no work, or "".
func whyClosed(queue *v1beta1.Queue) string {
	switch {
	case SelectorOf(queue).none:
		return "its namespace selector cannot be read"
	case queue.DeletionTimestamp != nil:
		return "it is being deleted"
	case queue.Name != rootQueue && queue.Status.State != v1beta1.QueueStateOpen:
		return fmt.Sprintf("its state is %q", queue.Status.State)
	}
	return ""
}

// capabilityOf returns the CPU of a Queue in milli, or its memory in bytes. A value beyond any
// cluster is unlimited.
func capabilityOf(queue *v1beta1.Queue, name corev1.ResourceName) int64 {
	quantity := queue.Spec.Capability[name]
	scale := resource.Scale(0)
	if name == corev1.ResourceCPU {
		scale = resource.Milli
	}

	if quantity.Sign() <= 0 { // ScaledValue turns a long negative number into any number
		return 0
	}
	if quantity.Cmp(*resource.NewScaledQuantity(math.MaxInt64/1000, 0)) >= 0 {
		return Unlimited
	}

	return quantity.ScaledValue(scale)
}

// Selector selects the namespaces that may use a queue.
type Selector struct {
	all, none bool
	selector  labels.Selector
}

// SelectorOf returns the namespace selector of a Queue.
func SelectorOf(queue *v1beta1.Queue) Selector {
	text, ok := queue.Annotations[v1alpha1.AnnotationNamespaceSelector]
	if !ok {
		return Selector{all: true}
	}
	by, err := ParseSelector(text)
	if err != nil {
		return Selector{none: true} // one that cannot be read selects no namespace
	}
	return Selector{selector: by}
}

// Selects reports whether a namespace with these labels may use the queue.
func (s Selector) Selects(namespace map[string]string) bool {
	return s.all || (!s.none && s.selector.Matches(labels.Set(namespace)))
}

// String returns a text that differs between different selectors.
func (s Selector) String() string {
	return fmt.Sprint(s.all, s.none, s.selector)
}

// ServiceType returns the service type of the queue, else of the pod, else of its PodGroup,
// else of its owner's kind.
func ServiceType(queue, pod, group map[string]string, owner string) string {
	for _, annotations := range []map[string]string{queue, pod, group} {
		if text := annotations[v1alpha1.AnnotationServiceType]; text != "" {
			return text
		}
	}
	return owner
}

// OwnerServiceType returns the service type of the pod's controller by the argument
// podOwnerReferenceToServiceType. Kind.group has precedence over the kind alone, and for a
// Deployment's pod the Deployment over its ReplicaSet.
func OwnerServiceType(pod *corev1.Pod, kinds map[string]string) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ""
	}

	group, _, grouped := strings.Cut(owner.APIVersion, "/")
	if !grouped {
		group = "" // the core group
	}

	of := func(kind string) string { return cmp.Or(kinds[kind+"."+group], kinds[kind]) }
	if _, template := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; template && owner.Kind == "ReplicaSet" && group == appsv1.GroupName {
		return cmp.Or(of("Deployment"), of("ReplicaSet"))
	}

	return of(owner.Kind)
}

// IsPreemptable evaluates volcano.sh/preemptable as Volcano does: the annotation, then the
// label; true when there is none, false when the value is no boolean.
func IsPreemptable(annotations, labels map[string]string) bool {
	for _, from := range []map[string]string{annotations, labels} {
		if text, ok := from[v1beta1.PodPreemptable]; ok {
			yes, err := strconv.ParseBool(text)
			return err == nil && yes
		}
	}
	return true
}

// IsEvictable reports whether a pod may be evicted for another one: it is not critical to the
// system, and it and its PodGroup allow it.
func IsEvictable(pod *corev1.Pod, group map[string]string) bool {
	return !IsCritical(pod) && IsPreemptable(pod.Annotations, pod.Labels) && IsPreemptable(group, nil)
}

// IsCritical reports whether a pod belongs to the system and is never evicted.
func IsCritical(pod *corev1.Pod) bool {
	return pod.Namespace == metav1.NamespaceSystem ||
		pod.Spec.PriorityClassName == "system-cluster-critical" || pod.Spec.PriorityClassName == "system-node-critical"
}

// ServiceTypeDefaults are the defaults of a service type for its queues.
type ServiceTypeDefaults struct {
	Priority    int32
	Reclaimable bool
}

// BuiltIn are the service types of an empty ServiceTypePolicy.
var BuiltIn = map[string]ServiceTypeDefaults{
	"inference": {Priority: 80000},
	"training":  {Priority: 20000, Reclaimable: true},
}

// DefaultReclaimFrom returns from which service types each type reclaims under an
// empty ServiceTypePolicy.
func DefaultReclaimFrom() map[string][]string { return map[string][]string{"inference": {"training"}} }
