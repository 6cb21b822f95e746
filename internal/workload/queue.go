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
	"cardquota.dev/operator/internal/quota"
)

// RootQueue is Volcano's root of all queues. Volcano maintains its numbers; they limit no
// queue.
const RootQueue = "root"

// QueueRules are the limits of a queue and who may use it.
type QueueRules struct {
	// Managed reports whether the queue carries card.quota.
	Managed bool
	// Denied reports whether the queue is limited because it carries no card.quota.
	Denied bool
	// Limits are in force. They allow nothing when card.quota is invalid.
	Limits quota.Limits
	// Namespaces selects the namespaces whose pods may use the queue; nil selects all.
	Namespaces labels.Selector
	// Refusal says why the queue accepts no new pods, nil when it does.
	Refusal *Refusal
	// Tree is the queue as part of a tree, and TreeRefusal what in it cannot be parsed. They
	// count only if the queues form a tree.
	Tree        quota.TreeQueue
	TreeRefusal *Refusal
	// Drains reports whether the stop policy of the queue evicts its jobs.
	Drains bool

	// selector is the text of Namespaces, selectorRefusal what is wrong with it.
	selector        string
	hasSelector     bool
	selectorRefusal *Refusal
}

// QueueRulesFor returns the rules of a Queue. last are its earlier rules, nil when there are
// none: parsing the namespace selector again costs more than the rest.
//
// card.quota and spec.capability limit a managed queue. CPU or memory that is not set is 0 there, unless
// unlimited.resources names it. Any other queue may use no cards, or all cards with unmanaged Ignore. It keeps Volcano's
// meaning of capability (not set or 0 is unlimited) except with Deny. root counts as a queue
// without both: Volcano lets any pod name it, and that must not bypass the quotas. A quota, a
// selector or unlimited.resources that cannot be parsed blocks that queue and no other.
func QueueRulesFor(queue *v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues, last *QueueRules) QueueRules {
	rules := flatRulesFor(queue, unmanaged, last)
	rules.Tree, rules.TreeRefusal = TreeQueueFor(queue, rules.Limits, rules.Managed && queue.Name != RootQueue)
	rules.Tree.IsClosed = rules.Refusal != nil
	rules.Drains = queue.Annotations[v1alpha1.AnnotationStopPolicy] == string(v1alpha1.StopPolicyHoldAndDrain)
	if rules.Refusal == nil && rules.Tree.IsHeld {
		rules.Refusal = RefusalForFault(queue.Name, quota.Fault{Kind: quota.IsHeld, Queue: queue.Name, HoldMessage: rules.Tree.HoldMessage})
	}
	return rules
}

// IsSameInTree reports whether other rules of the same queue mean the same for the tree in which it is resolved. Of a
// flat queue only the limits count. A tree notes of Namespaces only which queues restrict them.
func (r *QueueRules) IsSameInTree(other *QueueRules, resolved *quota.Resolved) bool {
	if resolved.Limits.IsFlat() {
		return r.Limits.Equal(&other.Limits)
	}
	return r.Tree.Equal(&other.Tree) && (r.Namespaces == nil) == (other.Namespaces == nil)
}

// InTree returns the rules of a queue as part of a tree: with the limits that count there, and
// the first reason why it accepts no new pods. A flat queue keeps its rules.
func (r *QueueRules) InTree(queue string, resolved *quota.Resolved) *QueueRules {
	if resolved.Limits.IsFlat() {
		return r
	}

	rules := *r
	rules.Limits = resolved.Limits
	if rules.Refusal == nil {
		rules.Refusal = rules.TreeRefusal
	}
	if rules.Refusal == nil {
		rules.Refusal = RefusalForFault(queue, resolved.Fault)
	}
	return &rules
}

// flatRulesFor returns the rules of a Queue as if all queues were flat. unmanaged is what the policy says of
// queues without a quota. last are the earlier rules of the Queue, nil for none: a selector that has not
// changed is not parsed again. An amount that Limits leaves out is 0, so the queue may use none.
func flatRulesFor(queue *v1beta1.Queue, unmanaged v1alpha1.UnmanagedQueues, last *QueueRules) QueueRules {
	text, managed := queue.Annotations[v1alpha1.AnnotationCardQuota]
	rules := QueueRules{Managed: managed, Refusal: checkOpen(queue)}
	rules.readSelector(queue, last)
	if rules.selectorRefusal != nil {
		rules.Refusal = rules.selectorRefusal
	}

	// root counts as a queue without a quota, even if its Queue has the annotation: it limits no queue below.
	managed = managed && queue.Name != RootQueue
	rules.Denied = !managed && unmanaged == v1alpha1.UnmanagedDeny
	milliCPU := amountOf(queue.Spec.Capability[corev1.ResourceCPU], resource.Milli) // 0 if it is not set
	memory := amountOf(queue.Spec.Capability[corev1.ResourceMemory], 0)
	switch {
	case rules.Denied && queue.Name == RootQueue:
		// It may use nothing, whatever its capability is.
	case rules.Denied:
		rules.Limits = quota.Limits{MilliCPU: milliCPU, Memory: memory}
	case queue.Name == RootQueue:
		rules.Limits = quota.Limits{AnyCard: unmanaged == v1alpha1.UnmanagedIgnore, MilliCPU: quota.Unlimited, Memory: quota.Unlimited}
	// Volcano reads an unset capability as unlimited. Installing Cardquota must not stop CPU-only
	// work.
	case !managed:
		rules.Limits = quota.Limits{AnyCard: unmanaged == v1alpha1.UnmanagedIgnore, MilliCPU: cmp.Or(milliCPU, quota.Unlimited), Memory: cmp.Or(memory, quota.Unlimited)}
	default:
		limits, refusal := managedLimits(queue, text, milliCPU, memory)
		rules.Limits = limits
		if refusal != nil {
			rules.Refusal = refusal
		}
	}

	return rules
}

