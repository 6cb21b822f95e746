package workload

import (
	"fmt"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
)

// Refusal is why the scheduler or a webhook refuses cards. Reason is stable, for events and
// conditions; Message is for people.
type Refusal struct {
	Reason  string
	Message string
	// Topic is equal for refusals that differ only in a running total, "" when the message has
	// none.
	Topic string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// The reasons of refusals. The requirements name the first five, and tools look for them.
const (
	ReasonInsufficientScalarQuota = "InsufficientScalarQuota"
	ReasonInsufficientCPUQuota    = "InsufficientCPUQuota"
	ReasonInsufficientMemoryQuota = "InsufficientMemoryQuota"
	ReasonEmptyQueueCapability    = "EmptyQueueCapability"
	ReasonGetTaskRequestFailed    = "GetTaskRequestResourceFailed"
	ReasonInvalidQuota            = "InvalidCardQuota"
	ReasonQueueNotOpen            = "QueueNotOpen"
	ReasonQueueNotFound           = "QueueNotFound"
	ReasonNotReady                = "SchedulerNotReady"
	ReasonParentNotFound          = "ParentNotFound"
	// ReasonCardsEnding: terminating pods use more cards than the queue's quota.
	ReasonCardsEnding = "CardsEnding"
	// ReasonNamespaceNotAllowed: the queue's selector does not match the pod's namespace.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonInvalidNamespaceSelector: the queue's selector cannot be parsed, so it matches no namespace.
	ReasonInvalidNamespaceSelector = "InvalidNamespaceSelector"
	// ReasonUnmanagedClaim: a ResourceClaim of the pod is for cards, which no quota limits, or may be.
	ReasonUnmanagedClaim = "UnmanagedClaim"
)

// RefusalForUnknownVCJob returns the refusal for a PodGroup whose Volcano job has not been read, or is
// gone. Without it nothing says what the pods will request.
func RefusalForUnknownVCJob(namespace, name string) *Refusal {
	return &Refusal{Reason: ReasonNotReady, Message: fmt.Sprintf(
		"the scheduler does not know Volcano job <%s/%s>, which decides what the PodGroup requests", namespace, name)}
}

// RefusalFor returns the refusal for an insufficient quota. Cards are whole numbers, CPU is in Kubernetes
// millicores (500m), memory in Mi.
func RefusalFor(s *quota.InsufficientQuota) *Refusal {
	refusal := insufficientRefusal(s)
	refusal.Topic = fmt.Sprint(refusal.Reason, s.Kind, s.Of, s.Queue, s.Requester, s.Names, s.OtherCards, s.Requested, s.Limit, s.GracePeriod)
	if s.Kind == quota.Terminating { // equal for all requests
		refusal.Topic = fmt.Sprint(refusal.Reason, s.Queue, s.Requester, s.Names, s.OtherCards, s.Limit, s.GracePeriod)
	}
	return refusal
}

func insufficientRefusal(s *quota.InsufficientQuota) *Refusal {
	switch s.Kind {
	case quota.HardLimit:
		return hardLimitRefusal(s)
	case quota.Terminating:
		return &Refusal{Reason: ReasonCardsEnding, Message: fmt.Sprintf(
			"%s gets no more <%s> while pods that are being deleted hold more than its quota: terminating <%d>, but quota is <%d>; "+
				"they end within %d s, sooner with a shorter terminationGracePeriodSeconds",
			exceededQueue(s), s.CardLabel(), s.Total, s.Limit, int64(s.GracePeriod.Seconds())) + otherAlternatives(s.OtherCards)}
	}

	refusal := treeRefusal(s)
	refusal.Message += otherAlternatives(s.OtherCards)
	return refusal
}

// hardLimitRefusal returns the refusal for the quota of a card, or for the limit of CPU or memory.
func hardLimitRefusal(s *quota.InsufficientQuota) *Refusal {
	// A capability that is not set counts as 0, and most users do not expect that, so say it.
	if !s.Of.IsCard() && s.Limit == 0 {
		return missingCapability(s)
	}

	switch s.Of {
	case quota.CPU:
		return &Refusal{Reason: ReasonInsufficientCPUQuota, Message: fmt.Sprintf(
			"%s has insufficient CPU quota: requested <%dm>, total would be <%dm>, but capability is <%dm>",
			exceededQueue(s), s.Requested, s.Total, s.Limit)}
	case quota.Memory:
		return &Refusal{Reason: ReasonInsufficientMemoryQuota, Message: fmt.Sprintf(
			"%s has insufficient memory quota: requested <%s>, total would be <%s>, but capability is <%s>",
			exceededQueue(s), formatMebibytes(s.Requested), formatMebibytes(s.Total), formatMebibytes(s.Limit))}
	default:
		return &Refusal{Reason: ReasonInsufficientScalarQuota, Message: fmt.Sprintf(
			"%s has insufficient <%s> quota: requested <%d>, total would be <%d>, but capability is <%d>",
			exceededQueue(s), s.CardLabel(), s.Requested, s.Total, s.Limit) + otherAlternatives(s.OtherCards)}
	}
}

// exceededQueue names the queue whose limit is exceeded, and whose ancestor it is.
func exceededQueue(s *quota.InsufficientQuota) string {
	if s.Ancestor {
		return fmt.Sprintf("Queue <%s>, an ancestor of <%s>,", s.Queue, s.Requester)
	}
	return fmt.Sprintf("Queue <%s>", s.Queue)
}

// RefusalFor returns the refusal for an insufficient quota of this queue.
func (r QueueRules) RefusalFor(s *quota.InsufficientQuota) *Refusal {
	refusal := RefusalFor(s)
	if r.Denied {
		refusal.Topic += " denied"
	}

	switch {
	case !r.Denied:
	case s.Queue == RootQueue:
		refusal.Message = fmt.Sprintf("Queue <%s> may use nothing (unmanagedQueues: %s): submit to a queue that has a CardQuota", s.Queue, v1alpha1.UnmanagedDeny)
	default:
		refusal.Message += fmt.Sprintf("; it has no card quota, and such queues are denied (unmanagedQueues: %s): submit to a queue that has a CardQuota, or create one for this queue", v1alpha1.UnmanagedDeny)
	}

	return refusal
}

// otherAlternatives says how many more cards of the request are insufficient as well.
func otherAlternatives(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "; the other card it may use has no more room"
	default:
		return fmt.Sprintf("; none of the %d other cards it may use has more room", n)
	}
}

// missingCapability refuses a request to a queue with card.quota and without a capability for
// the resource. It says that unset means 0, which administrators do not expect.
func missingCapability(s *quota.InsufficientQuota) *Refusal {
	return &Refusal{Reason: ReasonEmptyQueueCapability, Message: fmt.Sprintf(
		"Queue <%s> has no %s capability and may use none: set spec.capability.%s (spec.resources.%s of its CardQuota)",
		s.Queue, s.Of, s.Of, s.Of)}
}

// formatMebibytes formats bytes in Mi, rounded up so that an insufficient amount never shows as 0.
func formatMebibytes(n int64) string { return fmt.Sprintf("%dMi", (n+(1<<20)-1)>>20) }
