package observer

import (
	"fmt"
	"time"

	"cardquota.dev/operator/test/observer/sessioncheck"
)

// Invariant is one of the rules that the observer checks.
type Invariant string

// The invariants.
const (
	// Quota: for each queue and card, the cards of placed pods never exceed the quota that was
	// in force when a pod was placed.
	Quota Invariant = "I1 quota"
	// Card: no pod is on a card that its request does not name.
	Card Invariant = "I2 card"
	// Tenancy: no pod gets a card from a queue that does not allow its namespace.
	Tenancy Invariant = "I1 tenancy"
	// Status: the usage, cards, CPU and memory in CardQuotas and Queues equal a recount of the
	// pods within Options.StatusWithin of the last change. The CardInventory does so within
	// Options.InventoryWithin, LocalCardQuotas within Options.ViewWithin. What waits and states why is
	// in status.blocked, or counted in its total, within Options.ReasonWithin.
	Status Invariant = "I3 status"
	// Metrics: what the operator and the scheduler serve as metrics equals a recount within
	// Options.ViewWithin. Card-seconds never fall, and grow as pods use cards.
	Metrics Invariant = "I3 metrics"
	// Eviction: every eviction follows the rules of preempt and reclaim; each victim's
	// reclaimer is placed within Options.PlacedWithin, on the cards that were freed for it unless it
	// moves; no second eviction is for the same want; cardreclaim leaves no job below minAvailable.
	Eviction Invariant = "I4 eviction"
	// Process: no followed process panics, has a data race or ends by itself.
	Process Invariant = "I5 process"
	// Reason: what waits for cards states why within Options.ReasonWithin.
	Reason Invariant = "I6 reason"
	// Progress: what fits its queue's quota and the nodes starts within three closed sessions,
	// unless another unit may be placed first.
	Progress Invariant = sessioncheck.Progress
	// Truth: the insufficient quota that a pod, PodGroup or CardQuota states existed when a session stated
	// it, and the reasons and holders in status.blocked equal a recount, where one is possible, within
	// Options.ReasonWithin.
	Truth Invariant = sessioncheck.Truth
	// Capacity: no placement exceeds the CPU or memory of its queue, or what its
	// node has.
	Capacity Invariant = sessioncheck.Capacity
	// Sight is no invariant of the cluster: the observer missed changes, so the absence of
	// violations proves nothing.
	Sight Invariant = "observer"
)

// Violation is one violation of an invariant.
type Violation struct {
	Invariant Invariant
	// Time is when the change was seen, or when the deadline passed.
	Time time.Time
	// Object is kind/namespace/name, or a process's name.
	Object string
	// Message describes what is and what should be.
	Message string
}

// String returns the violation as one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s [%s] %s: %s", v.Time.Format("15:04:05.000"), v.Invariant, v.Object, v.Message)
}