// readSelector sets which namespaces may use a Queue. It parses no text again that the last rules have
// parsed.
func (r *QueueRules) readSelector(queue *v1beta1.Queue, last *QueueRules) {
	r.selector, r.hasSelector = queue.Annotations[v1alpha1.AnnotationNamespaceSelector]
	if last != nil && last.selector == r.selector && last.hasSelector == r.hasSelector {
		r.Namespaces = last.Namespaces
		r.selectorRefusal = last.selectorRefusal
	} else {
		r.Namespaces, r.selectorRefusal = NamespaceSelectorFor(queue)
	}
}

// checkOpen refuses new pods for a queue that is not Open. root counts as open in any state.
func checkOpen(queue *v1beta1.Queue) *Refusal {
	switch {
	case queue.DeletionTimestamp != nil:
		return &Refusal{Code: CodeQueueDeleted, Queue: queue.Name}
	case queue.Name == RootQueue || queue.Status.State == v1beta1.QueueStateOpen:
		return nil
	case queue.Status.State == "":
		return &Refusal{Code: CodeQueueWithoutState, Queue: queue.Name}
	default:
		return &Refusal{Code: CodeQueueNotOpen, Queue: queue.Name, Object: string(queue.Status.State)}
	}
}

// maxSelectorText bounds the annotation text that is parsed, so that no object slows the
// programs down.
const maxSelectorText = 64 << 10

// NamespaceSelectorFor returns which namespaces may use a queue, from its annotation
// volcano.sh/namespace-selector. nil without a refusal is every namespace: there is no
// annotation, or it is {}. A selector that cannot be parsed selects no namespace, and the
// refusal says why.
func NamespaceSelectorFor(queue *v1beta1.Queue) (labels.Selector, *Refusal) {
	text, hasSelector := queue.Annotations[v1alpha1.AnnotationNamespaceSelector]
	if !hasSelector {
		return nil, nil
	}

	selector, err := ParseNamespaceSelector(text)
	if err != nil {
		return labels.Nothing(), &Refusal{Code: CodeInvalidSelector, Queue: queue.Name, Detail: fmt.Sprintf("%.300s", err)}
	}

	if selector.Empty() {
		return nil, nil
	}

	return selector, nil
}

// ParseNamespaceSelector parses a JSON object with the fields of a metav1.LabelSelector. {}
// selects everything, as in Kubernetes. An unknown or repeated field is an error: a misspelt
// matchLabels would otherwise select everything.
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

// NewNamespaceSelector returns the selector for a metav1.LabelSelector. The error names the
// key, operator or value that Kubernetes does not accept.
func NewNamespaceSelector(selector *metav1.LabelSelector) (labels.Selector, error) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("namespace selector: %.300q", err.Error())
	}
	return parsed, nil
}

// ExplicitSelector returns which namespaces a metav1.LabelSelector selects explicitly. It is nil for none: there is no
// selector, it is {}, or it is invalid.
func ExplicitSelector(selector *metav1.LabelSelector) labels.Selector {
	if selector == nil {
		return nil
	}
	parsed, err := NewNamespaceSelector(selector)
	if err != nil || parsed.Empty() {
		return nil
	}
	return parsed
}

// CheckNamespace returns nil when pods of a namespace may use a queue, otherwise why not. A nil
// selector allows every namespace. A nil namespace is not in the cache yet, and only a queue
// without a selector allows it. The refusal leaves the selector out, because the refused tenant reads it.
func CheckNamespace(queue string, selector labels.Selector, name string, namespace *corev1.Namespace) *Refusal {
	switch {
	case selector == nil:
		return nil
	case namespace == nil:
		return &Refusal{Code: CodeNamespaceUnknown, Queue: queue, Object: name}
	case selector.Matches(labels.Set(namespace.Labels)):
		return nil
	default:
		return &Refusal{Code: CodeNamespaceNotAllowed, Queue: queue, Object: name}
	}
}
