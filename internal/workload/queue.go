package workload

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// Unmanaged says what a queue without card.quota may use.
type Unmanaged string

// The choices of the plugin argument unmanagedQueues.
const (
	// Enforce gives such a queue no cards.
	Enforce Unmanaged = "Enforce"
	// Ignore leaves such a queue unlimited in cards, for migration.
	Ignore Unmanaged = "Ignore"
	// Deny gives such a queue no cards, and of CPU and memory only what its
	// spec.capability states.
	Deny Unmanaged = "Deny"
)

// RootQueue is Volcano's root of all queues. Its numbers belong to the scheduler
// and limit no queue.
const RootQueue = "root"

// QueueRules are what a Queue object says about its use.
type QueueRules struct {
	// Managed tells that the queue carries card.quota.
	Managed bool
	// Denied tells that the queue is limited because it carries no card.quota.
	Denied bool
	// Limits are in force. They allow nothing when Err is set.
	Limits quota.Limits
	// Namespaces selects the namespaces whose pods may use the queue; nil is every
	// namespace.
	Namespaces labels.Selector
	// Refusal says why the queue takes no new pods at all, nil when it does.
	Refusal *Refusal

	// selector is what Namespaces was read from, unreadable what is wrong with it.
	selector   string
	isChosen   bool
	unreadable *Refusal
}

// RulesOf reads the limits of a Queue. last are those of an earlier state of it, nil when
// there is none: to read a selector of namespaces anew costs more than the rest.
//
// A queue with card.quota is limited by it and by spec.capability, where CPU
// or memory that is not set is 0. Any other queue keeps Volcano's meaning of
// capability (not set or 0 is unlimited) and has no cards, or any with
// unmanaged Ignore. With unmanaged Deny capability means the same in every queue,
// and such a queue has no cards. root is a queue without card.quota and without
// capability: Volcano lets any pod name it, and that must not be a way around the
// quotas. What queues below root may use does not depend on it. A quota or a
// selector of namespaces that cannot be read withholds everything from that
// queue, and from no other. Any queue may choose its namespaces, with a quota or
// without.
func RulesOf(queue *v1beta1.Queue, unmanaged Unmanaged, last *QueueRules) QueueRules {
	text, managed := queue.Annotations[v1alpha1.AnnotationCardQuota]
	rules := QueueRules{Managed: managed, Refusal: closed(queue)}
	rules.selector, rules.isChosen = queue.Annotations[v1alpha1.AnnotationNamespaceSelector]
	if last != nil && last.selector == rules.selector && last.isChosen == rules.isChosen {
		rules.Namespaces, rules.unreadable = last.Namespaces, last.unreadable
	} else {
		rules.Namespaces, rules.unreadable = NamespaceSelectorOf(queue)
	}
	if rules.unreadable != nil {
		rules.Refusal = rules.unreadable
	}
	managed = managed && queue.Name != RootQueue
	rules.Denied = !managed && unmanaged == Deny
	milliCPU, memory := statedLimit(queue, corev1.ResourceCPU, resource.Milli), statedLimit(queue, corev1.ResourceMemory, 0)
	switch {
	case rules.Denied && queue.Name == RootQueue:
	case rules.Denied:
		rules.Limits = quota.Limits{MilliCPU: milliCPU, Memory: memory}
	case queue.Name == RootQueue:
		rules.Limits = quota.Limits{AnyCard: unmanaged == Ignore, MilliCPU: quota.Unlimited, Memory: quota.Unlimited}
	case !managed:
		rules.Limits = quota.Limits{AnyCard: unmanaged == Ignore, MilliCPU: cmp.Or(milliCPU, quota.Unlimited), Memory: cmp.Or(memory, quota.Unlimited)}
	default:
		cards, err := card.ParseQuota(text)
		if err != nil {
			rules.Refusal = &Refusal{
				Reason:  ReasonInvalidQuota,
				Message: fmt.Sprintf("Queue <%s> has an invalid %s: %v", queue.Name, v1alpha1.AnnotationCardQuota, err),
			}
			return rules
		}
		rules.Limits = quota.Limits{Cards: cards, MilliCPU: milliCPU, Memory: memory}
	}
	return rules
}

// closed refuses everything for a queue that is not Open.
func closed(queue *v1beta1.Queue) *Refusal {
	switch {
	case queue.DeletionTimestamp != nil:
		return &Refusal{Reason: ReasonQueueNotOpen, Message: fmt.Sprintf("Queue <%s> is being deleted: nothing new starts in it", queue.Name)}
	case queue.Name == RootQueue || queue.Status.State == v1beta1.QueueStateOpen:
		return nil
	case queue.Status.State == "":
		return &Refusal{Reason: ReasonQueueNotOpen, Message: fmt.Sprintf("Queue <%s> has no state yet: Volcano's controller opens it", queue.Name)}
	default:
		return &Refusal{Reason: ReasonQueueNotOpen, Message: fmt.Sprintf("Queue <%s> is %s, not Open: nothing new starts in it", queue.Name, queue.Status.State)}
	}
}

// statedLimit reads what a Queue states of a resource in units of 10^scale: 0 for nothing, and
// Unlimited for what no sum of bounded requests reaches.
func statedLimit(queue *v1beta1.Queue, name corev1.ResourceName, scale resource.Scale) int64 {
	quantity := queue.Spec.Capability[name]
	if limit := bounded(&quantity, scale); limit < absurd {
		return limit
	}
	return quota.Unlimited
}
