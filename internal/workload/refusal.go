package workload

import (
	"cmp"
	"strings"
	"time"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// Refusal is why the scheduler or a webhook refuses cards. Message words it for people, and ReadRefusal reads
// such a message again, both in refusalwording.go. Data says it to programs. Two refusals are equal if they say
// the same.
type Refusal struct {
	// Code is what refuses. It decides which of the other fields count.
	Code Code `json:"code"`
	// Queue is the queue whose limit or state refuses, "" for another cause. Requester is the queue of the
	// workload if that is another one below it.
	Queue     string `json:"queue,omitempty"`
	Requester string `json:"requester,omitempty"`
	// Cards are the cards that the queue cannot get more of, joined by "|", and OtherCards is how many further
	// alternatives have no room either. Resource is CPU or memory if that is limited, "" for cards.
	Cards      string         `json:"cards,omitempty"`
	OtherCards int            `json:"otherCards,omitempty"`
	Resource   quota.Resource `json:"resource,omitempty"`
	// Requested, Total and Limit are those of quota.InsufficientQuota: the request, the usage and reservations
	// including it, and the limit, in cards, millicores or bytes. GracePeriod is the longest one of the
	// terminating pods.
	Requested   int64         `json:"requested,omitempty"`
	Total       int64         `json:"total,omitempty"`
	Limit       int64         `json:"limit,omitempty"`
	GracePeriod time.Duration `json:"gracePeriodNanoseconds,omitempty"`
	// IsDenied reports whether the queue is limited because it has no quota.
	IsDenied bool `json:"isDenied,omitempty"`
	// IsKept reports whether what is free is kept for pods for which others were preempted.
	IsKept bool `json:"isKept,omitempty"`
	// AllCards is what card.request says for the whole job, and MinimumCards what its minimum needs. They are 0
	// unless card.request is what does not fit.
	AllCards     int64 `json:"allCards,omitempty"`
	MinimumCards int64 `json:"minimumCards,omitempty"`
	// Object and Other name what else the refusal is about, and Detail is text that is not read any further.
	Object string `json:"object,omitempty"`
	Other  string `json:"other,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Policy is that of the policy for queues without a quota.
	Policy v1alpha1.UnmanagedQueues `json:"policy,omitempty"`
}

// Code is what a refusal says: each has one sentence.
type Code string

// The codes of refusals. Those up to CodeRootDenied are about a limit of a queue.
const (
	CodeCardQuota         Code = "CardQuota"
	CodeCPUQuota          Code = "CPUQuota"
	CodeMemoryQuota       Code = "MemoryQuota"
	CodeNoCPU             Code = "NoCPUCapability"
	CodeNoMemory          Code = "NoMemoryCapability"
	CodeTerminating       Code = "CardsTerminating"
	CodeNotReclaimable    Code = "NotReclaimable"
	CodeRecentlyReclaimed Code = "RecentlyReclaimed"
	CodeKeptForReclaimers Code = "KeptForReclaimers"
	CodeGuaranteed        Code = "GuaranteedToOthers"
	CodeBeyondInventory   Code = "BeyondInventory"
	CodeBeyondDeserved    Code = "BeyondDeserved"
	CodeRootDenied        Code = "RootDenied"

	CodeQueueNotFound       Code = "QueueNotFound"
	CodeQueueDeleted        Code = "QueueDeleted"
	CodeQueueWithoutState   Code = "QueueWithoutState"
	CodeQueueNotOpen        Code = "QueueNotOpen"
	CodeInvalidQuota        Code = "InvalidQuota"
	CodeInvalidSelector     Code = "InvalidSelector"
	CodeNamespaceUnknown    Code = "NamespaceUnknown"
	CodeNamespaceNotAllowed Code = "NamespaceNotAllowed"
	CodeParentNotFound      Code = "ParentNotFound"
	CodeParentCycle         Code = "ParentCycle"
	CodeTooDeep             Code = "TooDeep"
	CodeIsParent            Code = "IsParent"
	CodeHeldByOperator      Code = "HeldByOperator"
	CodeHeldByStopPolicy    Code = "HeldByStopPolicy"

	CodeInvalidArguments Code = "InvalidArguments"
	CodeNotSynced        Code = "NotSynced"
	CodeVCJobUnknown     Code = "VCJobUnknown"

	CodeMixedPod         Code = "MixedPodAnnotation"
	CodeInvalidPod       Code = "InvalidPodAnnotation"
	CodeMixedPodGroup    Code = "MixedPodGroupAnnotation"
	CodeInvalidPodGroup  Code = "InvalidPodGroupAnnotation"
	CodeTwoResources     Code = "TwoResources"
	CodeTooManyCards     Code = "TooManyCards"
	CodeUnnamedCards     Code = "UnnamedCards"
	CodeOtherResource    Code = "OtherResource"
	CodeNotACard         Code = "NotACard"
	CodeClaimsUnreadable Code = "ClaimsUnreadable"
	CodeClaimForCards    Code = "ClaimForCards"
	CodeClaimForAny      Code = "ClaimForAnyDevice"
	CodeClaimNotFound    Code = "ClaimNotFound"
	CodePodGroupNotFound Code = "PodGroupNotFound"
	CodeMayNotReclaim    Code = "MayNotReclaim"
	CodeCardNotAllowed   Code = "CardNotAllowed"
)

// The reasons of refusals, for events and conditions. The requirements name the first five, and tools look
// for them.
const (
	ReasonInsufficientScalarQuota = "InsufficientScalarQuota"
	ReasonInsufficientCPUQuota    = "InsufficientCPUQuota"
	ReasonInsufficientMemoryQuota = "InsufficientMemoryQuota"
	ReasonEmptyQueueCapability    = "EmptyQueueCapability"
	ReasonGetTaskRequestFailed    = "GetTaskRequestResourceFailed"
	ReasonInvalidQuota            = "InvalidCardQuota"
	ReasonQueueNotOpen            = v1alpha1.ReasonQueueNotOpen
	ReasonQueueNotFound           = "QueueNotFound"
	ReasonNotReady                = "SchedulerNotReady"
	ReasonParentNotFound          = v1alpha1.ReasonParentNotFound
	ReasonParentCycle             = v1alpha1.ReasonParentCycle
	ReasonTreeTooDeep             = "TreeTooDeep"
	ReasonQueueParent             = "QueueIsParent"
	ReasonQueueHeld               = "QueueHeld"
	ReasonGuaranteed              = "GuaranteedToOthers"
	ReasonCannotBorrow            = "CannotBorrow"
	// ReasonCardsEnding: terminating pods use more cards than the queue's quota.
	ReasonCardsEnding = "CardsEnding"
	// ReasonNamespaceNotAllowed: the queue's selector does not match the pod's namespace.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonInvalidNamespaceSelector: the queue's selector cannot be parsed, so it matches no namespace.
	ReasonInvalidNamespaceSelector = v1alpha1.ReasonInvalidNamespaceSelector
	// ReasonUnmanagedClaim: a ResourceClaim of the pod is for cards, which no quota limits, or may be.
	ReasonUnmanagedClaim = "UnmanagedClaim"
)

// Error returns the message.
func (r *Refusal) Error() string { return r.Message() }

// Reason is stable, for events and conditions. It is that of the code, except for root where queues without a
// quota are denied: there it also depends on what is requested.
func (r *Refusal) Reason() string {
	if r.Code == CodeRootDenied && !r.Resource.IsCard() {
		return ReasonEmptyQueueCapability
	}
	return wordingFor(r.Code).reason
}

// Blocked returns what the refusal means to its workload: the reason why it waits.
func (r *Refusal) Blocked() v1alpha1.BlockedReason {
	switch {
	case r.Code != CodeCardQuota:
		return wordingFor(r.Code).blocked
	case r.Requester != "":
		return v1alpha1.BlockedAncestorQuotaExhausted
	// Waiting never helps against a quota of 0, so it has a reason of its own.
	case r.Limit == 0:
		return v1alpha1.BlockedNoQuota
	}
	return v1alpha1.BlockedQuotaExhausted
}

// Topic returns what stays the same while only the usage of the queue changes, so that a refusal is reported
// once and not with each pod that starts or ends.
func (r *Refusal) Topic() Refusal {
	topic := *r
	topic.Total = 0
	topic.IsKept = false
	return topic
}

// CardNames returns the cards that the queue cannot get more of, nil for other refusals.
func (r *Refusal) CardNames() []card.Name {
	if r.Cards == "" {
		return nil
	}
	var names []card.Name
	for name := range strings.SplitSeq(r.Cards, "|") {
		names = append(names, card.Name(name))
	}
	return names
}

// QuotaQueue returns the queue whose quota refuses, "" for other refusals.
func (r *Refusal) QuotaQueue() string {
	switch r.Code {
	case CodeCardQuota, CodeCPUQuota, CodeMemoryQuota, CodeNoCPU, CodeNoMemory, CodeTerminating, CodeRootDenied:
		return r.Queue
	}
	return ""
}

// RequestedCards returns how many cards a quota refuses at once, 0 for other refusals.
func (r *Refusal) RequestedCards() int64 {
	if r.Code != CodeCardQuota {
		return 0
	}
	return r.Requested
}

// RefusalFor returns the refusal for an insufficient quota.
func RefusalFor(insufficient *quota.InsufficientQuota) *Refusal {
	refusal := &Refusal{
		Code: codeFor(insufficient), Queue: insufficient.Queue, Resource: insufficient.Of, Requested: insufficient.Requested, Total: insufficient.Total, Limit: insufficient.Limit,
	}
	if insufficient.Ancestor { // Queue is an ancestor of the queue of the workload
		refusal.Requester = insufficient.Requester
	}
	if insufficient.Of.IsCard() {
		refusal.Resource = ""
		refusal.Cards = insufficient.CardLabel()
		refusal.OtherCards = insufficient.OtherCards
	}

	switch refusal.Code {
	case CodeTerminating: // it refuses every request, however small
		refusal.Requested = 0
		refusal.GracePeriod = insufficient.GracePeriod
	// The limit is that of the nodes, or of the queue that would reclaim: no ancestor refuses.
	case CodeBeyondInventory, CodeBeyondDeserved:
		refusal.Queue = refusal.waitingQueue()
		refusal.Requester = ""
	case CodeNoCPU, CodeNoMemory: // without a capability, the amounts say nothing
		return &Refusal{Code: refusal.Code, Queue: insufficient.Queue}
	}

	return refusal
}

// codesOfKinds are the codes of refusals for an insufficient quota, except those of a quota.HardLimit.
var codesOfKinds = map[quota.LimitKind]Code{
	quota.Terminating:       CodeTerminating,
	quota.NotReclaimable:    CodeNotReclaimable,
	quota.RecentlyReclaimed: CodeRecentlyReclaimed,
	quota.KeptForOthers:     CodeKeptForReclaimers,
	quota.Guaranteed:        CodeGuaranteed,
	quota.Inventory:         CodeBeyondInventory,
	quota.Deserved:          CodeBeyondDeserved,
}

// codeFor returns the code of the refusal for an insufficient quota.
func codeFor(insufficient *quota.InsufficientQuota) Code {
	if insufficient.Kind == quota.HardLimit {
		return hardLimitCode(insufficient)
	}
	return codesOfKinds[insufficient.Kind]
}

// hardLimitCode returns the code of the refusal for the quota of a card, or for the limit of CPU or memory. One
// of 0 is a capability that is not set, which administrators do not expect.
func hardLimitCode(insufficient *quota.InsufficientQuota) Code {
	switch {
	case insufficient.Of.IsCard():
		return CodeCardQuota
	case insufficient.Of == quota.CPU && insufficient.Limit == 0:
		return CodeNoCPU
	case insufficient.Of == quota.CPU:
		return CodeCPUQuota
	case insufficient.Limit == 0:
		return CodeNoMemory
	default:
		return CodeMemoryQuota
	}
}

// waitingQueue returns the queue of the workload: the one below an ancestor that refuses, else the one that refuses.
func (r *Refusal) waitingQueue() string { return cmp.Or(r.Requester, r.Queue) }

// RefusalFor returns the refusal for an insufficient quota of this queue. Where queues without a quota are
// denied, root may use nothing, and its refusal has no amounts.
func (r QueueRules) RefusalFor(insufficient *quota.InsufficientQuota) *Refusal {
	refusal := RefusalFor(insufficient)
	refusal.IsDenied = r.Denied
	if !r.Denied || insufficient.Queue != RootQueue {
		return refusal
	}

	denied := &Refusal{Code: CodeRootDenied, Queue: insufficient.Queue}
	if !insufficient.Of.IsCard() {
		denied.Resource = insufficient.Of
	}
	return denied
}

// codesOfFaults are the codes of refusals for a fault. One of quota.IsHeld with a message is CodeHeldByOperator.
var codesOfFaults = map[quota.FaultKind]Code{
	quota.ParentNotFound: CodeParentNotFound,
	quota.ParentCycle:    CodeParentCycle,
	quota.TooDeep:        CodeTooDeep,
	quota.IsParent:       CodeIsParent,
	quota.IsHeld:         CodeHeldByStopPolicy,
}

// RefusalForFault returns why a queue of a tree takes no new work, nil if it does.
func RefusalForFault(queue string, fault quota.Fault) *Refusal {
	refusal := &Refusal{Code: codesOfFaults[fault.Kind], Queue: fault.Queue}
	switch fault.Kind {
	case quota.NoFault:
		return nil
	case quota.ParentNotFound, quota.ParentCycle:
		refusal.Object = fault.Parent
	case quota.TooDeep, quota.IsParent: // the fault of the queue itself, and not of one above it
		return &Refusal{Code: refusal.Code, Queue: queue}
	case quota.IsHeld:
		refusal.Detail = fault.HoldMessage
		if fault.HoldMessage != "" {
			refusal.Code = CodeHeldByOperator
		}
	}

	if fault.Queue != queue { // an ancestor has the fault
		refusal.Requester = queue
	}

	return refusal
}

// RefusalOfAncestor returns the refusal of an ancestor as that of a queue below it.
func RefusalOfAncestor(queue string, refusal *Refusal) *Refusal {
	below := *refusal
	below.Requester = queue
	return &below
}
