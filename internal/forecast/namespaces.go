package forecast

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// Namespaces says for which queue pods count that name none: for that of the CardQuota that alone selects their
// namespace by a written selector. It keeps each answer, since a count asks for every pod. It is not safe for
// concurrent use.
type Namespaces struct {
	selectors []quotaSelector
	labels    map[string]labels.Set
	answers   map[string]namespaceAnswer
}

// quotaSelector is the written selector of a CardQuota.
type quotaSelector struct {
	name, queue string
	selector    labels.Selector
}

// namespaceAnswer is the queue for a namespace, or the CardQuotas that select it together.
type namespaceAnswer struct {
	queue      string
	cardQuotas []string
}

// NewNamespaces returns the answers for CardQuotas by the queue that they own. A CardQuota that is a parent in the tree, or
// is being deleted, takes no pods.
func NewNamespaces(owners map[string]*v1alpha1.CardQuota, tree *quota.Tree, namespaces []*corev1.Namespace) *Namespaces {
	n := &Namespaces{labels: make(map[string]labels.Set, len(namespaces)), answers: map[string]namespaceAnswer{}}
	for _, namespace := range namespaces {
		n.labels[namespace.Name] = namespace.Labels
	}

	for queue, owner := range owners {
		isParent := owner.Spec.ServiceType == "" || len(tree.Queue(queue).Children) > 0
		selector := workload.ExplicitSelector(owner.Spec.NamespaceSelector)
		if selector != nil && !isParent && owner.DeletionTimestamp == nil {
			n.selectors = append(n.selectors, quotaSelector{owner.Name, queue, selector})
		}
	}

	return n
}

// QueueFor returns the queue for which pods of a namespace count that name none, "" if no CardQuota selects the
// namespace, or several do.
func (n *Namespaces) QueueFor(namespace string) string { return n.answerFor(namespace).queue }

// SelectedBy returns the CardQuotas, sorted, that select a namespace together, nil unless there are several.
func (n *Namespaces) SelectedBy(namespace string) []string { return n.answerFor(namespace).cardQuotas }

// answerFor returns the answer for a namespace. One that is not in the cache yet is selected by none.
func (n *Namespaces) answerFor(namespace string) namespaceAnswer {
	answer, isKnown := n.answers[namespace]
	if isKnown {
		return answer
	}

	set, exists := n.labels[namespace]
	if exists {
		for i := range n.selectors {
			if selected := &n.selectors[i]; selected.selector.Matches(set) {
				answer.queue = selected.queue
				answer.cardQuotas = append(answer.cardQuotas, selected.name)
			}
		}
	}

	if len(answer.cardQuotas) > 1 {
		answer.queue = ""
		slices.Sort(answer.cardQuotas)
	} else {
		answer.cardQuotas = nil
	}
	n.answers[namespace] = answer
	return answer
}
