package v1alpha1

// Reasons of the events on a CardQuota. Each is emitted once per transition.
const (
	// EventForeignChangeReplaced: what somebody else wrote to the Queue was
	// replaced. Warning. It is told again when somebody else wrote, or something
	// else was written, or after five quiet minutes.
	EventForeignChangeReplaced = ReasonForeignChangeReplaced
	// EventWeightConflict: the Queue's weight is left to its manager. Warning.
	EventWeightConflict = ReasonWeightConflict
	// EventQueueConflict: an older CardQuota has the queue. Warning.
	EventQueueConflict = ReasonQueueConflict
	// EventQueueRefused: the Queue could not be written or deleted. Warning.
	EventQueueRefused = ReasonQueueRefused
	// EventQueueRecreated: the Queue was gone and was made again. Warning.
	EventQueueRecreated = "QueueRecreated"
	// EventAdopted: the CardQuota took over a Queue that it did not make, and
	// will not delete. Normal.
	EventAdopted = "Adopted"
	// EventOverQuota: more is held than the quota gives. Warning.
	EventOverQuota = ReasonOverQuota
	// EventOverAllocated: all CardQuotas together grant more of a card than there
	// are healthy ones. Warning; not with overAllocation Allow.
	EventOverAllocated = ReasonOverAllocated
	// EventInvalidNamespaceSelector: spec.namespaceSelector is none that Kubernetes
	// accepts. Warning.
	EventInvalidNamespaceSelector = ReasonInvalidNamespaceSelector
	// EventReady: the CardQuota became ready. Normal.
	EventReady = ReasonReady
)

// Reasons of the events on a ServiceTypePolicy. Each is emitted once per
// transition.
const (
	// EventConfigCorrected: somebody else wrote or deleted the scheduler's ConfigMap,
	// and it was put right. Warning. It is told each time.
	EventConfigCorrected = "ConfigCorrected"
	// EventInvalidPolicy: the spec contradicts itself and is not put in force.
	// Warning.
	EventInvalidPolicy = ReasonInvalidPolicy
	// EventBaseMissing: the ConfigMap that the policy is laid over is gone. Warning.
	EventBaseMissing = ReasonBaseMissing
	// EventBaseInvalid: the text that the policy is laid over cannot be used. Warning.
	EventBaseInvalid = ReasonBaseInvalid
	// EventHierarchyNotSupported: in the text that the policy is laid over, plugin
	// capacity limits a tree of queues. Warning.
	EventHierarchyNotSupported = ReasonHierarchyNotSupported
	// EventConfigRefused: a ConfigMap could not be read or written. Warning.
	EventConfigRefused = ReasonConfigRefused
	// EventConfigSynced: the scheduler's configuration says what the policy says,
	// for the first time or again. Normal.
	EventConfigSynced = "ConfigSynced"
	// EventPriorityClassKept: a PriorityClass of a wanted name belongs to somebody
	// else, has another value and is left alone. Warning.
	EventPriorityClassKept = "PriorityClassKept"
)

// EventUnknownFields on both kinds: the spec was written with fields that this version
// does not know. Warning.
const EventUnknownFields = ReasonUnknownFields

// Reasons of the events on both kinds, once per change of condition Enforced.
const (
	// EventEnforced: quotas are proven to be enforced. Normal.
	EventEnforced = ReasonEnforced
	// EventNotEnforced: quotas are not, or no longer, proven to be enforced; the
	// message begins with the reason of the condition. Warning.
	EventNotEnforced = "NotEnforced"
)
