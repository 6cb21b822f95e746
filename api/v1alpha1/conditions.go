package v1alpha1

// Condition types of a CardQuota. True is good for every one of them.
const (
	// ConditionQueueSynced: the Queue carries what this CardQuota says.
	ConditionQueueSynced = "QueueSynced"
	// ConditionWithinQuota: the queue's pods hold no card beyond its quota.
	ConditionWithinQuota = "WithinQuota"
	// ConditionReady: the Queue carries this quota and takes work.
	ConditionReady = "Ready"
)

// Reasons of QueueSynced.
const (
	// ReasonSynced: the Queue carries every field of this CardQuota. True.
	ReasonSynced = "Synced"
	// ReasonForeignChangeReplaced: fields of the Queue that belong to this
	// CardQuota had been written by somebody else and were replaced; the message
	// names the writer and the time. True. It stands until the spec changes. A
	// writer that goes on is answered ever later, after at most eight seconds, and
	// the message says when.
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

// Reasons of Ready, besides those of QueueSynced, which it repeats when the
// Queue is not synced.
const (
	// ReasonReady: the Queue carries this quota and is Open. True.
	ReasonReady = "Ready"
	// ReasonQueueNotOpen: Volcano has not opened the Queue, or somebody closed
	// it; it takes no work. False.
	ReasonQueueNotOpen = "QueueNotOpen"
)
