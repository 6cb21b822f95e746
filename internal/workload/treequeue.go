package workload

import (
	"fmt"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// TreeQueueFor returns a Queue as part of a tree: its parent, what it deserves and its
// guarantee, from its annotations and Volcano's own fields for CPU and memory. limits are those
// of its QueueRules. The refusal says what cannot be parsed; then the queue deserves nothing.
//
// A managed queue inherits the CPU or memory of its parent if it writes what it deserves but no
// capability. Any other queue inherits what it does not write, as Volcano's capacity plugin does.
func TreeQueueFor(queue *v1beta1.Queue, limits quota.Limits, isManaged bool) (quota.TreeQueue, *Refusal) {
	t := quota.TreeQueue{
		Parent: queue.Spec.Parent, AnyCard: limits.AnyCard, Weight: max(1, queue.Spec.Weight), Created: queue.CreationTimestamp.Time,
		IsHeld:       stopsWork(v1alpha1.StopPolicy(queue.Annotations[v1alpha1.AnnotationStopPolicy])),
		HoldMessage:  HoldMessage(queue),
		IsParentOnly: queue.Annotations[v1alpha1.AnnotationParentOnly] == "true",
		Quota:        quota.Amounts{}, Deserved: quota.Amounts{}, Guarantee: quota.Amounts{},
	}
	if t.Parent == RootQueue {
		t.Parent = ""
	}

	t.Quota.AddCards(limits.Cards)
	readCompute(&t, queue, corev1.ResourceCPU, quota.CPU, resource.Milli, limits.MilliCPU, isManaged)
	readCompute(&t, queue, corev1.ResourceMemory, quota.Memory, 0, limits.Memory, isManaged)

	var refusal *Refusal
	for _, a := range []struct {
		key     string
		amounts quota.Amounts
	}{{v1alpha1.AnnotationCardDeserved, t.Deserved}, {v1alpha1.AnnotationCardGuarantee, t.Guarantee}} {
		text, isWritten := queue.Annotations[a.key]
		if !isWritten {
			continue
		}

		cards, err := card.ParseQuota(text)
		if err != nil {
			refusal = &Refusal{Reason: ReasonInvalidQuota, Message: fmt.Sprintf("Queue <%s> has an invalid %s: %v", queue.Name, a.key, err)}
			// Part of the amounts would be a tree that no administrator wrote, so the queue gets
			// none.
			clear(t.Quota)
			clear(t.Deserved)
			clear(t.Guarantee)
			break
		}

		a.amounts.AddCards(cards)
	}

	return t, refusal
}

// readCompute reads the CPU or memory of a Queue, in units of 10^scale. limit is its quota.
func readCompute(t *quota.TreeQueue, queue *v1beta1.Queue, name corev1.ResourceName, key quota.Resource, scale resource.Scale, limit int64, isManaged bool) {
	_, isLimited := queue.Spec.Capability[name]
	deserved, deserves := queue.Spec.Deserved[name]
	guarantee, guarantees := queue.Spec.Guarantee.Resource[name]

	if deserves {
		t.Deserved[key] = amountOf(deserved, scale)
	}
	if guarantees {
		t.Guarantee[key] = amountOf(guarantee, scale)
	}

	// What is inherited stays unwritten. Written as Unlimited, the tree would report it as above
	// the parent's.
	hasAmount := deserves || guarantees
	switch inherits := t.Parent != "" && limit != 0 && !isManaged && !isLimited; {
	case inherits && !hasAmount:
		t.Guarantee[key] = 0 // names the resource, so that it is inherited
	case inherits, isManaged && !isLimited && hasAmount:
	default:
		t.Quota[key] = limit
	}
}

// stopsWork reports whether a stop policy lets nothing new start. An unknown value does, too.
func stopsWork(policy v1alpha1.StopPolicy) bool {
	return policy != "" && policy != v1alpha1.StopPolicyNone
}

// amountOf returns a quantity in units of 10^scale, 0 if it is negative, and Unlimited from
// maxCapability on.
func amountOf(quantity resource.Quantity, scale resource.Scale) int64 {
	switch {
	case quantity.Sign() <= 0:
		return 0
	case quantity.AsApproximateFloat64() >= maxCapability:
		return quota.Unlimited
	}
	return quantity.ScaledValue(scale)
}

// The reasons of refusals in a tree, beside ReasonParentNotFound.
const (
	ReasonParentCycle  = "ParentCycle"
	ReasonTreeTooDeep  = "TreeTooDeep"
	ReasonQueueParent  = "QueueIsParent"
	ReasonQueueHeld    = "QueueHeld"
	ReasonGuaranteed   = "GuaranteedToOthers"
	ReasonCannotBorrow = "CannotBorrow"
)

// maxHoldMessageLength bounds the message of a hold, in characters. The operator's are shorter.
const maxHoldMessageLength = 600

// HoldMessage returns why the operator holds a Queue, "" if it does not say so. Users can write the
// annotation, too, so only printable characters stay.
func HoldMessage(queue *v1beta1.Queue) string {
	message := []rune(queue.Annotations[v1alpha1.AnnotationHoldMessage])
	message = message[:min(len(message), maxHoldMessageLength)]
	for i, r := range message {
		if !unicode.IsPrint(r) {
			message[i] = ' '
		}
	}
	return string(message)
}

// RefusalForFault returns why a queue of a tree takes no new work, nil if it does.
func RefusalForFault(queue string, fault quota.Fault) *Refusal {
	at := ""
	if fault.Queue != queue {
		at = fmt.Sprintf(" (its ancestor <%s>)", fault.Queue)
	}

	switch {
	case fault.Kind == quota.NoFault:
		return nil
	case fault.Kind == quota.ParentNotFound:
		return &Refusal{Reason: ReasonParentNotFound, Message: fmt.Sprintf(
			"Queue <%s>%s names parent <%s>, which does not exist: nothing new starts in it; create the parent, or name an existing one", queue, at, fault.Parent)}
	case fault.Kind == quota.ParentCycle:
		return &Refusal{Reason: ReasonParentCycle, Message: fmt.Sprintf(
			"Queue <%s>%s names parent <%s>, which leads back to it: nothing new starts in it; set spec.parent to a queue that leads to <%s>", queue, at, fault.Parent, RootQueue)}
	case fault.Kind == quota.TooDeep:
		return &Refusal{Reason: ReasonTreeTooDeep, Message: fmt.Sprintf(
			"Queue <%s> is more than %d levels below <%s>: nothing new starts in it; move it up", queue, quota.MaxDepth, RootQueue)}
	case fault.Kind == quota.IsParent:
		return &Refusal{Reason: ReasonQueueParent, Message: fmt.Sprintf(
			"Queue <%s> is the parent of other queues and takes no jobs: name one of its children", queue)}
	case fault.HoldMessage != "":
		return &Refusal{Reason: ReasonQueueHeld, Message: fmt.Sprintf(
			"Queue <%s>%s is held by the operator: nothing new starts in it; %s", queue, at, fault.HoldMessage)}
	default:
		return &Refusal{Reason: ReasonQueueHeld, Message: fmt.Sprintf(
			"Queue <%s>%s is held by its stop policy: nothing new starts in it; set stopPolicy to None to go on", queue, at)}
	}
}

// RefusalOfAncestor returns the refusal of an ancestor as that of a queue below it.
func RefusalOfAncestor(queue string, refusal *Refusal) *Refusal {
	of := *refusal
	of.Message = fmt.Sprintf("%s; it binds queue <%s> below it", refusal.Message, queue)
	return &of
}

// treeRefusal returns the refusal for a limit that only a tree has.
func treeRefusal(s *quota.InsufficientQuota) *Refusal {
	requester := s.Queue
	amount := func(n int64) string { return formatAmount(s, n) }
	if s.Ancestor {
		requester = s.Requester
	}

	switch s.Kind {
	case quota.NotReclaimable:
		return &Refusal{Reason: ReasonCannotBorrow, Message: fmt.Sprintf(
			"Queue <%s> cannot borrow %s for pods from which no other queue can reclaim: requested <%s>, such pods would use <%s>%s, but deserved is <%s>; let the pods be preemptable, or raise what the queue deserves",
			requester, s.Resource(), amount(s.Requested), amount(s.Total), inAncestor(s), amount(s.Limit))}
	case quota.RecentlyReclaimed:
		return &Refusal{Reason: ReasonCannotBorrow, Message: fmt.Sprintf(
			"Queue <%s> cannot borrow %s for a while, because another queue has just reclaimed them: requested <%s>, total would be <%s>%s, but deserved is <%s>",
			requester, s.Resource(), amount(s.Requested), amount(s.Total), inAncestor(s), amount(s.Limit))}
	case quota.KeptForOthers:
		return &Refusal{Reason: ReasonInsufficientScalarQuota, Message: fmt.Sprintf(
			"Queue <%s> waits while %s are held for pods that reclaimed them: requested <%s>, total would be <%s>%s, but capability is <%s>",
			requester, s.Resource(), amount(s.Requested), amount(s.Total), inAncestor(s), amount(s.Limit))}
	case quota.Guaranteed:
		where := fmt.Sprintf("capability of <%s> is <%s>", s.Queue, amount(s.Limit))
		if s.Queue == "" {
			where = fmt.Sprintf("the inventory is <%s>", amount(s.Limit))
		}
		return &Refusal{Reason: ReasonGuaranteed, Message: fmt.Sprintf(
			"Queue <%s> cannot use %s that are guaranteed to other queues: requested <%s>, total with unused guarantees would be <%s>, but %s",
			requester, s.Resource(), amount(s.Requested), amount(s.Total), where)}
	case quota.Inventory:
		return &Refusal{Reason: ReasonCannotBorrow, Message: fmt.Sprintf(
			"Queue <%s> cannot borrow %s that the nodes do not have: requested <%s>, total with usage and reservations of all queues would be <%s>, but the inventory is <%s>",
			requester, s.Resource(), amount(s.Requested), amount(s.Total), amount(s.Limit))}
	default: // quota.Deserved
		return &Refusal{Reason: ReasonCannotBorrow, Message: fmt.Sprintf(
			"Queue <%s> reclaims nothing beyond what it deserves: requested <%s> of %s, total would be <%s>, but deserved is <%s>",
			requester, amount(s.Requested), s.Resource(), amount(s.Total), amount(s.Limit))}
	}
}

// inAncestor names the ancestor whose limit is exceeded.
func inAncestor(s *quota.InsufficientQuota) string {
	if !s.Ancestor {
		return ""
	}
	return fmt.Sprintf(" in its ancestor <%s>", s.Queue)
}

// formatAmount formats cards as whole numbers, CPU in millicores and memory in Mi.
func formatAmount(s *quota.InsufficientQuota, n int64) string {
	switch s.Of {
	case quota.CPU:
		return fmt.Sprintf("%dm", n)
	case quota.Memory:
		return formatMebibytes(n)
	}
	return fmt.Sprint(n)
}
