package v1alpha1

// Condition types of a CardQuota. True is good for every one of them.
const (
	// ConditionQueueSynced: the Queue carries what this CardQuota says.
	ConditionQueueSynced = "QueueSynced"
	// ConditionWithinQuota: the queue's pods hold no card beyond its quota.
	ConditionWithinQuota = "WithinQuota"
	// ConditionInventorySatisfied: of no card that this CardQuota grants do all
	// CardQuotas together grant more than healthy nodes have. Whatever it says, the
	// quota is enforced as written and Ready is not touched by it.
	ConditionInventorySatisfied = "InventorySatisfied"
	// ConditionReady: the Queue carries this quota and takes work, and with a
	// ServiceTypePolicy the quota is proven to be enforced.
	ConditionReady = "Ready"
)

// Reasons of QueueSynced.
const (
	// ReasonSynced: the Queue carries every field of this CardQuota. True.
	ReasonSynced = "Synced"
	// ReasonForeignChangeReplaced: fields of the Queue that belong to this
	// CardQuota had been written by somebody else and were replaced; the message
	// names the writer and the time. True. It stands until the spec changes. A
	// writer that goes on is answered once a second.
	ReasonForeignChangeReplaced = "ForeignChangeReplaced"
	// ReasonWeightConflict: the quota is on the Queue, but spec.weight is
	// managed by somebody else and was left alone. True.
	ReasonWeightConflict = "WeightConflict"
	// ReasonQueueConflict: an older CardQuota has the queue; the message names
	// it. False.
	ReasonQueueConflict = "QueueConflict"
	// ReasonQueueRefused: the API server or Volcano's webhook refused to write
	// or delete the Queue; the message says why. False.
	ReasonQueueRefused = "QueueRefused"
	// ReasonQueueReserved: the queue belongs to Volcano and is never written.
	// False.
	ReasonQueueReserved = "QueueReserved"
	// ReasonInvalidNamespaceSelector: spec.namespaceSelector is none that
	// Kubernetes accepts; the message says what is wrong with it. The Queue keeps
	// what it had, or is not made. False.
	ReasonInvalidNamespaceSelector = "InvalidNamespaceSelector"
	// ReasonDraining: the CardQuota is being deleted; the Queue has no quota any
	// more and goes when nothing uses it. False.
	ReasonDraining = "Draining"
)

// Reasons of WithinQuota.
const (
	// ReasonWithinQuota: nothing is held beyond the quota. True.
	ReasonWithinQuota = "WithinQuota"
	// ReasonOverQuota: more is held than the quota gives, as after lowering it.
	// False.
	ReasonOverQuota = "OverQuota"
	// ReasonNotCounted: pods have not been counted yet, or this CardQuota does
	// not have its queue. Unknown.
	ReasonNotCounted = "NotCounted"
)

// Reasons of InventorySatisfied, besides ReasonNotCounted.
const (
	// ReasonInventorySatisfied: there are as many healthy cards as all CardQuotas
	// grant. True.
	ReasonInventorySatisfied = "InventorySatisfied"
	// ReasonOverAllocationAllowed: more is granted than there are healthy cards,
	// and overAllocation Allow says that this is meant; the message counts. True.
	ReasonOverAllocationAllowed = "OverAllocationAllowed"
	// ReasonOverAllocated: more is granted than there are healthy cards; the
	// message says of which card, how many, and by whom. Nothing is withheld. False.
	ReasonOverAllocated = "OverAllocated"
)

// Reasons of Ready, besides those of QueueSynced, which it repeats when the
// Queue is not synced.
const (
	// ReasonReady: the Queue carries this quota and is Open. True.
	ReasonReady = "Ready"
	// ReasonQueueNotOpen: Volcano has not opened the Queue, or somebody closed
	// it; it takes no work. False.
	ReasonQueueNotOpen = "QueueNotOpen"
)

// Condition types of a ServiceTypePolicy besides ConditionEnforced and
// ConditionReady. True is good for every one of them.
const (
	// ConditionConfigSynced: the scheduler's ConfigMap says what this policy says; the
	// message names what it is rendered from, and what of that was replaced.
	ConditionConfigSynced = "ConfigSynced"
)

// ConditionFieldsKnown on a CardQuota and on the ServiceTypePolicy is there only when
// it is False: somebody wrote fields of the spec that this version does not know.
const ConditionFieldsKnown = "FieldsKnown"

// ReasonUnknownFields of FieldsKnown: the message names the fields, which have no
// effect. False.
const ReasonUnknownFields = "UnknownFields"

// ConditionEnforced on a CardQuota and on the ServiceTypePolicy: a scheduler
// that enforces quotas is at work, by the configuration that was written, and
// no pod holds a card past it. It is proven by the scheduler's heartbeat and
// False as soon as the proof is missing.
const ConditionEnforced = "Enforced"

// Reasons of ConfigSynced, besides ReasonSynced.
const (
	// ReasonInvalidPolicy: the spec contradicts itself; nothing of it was written
	// and what was in force before stays. False.
	ReasonInvalidPolicy = "InvalidPolicy"
	// ReasonBaseMissing: the ConfigMap that this policy is laid over, or its key, is
	// gone; what was rendered last stays. False.
	ReasonBaseMissing = "BaseMissing"
	// ReasonBaseInvalid: the text that this policy is laid over cannot be read, or no
	// scheduler would load the result; what was rendered last stays. False.
	ReasonBaseInvalid = "BaseInvalid"
	// ReasonHierarchyNotSupported: Volcano's plugin capacity limits a tree of queues
	// (enableHierarchy: true), which card quotas would not keep to. What was rendered
	// last stays. False.
	ReasonHierarchyNotSupported = "HierarchyNotSupported"
	// ReasonConfigRefused: a ConfigMap could not be read or written. False.
	ReasonConfigRefused = "ConfigRefused"
)

// Reasons of Enforced.
const (
	// ReasonEnforced: the scheduler's heartbeat is fresh and names the
	// configuration that was written. True.
	ReasonEnforced = "Enforced"
	// ReasonNoPolicy: there is no ServiceTypePolicy, so nothing is known of the
	// scheduler's configuration. Unknown.
	ReasonNoPolicy = "NoPolicy"
	// ReasonNoHeartbeat: no scheduler of Cardquota has finished a session within
	// the last 20 seconds, and no other one is known to be at work. False.
	ReasonNoHeartbeat = "NoHeartbeat"
	// ReasonStockScheduler: another scheduler is at work in the place of
	// Cardquota's; it knows no card quota. False.
	ReasonStockScheduler = "StockScheduler"
	// ReasonSecondScheduler: somebody else binds pods of our scheduler's name
	// beside it. False.
	ReasonSecondScheduler = "SecondScheduler"
	// ReasonNotConfigured: the ConfigMap does not say what the policy says. False.
	ReasonNotConfigured = "NotConfigured"
	// ReasonConfigNotLoaded: the scheduler works by another configuration than the
	// one that was written. False.
	ReasonConfigNotLoaded = "ConfigNotLoaded"
	// ReasonCardBypass: a pod holds a card without having passed the scheduler:
	// through another schedulerName or a node name of its own. False.
	ReasonCardBypass = "CardBypass"
)
