package cardquota

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/queueusage"
)

// setConditions sets every condition, or removes one that does not apply to this CardQuota. A condition that
// cannot be determined now stays as it was.
func setConditions(s *v1alpha1.CardQuotaStatus, input StatusInput) {
	set := func(kind string, c metav1.Condition) {
		conditions.Set(&s.Conditions, kind, c, input.Quota.Generation, input.Now)
	}

	set(v1alpha1.ConditionQueueSynced, input.Sync)
	set(v1alpha1.ConditionWithinQuota, withinQuotaCondition(s, input))
	if !ownsQueue(input) || input.Totals != nil {
		set(v1alpha1.ConditionInventorySatisfied, inventorySatisfiedCondition(input))
	}

	set(v1alpha1.ConditionCardsKnown, cardsKnownCondition(s, input))
	if !input.Tree.IsFlat() && ownsQueue(input) {
		set(v1alpha1.ConditionHierarchyValid, input.Tree.HierarchyCondition(input.Quota, input.Own))
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionHierarchyValid)
	}

	if input.LocalViews != nil {
		set(v1alpha1.ConditionLocalViewsComplete, *input.LocalViews)
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionLocalViewsComplete)
	}

	if input.Enforced != nil {
		set(v1alpha1.ConditionEnforced, *input.Enforced)
	}

	// Ready sums up the other conditions, so it comes after them.
	set(v1alpha1.ConditionReady, readyCondition(s, input))
	conditions.SetFieldsKnown(&s.Conditions, input.Quota, input.Quota.Spec, input.Now)
}

// ownsQueue reports whether the CardQuota owns its queue.
func ownsQueue(input StatusInput) bool {
	return input.Sync.Reason != v1alpha1.ReasonQueueConflict && input.Sync.Reason != v1alpha1.ReasonQueueReserved
}

// notOwnedCondition is the condition of a CardQuota whose queue belongs to another one.
func notOwnedCondition() metav1.Condition {
	return conditions.New(metav1.ConditionUnknown, v1alpha1.ReasonNotCounted, "this CardQuota does not own its queue, so its usage is not counted")
}

// withinQuotaCondition compares usage with quota, for cards only. Whether CPU and memory
// are limited depends on the scheduler's configuration.
func withinQuotaCondition(s *v1alpha1.CardQuotaStatus, input StatusInput) metav1.Condition {
	switch {
	case !ownsQueue(input):
		return notOwnedCondition()
	case input.Usage == nil:
		// After a restart the last count is more useful to its readers than no answer for some
		// seconds.
		if before := conditions.Get(s.Conditions, v1alpha1.ConditionWithinQuota); before.Reason != "" && before.Reason != v1alpha1.ReasonNotCounted {
			return before
		}
		return conditions.New(metav1.ConditionUnknown, v1alpha1.ReasonNotCounted, "pods have not been counted yet")
	}

	var over []string
	for _, c := range s.Cards {
		if c.OverQuotaBy > 0 {
			over = append(over, fmt.Sprintf("%d %s too many (%d used, quota %d)", c.OverQuotaBy, c.Name, c.Used, c.Quota))
		}
	}

	if len(over) == 0 {
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonWithinQuota, "no card is used beyond its quota")
	}

	end := "running pods continue, and no new pod starts until usage falls below the quota"
	if input.Mode == v1alpha1.ModeObserve {
		end = "in mode Observe new pods start all the same"
	}
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonOverQuota, "%s: %s", strings.Join(over, ", "), end)
}

