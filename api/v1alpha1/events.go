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
	// EventReady: the CardQuota became ready. Normal.
	EventReady = ReasonReady
)
