package cardquota

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// HierarchyCondition is condition HierarchyValid of a CardQuota in a tree. own is the usage of
// its queue alone, nil before the first count.
func (t *Tree) HierarchyCondition(q *v1alpha1.CardQuota, own *queueusage.Usage) metav1.Condition {
	// Without a path nothing new starts, so other faults of the CardQuota do not matter yet.
	if !t.isPlaced(q.Name) {
		reason, message := t.describeFault(q.Name)
		return conditions.New(metav1.ConditionFalse, reason, "%s", message)
	}
	if message := t.describeWork(q, own); message != "" {
		return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonWorkInParent, "%s", message)
	}
	if reason, messages := t.describeExcess(q.Name); len(messages) > 0 {
		return conditions.New(metav1.ConditionFalse, reason, "%s", strings.Join(messages, "; "))
	}

	message := "this CardQuota is at the top level"
	if above := t.Ancestors(q.Name); len(above) > 0 {
		names := make([]string, len(above))
		for i, a := range above {
			names[i] = a.Name
		}
		message = "the parents up to the top level are " + strings.Join(names, ", ")
	}

	switch children := t.childNames(q.Name); {
	case len(children) > 0:
		message += fmt.Sprintf("; it has %d children: %s", len(children), conditions.JoinFirst(children, maxNamedQueues))
	case q.Spec.ServiceType == "":
		message += "; it has no children yet, and without serviceType no job can start in it"
	}

	return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonHierarchyValid, "%s", message)
}

// describeWork says what is wrong with a CardQuota that takes no jobs, because it has children or no
// serviceType: it has a serviceType all the same, or jobs. It is "" for any other.
func (t *Tree) describeWork(q *v1alpha1.CardQuota, own *queueusage.Usage) string {
	children := t.childNames(q.Name)
	if len(children) == 0 && q.Spec.ServiceType != "" {
		return ""
	}

	kind := "it has no serviceType"
	if len(children) > 0 {
		kind = fmt.Sprintf("it has %d children (%s)", len(children), conditions.JoinFirst(children, maxNamedQueues))
	}

	switch {
	case q.Spec.ServiceType != "":
		return fmt.Sprintf("only leaves take jobs, and %s: nothing new starts in queue %s itself; remove serviceType, and give the jobs a CardQuota of their own below it", kind, q.QueueName())
	case own != nil && own.Members.Any():
		return fmt.Sprintf("only leaves take jobs, and %s: queue %s has %s: that counts here, but nothing new starts; move the jobs to a child", kind, q.QueueName(), own.Members)
	}

	return ""
}

// excessReasons are the reasons of HierarchyValid by kind of excess. The first that applies is
// the reason of the condition.
var excessReasons = []string{
	v1alpha1.ReasonCardNotInParent, v1alpha1.ReasonQuotaAboveParent, v1alpha1.ReasonDeservedAboveParent,
	v1alpha1.ReasonGuaranteeAboveParent, v1alpha1.ReasonScaled,
}

// describeExcess returns the messages of all written numbers that are not in force, and the first of their
// reasons in excessReasons. Guarantees that are cut only because less is deserved come last.
func (t *Tree) describeExcess(name string) (reason string, messages []string) {
	first := len(excessReasons)
	missing := map[quota.Resource]bool{}   // the parent has no quota of it
	explained := map[quota.Resource]bool{} // a message says why its guarantee is cut
	for _, e := range t.Excess(name) {
		if missing[e.Of] { // then every number of it is 0
			continue
		}

		missing[e.Of] = e.Kind == quota.NotInParent || e.Kind == quota.NothingToInherit
		explained[e.Of] = explained[e.Of] || missing[e.Of] || e.Kind == quota.GuaranteeAboveDeserved || e.Kind == quota.GuaranteeAboveParent
		kind, message := workload.DescribeExcess(e)
		messages = append(messages, message)

		if i := slices.Index(excessReasons[:first], kind); i >= 0 { // it comes before the one that was found
			first = i
		}
	}

	if len(messages) == 0 {
		return "", nil
	}

	return excessReasons[first], append(messages, t.describeCutGuarantees(name, explained)...)
}

// describeCutGuarantees names the guarantees that are cut because less is deserved, besides
// those of which a message explains more.
func (t *Tree) describeCutGuarantees(name string, explained map[quota.Resource]bool) []string {
	var messages []string
	written := t.Resolved(name).Written.Guarantee
	for _, key := range written.Sorted() {
		if inForce := t.Resolved(name).Limits.Guarantee[key]; inForce < written[key] && !explained[key] {
			messages = append(messages, fmt.Sprintf("%s: guarantee is %s, but as no more is deserved, %s is in force",
				key.Label(), workload.FormatTreeAmount(key, written[key]), workload.FormatTreeAmount(key, inForce)))
		}
	}
	return messages
}

// heldBy returns the CardQuota whose stop policy holds the given one, "" for none: itself or,
// in a tree, an ancestor. It also returns that policy. Of several, HoldAndDrain counts before Hold, and then
// the nearest.
func (t *Tree) heldBy(q *v1alpha1.CardQuota) (name string, policy v1alpha1.StopPolicy) {
	path := append([]*v1alpha1.CardQuota{q}, t.Ancestors(q.Name)...)
	for _, want := range []v1alpha1.StopPolicy{v1alpha1.StopPolicyHoldAndDrain, v1alpha1.StopPolicyHold} {
		for _, onPath := range path {
			if onPath.Spec.StopPolicy == want {
				return onPath.Name, want
			}
		}
	}
	return "", ""
}

// heldCondition is condition Ready of a queue that a stop policy holds, false for any other queue. blocked is
// how many workloads wait in it.
func (t *Tree) heldCondition(q *v1alpha1.CardQuota, blocked int32) (metav1.Condition, bool) {
	by, policy := t.heldBy(q)
	if by == "" {
		return metav1.Condition{}, false
	}

	where := ""
	if by != q.Name {
		where = " of its ancestor " + by
	}

	running := "running pods continue"
	if policy == v1alpha1.StopPolicyHoldAndDrain {
		running = "running jobs are evicted"
	}

	waiting := ""
	if blocked > 0 {
		waiting = fmt.Sprintf("; waiting workloads: %d", blocked)
	}

	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonHeld, "stopPolicy %s%s holds queue %s: nothing new starts, and %s%s; set it to None to go on",
		policy, where, q.QueueName(), running, waiting), true
}