// inventorySatisfiedCondition is condition InventorySatisfied: whether all CardQuotas together grant no more of the
// cards of this one than healthy nodes have.
func inventorySatisfiedCondition(input StatusInput) metav1.Condition {
	if !ownsQueue(input) {
		return notOwnedCondition()
	}

	if !input.Tree.IsFlat() && input.Quota.Spec.Parent != "" {
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonInventorySatisfied,
			"the quota of parent %s contains this one: InventorySatisfied of the CardQuota at the top level compares it with healthy nodes", input.Quota.Spec.Parent)
	}

	excesses := input.Totals.OverAllocated(input.Quota)
	if len(excesses) == 0 {
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonInventorySatisfied,
			"all CardQuotas together grant no more of these cards than healthy nodes have")
	}

	status := metav1.ConditionFalse
	reason := v1alpha1.ReasonOverAllocated
	end := ": the quotas are enforced as written; lower some, add cards, or set overAllocation to Allow"
	switch input.Quota.Spec.OverAllocation {
	case v1alpha1.OverAllocationAllow:
		status = metav1.ConditionTrue
		reason = v1alpha1.ReasonOverAllocationAllowed
		end = ": overAllocation allows it"
	case v1alpha1.OverAllocationDeny:
		end = ": existing quotas stay, but overAllocation denies raising them" + youngestClause(excesses)
	}

	return conditions.New(status, reason, "%s", conditions.Truncate(DescribeOverAllocation(excesses), conditions.MaxMessageLength-len(end))+end)
}

// maxYoungestLength bounds the names in youngestClause.
const maxYoungestLength = 300

// youngestClause names, for each over-allocated card, the youngest CardQuota with overAllocation Deny.
func youngestClause(excesses []OverAllocatedCard) string {
	var parts []string
	for _, e := range excesses {
		if e.Youngest != "" && len(parts) < maxNamedGrants {
			parts = append(parts, fmt.Sprintf("%s (%s)", e.Youngest, e.Card))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; the youngest CardQuota with overAllocation Deny is " + conditions.Truncate(strings.Join(parts, ", "), maxYoungestLength)
}

// readyCondition sums up: the Queue carries the quota, is open, and enforcement is not
// disproved. Usage above the quota does not make a CardQuota unready, since the scheduler
// still enforces the quota. Nor does a missing ServiceTypePolicy, without which enforcement
// is unknown.
func readyCondition(s *v1alpha1.CardQuotaStatus, input StatusInput) metav1.Condition {
	name := input.Quota.QueueName()
	no := metav1.ConditionFalse
	enforced := conditions.Get(s.Conditions, v1alpha1.ConditionEnforced)

	switch {
	case input.Sync.Reason == v1alpha1.ReasonObserving:
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonObserving, "%s", input.Sync.Message)
	case input.Sync.Status != metav1.ConditionTrue:
		return conditions.New(no, input.Sync.Reason, "%s", input.Sync.Message)
	case input.Queue == nil || input.Queue.Status.State == "":
		return conditions.New(no, v1alpha1.ReasonQueueNotOpen, "queue %s is not open yet: Volcano's controller manager opens it", name)
	case input.Queue.Status.State != v1beta1.QueueStateOpen:
		return conditions.New(no, v1alpha1.ReasonQueueNotOpen,
			"queue %s is %s and starts no pods: it was closed by hand or with its parent", name, input.Queue.Status.State)
	}

	if held, isHeld := input.Tree.heldCondition(input.Quota, s.BlockedTotal); isHeld {
		return held
	}

	// Of the faults of HierarchyValid only jobs in a parent count here. A fault of the path to the top level
	// is the reason of input.Sync above. Numbers that are not in force as written still let pods start.
	switch hierarchy := conditions.Get(s.Conditions, v1alpha1.ConditionHierarchyValid); {
	case hierarchy.Reason == v1alpha1.ReasonWorkInParent:
		return conditions.New(no, hierarchy.Reason, "%s", hierarchy.Message)
	case enforced.Status == no:
		return conditions.New(no, enforced.Reason, "queue %s carries this quota, but it is not proven to be enforced: %s", name, enforced.Message)
	}

	if input.Quota.Spec.ServiceType == "" {
		message := "queue %s carries this quota for the queues below it, which start pods"
		if input.Tree.IsFlat() {
			message = "queue %s has an empty quota: a CardQuota without serviceType is a parent, and parents grant nothing while queues are flat"
		}
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonReady, message, name)
	}

	return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonReady, "queue %s carries this quota and starts pods", name)
}

// QueueWrite is the result of writing a Queue.
type QueueWrite struct {
	// Replaced are the changes of other managers that the operator replaced.
	Replaced []FieldConflict
	// WeightManager is the manager that keeps spec.weight, "" for none. ParentManager is that of
	// spec.parent, Parent the wanted one.
	WeightManager, ParentManager, Parent string
	// CutPriority says that the priority reaches the next service type, "" if it does not.
	CutPriority string
	// IsFlat reports whether fields of a tree have no effect.
	IsFlat bool
	// Wait is what is not written yet, nil for nothing.
	Wait *Wait
}

