package workload

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
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
	selector        string
	hasSelector     bool
	selectorRefusal *Refusal
}

// QueueRulesFor reads the limits of a Queue. last are those of an earlier state of it, nil when
// there is none: to read a selector of namespaces anew costs more than the rest.
//
// A queue with card.quota is limited by it and by spec.capability, where CPU or memory
// that is not set is 0. Any other queue has no cards, or any with unmanaged Ignore, and
// keeps Volcano's meaning of capability (not set or 0 is unlimited) except with Deny.
// root is a queue without both: Volcano lets any pod name it, and that must not be a way
// around the quotas. A quota or a selector of namespaces that cannot be read withholds
// everything from that queue, and from no other.
func QueueRulesFor(queue *v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues, last *QueueRules) QueueRules {
	text, managed := queue.Annotations[v1alpha1.AnnotationCardQuota]
	rules := QueueRules{Managed: managed, Refusal: checkOpen(queue)}
	rules.selector, rules.hasSelector = queue.Annotations[v1alpha1.AnnotationNamespaceSelector]
	if last != nil && last.selector == rules.selector && last.hasSelector == rules.hasSelector {
		rules.Namespaces, rules.selectorRefusal = last.Namespaces, last.selectorRefusal
	} else {
		rules.Namespaces, rules.selectorRefusal = NamespaceSelectorFor(queue)
	}
	if rules.selectorRefusal != nil {
		rules.Refusal = rules.selectorRefusal
	}
	managed = managed && queue.Name != RootQueue
	rules.Denied = !managed && unmanaged == v1alpha1.UnmanagedDeny
	milliCPU, memory := capabilityLimit(queue, corev1.ResourceCPU, resource.Milli), capabilityLimit(queue, corev1.ResourceMemory, 0)
	switch {
	case rules.Denied && queue.Name == RootQueue:
	case rules.Denied:
		rules.Limits = quota.Limits{MilliCPU: milliCPU, Memory: memory}
	case queue.Name == RootQueue:
		rules.Limits = quota.Limits{AnyCard: unmanaged == v1alpha1.UnmanagedIgnore, MilliCPU: quota.Unlimited, Memory: quota.Unlimited}
	case !managed:
		rules.Limits = quota.Limits{AnyCard: unmanaged == v1alpha1.UnmanagedIgnore, MilliCPU: cmp.Or(milliCPU, quota.Unlimited), Memory: cmp.Or(memory, quota.Unlimited)}
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

// checkOpen refuses everything for a queue that is not Open.
func checkOpen(queue *v1beta1.Queue) *Refusal {
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

// capabilityLimit reads what a Queue states of a resource in units of 10^scale: 0 for nothing, and
// Unlimited for what no sum of bounded requests reaches.
func capabilityLimit(queue *v1beta1.Queue, name corev1.ResourceName, scale resource.Scale) int64 {
	quantity := queue.Spec.Capability[name]
	if limit := boundedValue(&quantity, scale); limit < maxQuantity {
		return limit
	}
	return quota.Unlimited
}

// maxSelectorText bounds the annotation text that is read, so that no object can
// make a reader slow.
const maxSelectorText = 64 << 10

// NamespaceSelectorFor reads which namespaces may use a queue from its annotation
// volcano.sh/namespace-selector. nil without a refusal is every namespace: the
// queue does not choose, or chooses all of them with {}. A selector that cannot be
// read selects nobody: the refusal says what is wrong with the annotation.
func NamespaceSelectorFor(queue *v1beta1.Queue) (labels.Selector, *Refusal) {
	text, hasSelector := queue.Annotations[v1alpha1.AnnotationNamespaceSelector]
	if !hasSelector {
		return nil, nil
	}
	selector, err := ParseNamespaceSelector(text)
	if err != nil {
		return labels.Nothing(), &Refusal{Reason: ReasonInvalidNamespaceSelector, Message: fmt.Sprintf(
			"Queue <%s> has an invalid %s, so no namespace may use it: %.300s",
			queue.Name, v1alpha1.AnnotationNamespaceSelector, err)}
	}
	if selector.Empty() {
		return nil, nil
	}
	return selector, nil
}

// ParseNamespaceSelector reads one JSON object with the fields of a
// metav1.LabelSelector. {} selects everything, as in Kubernetes. A field that a
// LabelSelector does not have, or that stands there twice, is an error: a
// misspelt matchLabels would otherwise select everything.
func ParseNamespaceSelector(text string) (labels.Selector, error) {
	const example = `write it like {"matchLabels":{"team":"chat"}}`
	switch {
	case len(text) > maxSelectorText:
		return nil, fmt.Errorf("text is %d bytes, at most %d are read", len(text), maxSelectorText)
	case !json.Valid([]byte(text)):
		return nil, fmt.Errorf("%.100q is not valid JSON: %s", text, example)
	}
	// encoding/json keeps the last of two equal keys silently; this does not.
	var selector *metav1.LabelSelector
	if err := yaml.UnmarshalStrict([]byte(text), &selector); err != nil {
		return nil, fmt.Errorf("%.150q: %s", err.Error(), example)
	}
	if selector == nil { // null, which Kubernetes reads as no selector at all
		return nil, errors.New("null is no selector: " + example)
	}
	return NewNamespaceSelector(selector)
}

// NewNamespaceSelector makes the selector that a metav1.LabelSelector describes. The
// error names the key, operator or value that Kubernetes does not accept.
func NewNamespaceSelector(selector *metav1.LabelSelector) (labels.Selector, error) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("namespace selector: %.300q", err.Error())
	}
	return parsed, nil
}

// CheckNamespace refuses a namespace that a queue's selector leaves out, and returns nil
// when pods of the namespace may use the queue. A nil selector is every
// namespace. namespace is nil when it is not known: then nothing is given away,
// except where the queue does not choose.
func CheckNamespace(queue string, selector labels.Selector, name string, namespace *corev1.Namespace) *Refusal {
	switch {
	case selector == nil:
		return nil
	case namespace == nil:
		return &Refusal{Reason: ReasonNamespaceNotAllowed, Message: fmt.Sprintf(
			"Namespace <%s> is not known yet, and queue <%s> is only for namespaces with <%.300s>: wait, or name another queue",
			name, queue, selector)}
	case selector.Matches(labels.Set(namespace.Labels)):
		return nil
	default:
		return &Refusal{Reason: ReasonNamespaceNotAllowed, Message: fmt.Sprintf(
			"Namespace <%s> may not use queue <%s>, which is only for namespaces with <%.300s>: have the namespace labelled so, or name a queue that is for it",
			name, queue, selector)}
	}
}
