package validation

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/policy"
)

// warnOfParent warns of what is not wrong but may not be meant. That is a parent that is missing or being
// deleted, or a CardQuota that is a parent because it has no service type. It also warns of a priority of a
// parent, and of a namespace selector that no namespace can match together with one above.
func (w writtenTree) warnOfParent(result *Result, c *v1alpha1.CardQuota) {
	at := specPath.Child("parent")
	parent := w.Quota(c.Spec.Parent)
	switch {
	case c.Spec.Parent == "":
	case parent == nil:
		result.warn(at, "there is no CardQuota %s yet: queue %s is created once it exists, and its numbers are checked then", c.Spec.Parent, c.QueueName())
	case parent.DeletionTimestamp != nil:
		result.warn(at, "CardQuota %s is being deleted, and waits until this one is gone or names another parent", parent.Name)
	}

	if c.Spec.ServiceType == "" && len(w.Children(c.Name)) == 0 {
		result.warn(specPath.Child("serviceType"), "is not set, so this is a parent: no job starts in queue %s itself, only in those of CardQuotas that name %s as parent", c.QueueName(), c.Name)
		if pods := w.podsOf(c); pods > 0 {
			result.warn(specPath.Child("serviceType"), "%d pods in queue %s continue to run and count, but no CardQuota can have it as parent before they end", pods, c.QueueName())
		}
	}

	if c.Spec.ServiceType == "" && c.Spec.Priority != nil {
		result.warn(specPath.Child("priority"), "has no effect on a parent: write it in the CardQuotas below")
	}
	w.warnOfSelectors(result, c)
}

// warnOfSelectors warns if no namespace can match the selectors of a CardQuota and an ancestor.
func (w writtenTree) warnOfSelectors(result *Result, c *v1alpha1.CardQuota) {
	for _, ancestor := range w.Ancestors(c.Name) {
		if key, differ := findContradiction(c.Spec.NamespaceSelector, ancestor.Spec.NamespaceSelector); differ {
			result.warn(specPath.Child("namespaceSelector"), "no namespace can use queue %s: it needs label %s=%s, and %s above it needs %s=%s",
				c.QueueName(), key, c.Spec.NamespaceSelector.MatchLabels[key], ancestor.Name, key, ancestor.Spec.NamespaceSelector.MatchLabels[key])
			return
		}
	}
}

// findContradiction returns the key of a label that two selectors want with different values in matchLabels. differ is
// false if there is none.
func findContradiction(a, b *metav1.LabelSelector) (key string, differ bool) {
	if a == nil || b == nil {
		return "", false
	}
	for _, key := range slices.Sorted(maps.Keys(a.MatchLabels)) {
		if other, both := b.MatchLabels[key]; both && other != a.MatchLabels[key] {
			return key, true
		}
	}
	return "", false
}

// hasSelectorAbove reports whether an ancestor selects namespaces. An empty selector selects all.
func (w writtenTree) hasSelectorAbove(c *v1alpha1.CardQuota) bool {
	return slices.ContainsFunc(w.Ancestors(c.Name), func(a *v1alpha1.CardQuota) bool {
		s := a.Spec.NamespaceSelector
		return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
	})
}

// warnChangedChildren warns of CardQuotas below whose numbers a change of their ancestor cuts. A
// parent may be lowered: its children are scaled, and the condition HierarchyValid says so with
// the same words.
func warnChangedChildren(result *Result, quota, before *v1alpha1.CardQuota, proposed writtenTree) {
	below := proposed.Below(quota.Name)
	if len(below) == 0 {
		return
	}

	// The tree in force cuts amounts as the operator will, so the warnings have the words of its
	// condition.
	now := treeInForce(quota, proposed.input)
	was := treeInForce(before, proposed.input)
	var cut []string
	for _, name := range below {
		c := proposed.Quota(name)
		is := now.HierarchyCondition(c, nil) // no usage: it is the same before and after
		if is.Status == metav1.ConditionFalse && is.Message != was.HierarchyCondition(c, nil).Message {
			cut = append(cut, fmt.Sprintf("%s: %s", name, is.Message))
		}
	}

	const maxNamed = 5 // a user reads no more warnings, and a parent may have hundreds of children
	for _, text := range cut[:min(len(cut), maxNamed)] {
		result.warn(specPath, "changes what counts in CardQuota %s", text)
	}

	if more := len(cut) - maxNamed; more > 0 {
		result.warn(specPath, "changes what counts in %d more CardQuotas below", more)
	}
}

// treeInForce returns the tree as the operator puts it in force, with one CardQuota as it is given here.
func treeInForce(here *v1alpha1.CardQuota, input CardQuotaInput) *cardquota.Tree {
	return cardquota.NewTree(append(input.othersThan(here.Name), here), input.Queues, policy.UnmanagedQueues(input.Policy))
}

// warnParentDeletion warns that a parent waits for its children, or that nothing starts in them without it: with Retain
// it does not wait.
func warnParentDeletion(result *Result, c *v1alpha1.CardQuota, all []*v1alpha1.CardQuota) {
	var children []string
	for _, other := range all {
		if other.Spec.Parent == c.Name && other.DeletionTimestamp == nil {
			children = append(children, other.Name)
		}
	}

	if len(children) == 0 {
		return
	}

	slices.Sort(children)
	then := fmt.Sprintf("queue %s keeps its quota until their queues are gone: delete them, or give them another parent", c.QueueName())
	if c.Spec.DeletionPolicy == v1alpha1.DeletionPolicyRetain {
		then = "without it nothing new starts in them: delete them, or give them another parent"
	}
	result.warn(field.NewPath("metadata", "name"), "it is the parent of %s; %s", conditions.JoinFirst(children, maxNames), then)
}