// QueueSyncedCondition is condition QueueSynced after a write of the Queue. It is False while something must
// still wait (w.Wait). It is True otherwise, and then says what other managers kept, or what of theirs was
// replaced. before is the previous condition: a replaced change stays visible until the spec changes.
func QueueSyncedCondition(quota *v1alpha1.CardQuota, before metav1.Condition, w QueueWrite, now time.Time) metav1.Condition {
	if w.Wait != nil {
		return conditions.New(metav1.ConditionFalse, w.Wait.Reason, "%s", w.Wait.Message)
	}

	name := quota.QueueName()
	replaced := ""
	if len(w.Replaced) > 0 {
		replaced = fmt.Sprintf("%s on queue %s; replaced at %s by what this CardQuota says",
			DescribeConflicts(w.Replaced), name, now.UTC().Format(time.RFC3339))
	}

	switch {
	case w.WeightManager != "" && quota.Spec.Weight != nil:
		message := fmt.Sprintf("queue %s carries this quota, but spec.weight is managed by %s and was left alone instead of becoming %d: "+
			"remove weight here or let %s give the field up", name, w.WeightManager, *quota.Spec.Weight, w.WeightManager)
		if replaced != "" {
			message += "; " + replaced
		}
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonWeightConflict, "%s", message)
	case replaced != "":
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonForeignChangeReplaced, "%s", replaced)
	}

	if condition, ok := treeSyncedCondition(quota, w); ok {
		return condition
	}

	// A change that was replaced in one write would be invisible after the next. An administrator
	// must see it.
	if before.Reason == v1alpha1.ReasonForeignChangeReplaced && before.ObservedGeneration == quota.Generation {
		return before
	}

	return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonSynced, "queue %s carries this quota", name)
}

// treeSyncedCondition is condition QueueSynced of a Queue that carries the quota, but not all
// that a CardQuota says about trees and priorities. It returns false if the Queue carries all of it.
func treeSyncedCondition(q *v1alpha1.CardQuota, w QueueWrite) (metav1.Condition, bool) {
	carries := fmt.Sprintf("queue %s carries this quota, but ", q.QueueName())
	switch {
	case w.ParentManager != "":
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonParentConflict,
			carries+"spec.parent is managed by %s and was left alone instead of becoming %s: change spec.parent here, or let %s give the field up; "+
				"until then the scheduler enforces the tree of the Queues, and the status shows that of the CardQuotas",
			w.ParentManager, w.Parent, w.ParentManager), true
	case w.CutPriority != "":
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonPriorityCut, carries+"its priority is the nearest one of its service type: %s", w.CutPriority), true
	case w.IsFlat:
		if unused := describeUnusedFields(q); unused != "" {
			if q.Spec.ServiceType == "" { // a parent grants nothing while queues are flat
				carries = fmt.Sprintf("queue %s has an empty quota: ", q.QueueName())
			}
			return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonTreeFieldsUnused, carries+"%s", unused), true
		}
	}

	return metav1.Condition{}, false
}

// QueueConflictCondition is condition QueueSynced for a queue that belongs to an older
// CardQuota.
func QueueConflictCondition(name, owner string) metav1.Condition {
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonQueueConflict,
		"queue %s belongs to the older CardQuota %s: this one takes over when that one is deleted, or choose another queueName", name, owner)
}

// QueueReservedCondition is condition QueueSynced for a queue that the operator never
// writes.
func QueueReservedCondition(name string) metav1.Condition {
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonQueueReserved,
		"queue %s belongs to Volcano and cannot carry a quota: choose another queueName", name)
}

// InvalidSelectorCondition is condition QueueSynced of a CardQuota with an invalid
// namespaceSelector. The operator writes nothing of its spec, since a queue without the
// selector would be open to every namespace.
func InvalidSelectorCondition(name string, err error) metav1.Condition {
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonInvalidNamespaceSelector,
		"spec.namespaceSelector is not valid, so queue %s keeps what it had: %v", name, err)
}

