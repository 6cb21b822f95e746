package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/policy"
	"cardquota.dev/operator/internal/workload"
)

// CardQuotaInput is the input of the rules for CardQuotas besides the object.
type CardQuotaInput struct {
	// All are all CardQuotas; they may include the validated one.
	All []*v1alpha1.CardQuota
	// Policy is the ServiceTypePolicy, nil when there is none.
	Policy *v1alpha1.ServiceTypePolicy
	// Queues are all Queues, also those without a CardQuota.
	Queues []*v1beta1.Queue
	// Healthy counts the cards of Ready nodes by name.
	Healthy map[card.Name]card.Count
	// Inventory knows the cards of all nodes. If it is nil, no rule judges whether a card exists.
	Inventory *card.Inventory
}

// othersThan returns all CardQuotas but one.
func (i *CardQuotaInput) othersThan(name string) []*v1alpha1.CardQuota {
	return slices.DeleteFunc(slices.Clone(i.All), func(c *v1alpha1.CardQuota) bool { return c.Name == name })
}

// IsTree reports whether queues form a tree: in force, or as the policy is written. The operator needs a moment between
// the two, in which a CardQuota must suit the tree already. Without a policy, nil, they are flat.
func IsTree(inForce *v1alpha1.ServiceTypePolicy) bool {
	return policy.IsTree(inForce) || (inForce != nil && inForce.Spec.QueueHierarchy == v1alpha1.QueueHierarchyTree)
}

// writtenTree is the CardQuotas as they are written, of which each is judged. It is flat if they form no tree.
type writtenTree struct {
	*cardquota.Tree
	input CardQuotaInput
}

// newWrittenTree returns the CardQuotas that decide about the validated one. here is what the tree has of that one: it
// as it was before the change, it as it is to be, or nil for a tree without it. It owns its queue there, even if
// another CardQuota still does until that is deleted.
func newWrittenTree(validated, here *v1alpha1.CardQuota, input CardQuotaInput) writtenTree {
	w := writtenTree{Tree: cardquota.Flat, input: input}
	if !IsTree(input.Policy) {
		return w
	}

	all := slices.DeleteFunc(slices.Clone(input.All), func(c *v1alpha1.CardQuota) bool {
		return c.Name == validated.Name || c.QueueName() == validated.QueueName()
	})
	if here != nil {
		all = append(all, here)
	}

	w.Tree = cardquota.NewWrittenTree(relativesOf(all, validated, here), unownedChildren(input), policy.UnmanagedQueues(input.Policy))
	return w
}

// unownedChildren returns the Queues below others that no CardQuota owns.
func unownedChildren(input CardQuotaInput) []*v1beta1.Queue {
	owners := cardquota.OwnersByQueue(input.All)
	return slices.DeleteFunc(slices.Clone(input.Queues), func(q *v1beta1.Queue) bool {
		return q.Spec.Parent == "" || q.Spec.Parent == workload.RootQueue || owners[q.Name] != nil
	})
}

// relativesOf reduces a list of all CardQuotas, which it changes, to those that decide about the given ones: the
// ancestors of each, and all below its parent, or below itself without one. One that is being deleted needs nothing of
// its parent any more, unless there are others below it. A given one may be nil.
func relativesOf(all []*v1alpha1.CardQuota, given ...*v1alpha1.CardQuota) []*v1alpha1.CardQuota {
	byName := make(map[string]*v1alpha1.CardQuota, len(all))
	children := map[string][]*v1alpha1.CardQuota{}
	for _, c := range all {
		byName[c.Name] = c
		if c.Spec.Parent != "" {
			children[c.Spec.Parent] = append(children[c.Spec.Parent], c)
		}
	}

	// keepBelow keeps what is below a CardQuota, and reports whether there is anything. isWalked ends the walk where
	// written parents form a cycle.
	kept := map[string]bool{}
	isWalked := map[string]bool{}
	var keepBelow func(name string) bool
	keepBelow = func(name string) (keepsAny bool) {
		if isWalked[name] {
			return false
		}

		isWalked[name] = true
		for _, child := range children[name] {
			if keepBelow(child.Name) || child.DeletionTimestamp == nil {
				kept[child.Name] = true
				keepsAny = true
			}
		}
		return keepsAny
	}

	for _, c := range given {
		if c == nil {
			continue
		}

		// Siblings divide what their parent deserves and is guaranteed.
		kept[c.Name] = true
		keepBelow(c.Name)
		keepBelow(c.Spec.Parent)

		// Each ancestor bounds the quota of what is below it.
		isAbove := map[string]bool{}
		for at := byName[c.Spec.Parent]; at != nil && !isAbove[at.Name]; at = byName[at.Spec.Parent] {
			isAbove[at.Name] = true
			kept[at.Name] = true
		}
	}

	return slices.DeleteFunc(all, func(c *v1alpha1.CardQuota) bool { return !kept[c.Name] })
}

// Children returns the names of the CardQuotas that name the given one as their parent, sorted, without those
// that are being deleted.
func (w writtenTree) Children(name string) []string {
	return slices.DeleteFunc(w.Tree.Children(name), func(child string) bool { return w.Quota(child).DeletionTimestamp != nil })
}

// podsOf returns how many pods use something in the queue of a CardQuota, as Volcano counts them.
func (w writtenTree) podsOf(c *v1alpha1.CardQuota) int64 {
	i := slices.IndexFunc(w.input.Queues, func(q *v1beta1.Queue) bool { return q.Name == c.QueueName() })
	if i < 0 {
		return 0
	}
	pods := w.input.Queues[i].Status.Allocated[corev1.ResourcePods]
	return pods.Value()
}

// excess is one rule of a tree that a CardQuota breaks, and by how much. Excesses of one key are
// compared before and after a change.
type excess struct {
	key    string
	amount int64
	err    *field.Error
}

// newExcess returns the excess of a rule at a field. other is the CardQuota that it is measured
// against, "" for none. amount is by how much, and 1 for a rule that is only kept or broken.
func newExcess(rule, other string, amount int64, path *field.Path, format string, values ...any) excess {
	return excess{key: rule + " " + path.String() + " " + other, amount: amount, err: field.Forbidden(path, fmt.Sprintf(format, values...))}
}
