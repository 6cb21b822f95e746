package observer

import (
	"fmt"
	"time"

	"cardquota.dev/operator/test/observer/sessioncheck"
)

// Invariant names one of the rules that the observer checks.
type Invariant string

// The invariants.
const (
	// Quota: per queue and card, use by actual placement never exceeds the
	// quota that was in force when a pod was placed.
	Quota Invariant = "I1 quota"
	// Card: no pod is on a card that its request does not name.
	Card Invariant = "I2 card"
	// Tenancy: no pod gets a card of a queue that leaves its namespace out.
	Tenancy Invariant = "I1 tenancy"
	// Status: what CardQuotas and Queues say about use, cards, CPU and memory,
	// equals a recount of the pods within Options.StatusWithin of the last change.
	Status Invariant = "I3 status"
	// Eviction: nothing outside the rules of preempt and reclaim is evicted, each
	// victim makes room for a reclaimer that is placed within
	// Options.PlacedWithin, and cardreclaim leaves no job below minAvailable.
	Eviction Invariant = "I4 eviction"
	// Process: no followed process panics, races or ends by itself.
	Process Invariant = "I5 process"
	// Reason: what waits for cards says why within Options.ReasonWithin.
	Reason Invariant = "I6 reason"
	// Progress: what fits its queue's quota and the nodes starts within three
	// closed sessions, unless something stands ahead of it.
	Progress Invariant = sessioncheck.Progress
	// Truth: a shortage that a pod, PodGroup or CardQuota states existed when a
	// session stated it.
	Truth Invariant = sessioncheck.Truth
	// Capacity: no placement exceeds the CPU or memory of its queue, or what its
	// node has.
	Capacity Invariant = sessioncheck.Capacity
	// Sight is no rule about the world: the observer could not see everything,
	// and its silence proves nothing.
	Sight Invariant = "observer"
)

// Violation is one breach of an invariant.
type Violation struct {
	Invariant Invariant
	// Time is when the change was seen, or when the time to act ran out.
	Time time.Time
	// Object is kind/namespace/name, or a process's name.
	Object string
	// Message says what is and what should be.
	Message string
}

// String is one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s [%s] %s: %s", v.Time.Format("15:04:05.000"), v.Invariant, v.Object, v.Message)
}