// QueueRefusedCondition is condition QueueSynced of a Queue that could not be written or deleted.
func QueueRefusedCondition(name string, live *v1beta1.Queue, err error) metav1.Condition {
	hint := ""
	if RefusesChanges(live) {
		hint = fmt.Sprintf(" (Volcano refuses changes of a queue that is %s; the operator writes them when the Queue has left that state)", live.Status.State)
	}
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonQueueRefused, "queue %s could not be written%s: %v", name, hint, err)
}

// RefusesChanges reports whether Volcano's webhook refuses every change of the Queue
// because of its state. The watch of Queues reports the end of that state.
func RefusesChanges(live *v1beta1.Queue) bool {
	return live != nil && (live.Status.State == v1beta1.QueueStateClosing || live.Status.State == v1beta1.QueueStateUnknown)
}

// DrainingCondition is condition QueueSynced of a CardQuota that is being deleted.
func DrainingCondition(name string, members queueusage.Members) metav1.Condition {
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonDraining,
		"being deleted: queue %s has no quota any more and is deleted when %s", name, describeEmptying(members))
}

// describeEmptying says when a queue with so many members is empty.
func describeEmptying(members queueusage.Members) string {
	if !members.Any() {
		return "the API server confirms that no unfinished pod and PodGroup uses it"
	}
	return fmt.Sprintf("these are gone: %s", members)
}

// ObservedQueueCondition returns condition QueueSynced in mode Observe. owner is the CardQuota that owns the queue.
func ObservedQueueCondition(quota *v1alpha1.CardQuota, owner *v1alpha1.CardQuota) metav1.Condition {
	name := quota.QueueName()
	if owner != nil && owner.Name != quota.Name {
		return QueueConflictCondition(name, owner.Name)
	}
	return conditions.New(metav1.ConditionUnknown, v1alpha1.ReasonObserving,
		"in mode Observe the operator writes nothing to queue %s, and counts what its pods use", name)
}

// RestoringCondition returns condition QueueSynced while mode Observe waits until a Queue that the operator created is
// empty. children are the Queues below it, sorted by name.
func RestoringCondition(queue string, members queueusage.Members, children []string) metav1.Condition {
	if len(children) > 0 {
		return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonRestoring,
			"queue %s was made for this CardQuota, and is deleted when no Queue is below it any more: %s; a Queue of another client must be deleted, or moved to another parent",
			queue, conditions.JoinFirst(children, maxNamedGrants))
	}
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonRestoring,
		"queue %s was made for this CardQuota: it limits nothing any more, and is deleted when %s", queue, describeEmptying(members))
}

// Events returns the events for the change from one status to the next.
func Events(before, after v1alpha1.CardQuotaStatus) []conditions.Event {
	return conditions.Events(before.Conditions, after.Conditions, eventRules)
}

var eventRules = append(append([]conditions.Rule{
	{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonWeightConflict, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonWeightConflict},
	{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonParentConflict, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonParentConflict},
	{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonPriorityCut, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonPriorityCut},
	{Type: v1alpha1.ConditionHierarchyValid, Status: metav1.ConditionFalse, Kind: corev1.EventTypeWarning},
	{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonQueueConflict, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonQueueConflict},
	{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonQueueReserved, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonQueueRefused},
	{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonQueueRefused, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonQueueRefused},
	{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonVolcanoMissing, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonVolcanoMissing},
	{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonRightsMissing, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonRightsMissing},
	{Type: v1alpha1.ConditionQueueSynced, Reason: v1alpha1.ReasonInvalidNamespaceSelector, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonInvalidNamespaceSelector},
	{Type: v1alpha1.ConditionWithinQuota, Reason: v1alpha1.ReasonOverQuota, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonOverQuota},
	{Type: v1alpha1.ConditionInventorySatisfied, Reason: v1alpha1.ReasonOverAllocated, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonOverAllocated},
	{Type: v1alpha1.ConditionCardsKnown, Reason: v1alpha1.ReasonUnknownCard, Kind: corev1.EventTypeWarning, Event: v1alpha1.ReasonUnknownCard},
}, conditions.CommonRules...),
	conditions.Rule{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonReady, Kind: corev1.EventTypeNormal, Event: v1alpha1.ReasonReady})
