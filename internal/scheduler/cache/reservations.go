package cache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
)

// ReservationTimeout is how long an enqueued job keeps its reservation while something other
// than quota blocks it: for example, no node matches its node selector.
const ReservationTimeout = 5 * time.Minute

// DefaultMaxReservation is how long more and more free cards prolong a reservation in all.
const DefaultMaxReservation = time.Hour

// Reservations has the reservations of enqueued PodGroups. A refusal for quota, a placed pod at
// the end of a session, and more free cards restart the wait.
type Reservations map[types.UID]*reservation

// reservation is what an enqueued PodGroup may wait for in a queue.
type reservation struct {
	// waitingSince is when the wait began, zero if the job does not wait. IsWaiting is set if
	// it waited since the last RemoveStale.
	waitingSince time.Time
	IsWaiting    bool
	// prolonged is how long it has waited before, while the free cards grew in number. IsExhausted is
	// set once that was as long as allowed. Then the job has no reservation until one of its pods is
	// placed, or the key of its request is not ExhaustedRequest, "" until that is known.
	prolonged        time.Duration
	IsExhausted      bool
	ExhaustedRequest string
	// FreeCards are the free cards that its missing pods could use in the last session that counted
	// them, -1 before.
	FreeCards int64
	// enqueued is set if the job was enqueued to queue with request, requested if the job still
	// requests no more cards.
	enqueued, requested bool
	queue               api.QueueID
	request             quota.JobRequest
}

// entryFor returns the entry of a PodGroup and creates it if needed.
func (r Reservations) entryFor(group types.UID) *reservation {
	if r[group] == nil {
		r[group] = &reservation{FreeCards: -1}
	}
	return r[group]
}

// RecordEnqueued stores the request with which a job was enqueued to its queue.
func (r Reservations) RecordEnqueued(job *api.JobInfo, request quota.JobRequest) {
	entry := r.entryFor(job.PgUID)
	entry.queue = job.Queue
	entry.request = request
	entry.enqueued = true
	entry.requested = true
}

// UnreservedExcess returns the part of a job's request with which it was not enqueued to its queue. It notes
// whether the job requests no more cards than that, for RemoveStale.
func (r Reservations) UnreservedExcess(job *api.JobInfo, request quota.JobRequest) quota.JobRequest {
	entry := r[job.PgUID]
	if entry == nil || !entry.enqueued || entry.queue != job.Queue {
		return request
	}
	excess := entry.request.Excess(request)
	entry.requested = len(excess.Cards) == 0
	return excess
}

// IsActive notes that a PodGroup waits in this session, and reports whether it still has its reservation.
// maxReservation bounds how long free cards prolong it: then it is exhausted, which means that it ended for good.
func (r Reservations) IsActive(group types.UID, now time.Time, maxReservation time.Duration) bool {
	entry := r.entryFor(group)
	entry.IsWaiting = true
	if entry.waitingSince.IsZero() {
		entry.waitingSince = now
	}
	if entry.prolonged > 0 && entry.prolonged+now.Sub(entry.waitingSince) >= maxReservation {
		entry.IsExhausted = true
	}
	return entry.IsReserved(now)
}

// IsReserved reports whether the PodGroup has its reservation.
func (r *reservation) IsReserved(now time.Time) bool {
	return r != nil && r.IsWaiting && !r.IsExhausted && now.Sub(r.waitingSince) < ReservationTimeout
}

// RestartWait restarts the timeout of a reservation, if its PodGroup waits.
func (r Reservations) RestartWait(group types.UID, now time.Time) {
	if entry := r[group]; entry != nil && !entry.waitingSince.IsZero() {
		entry.waitingSince = now
	}
}

// RestartAll gives a PodGroup the whole time of a reservation again, also if it had ended for good.
func (r Reservations) RestartAll(group types.UID, now time.Time) {
	r.RestartWait(group, now)
	if entry := r[group]; entry != nil {
		entry.prolonged = 0
		entry.IsExhausted = false
		entry.ExhaustedRequest = ""
	}
}

// ObserveFreeCards restarts the timeout of a reservation if its PodGroup could use more free cards than
// before, unless that has prolonged it for maxReservation already: then the reservation ends.
func (r *reservation) ObserveFreeCards(count int64, now time.Time, maxReservation time.Duration) {
	hasGrown := r.FreeCards >= 0 && count > r.FreeCards // -1 says that they were not counted before
	r.FreeCards = count
	if !hasGrown {
		return
	}

	// After the timeout the job had no reservation, so the rest of its wait prolonged nothing.
	waited := min(now.Sub(r.waitingSince), ReservationTimeout)
	if r.prolonged+waited >= maxReservation {
		r.IsExhausted = true
		return
	}

	r.prolonged += waited
	r.waitingSince = now
}

// RemoveStale ends a session. It forgets the wait of PodGroups that did not wait in it, and the request of those
// that wait for more cards than they were enqueued with, or did not ask in it.
func (r Reservations) RemoveStale() {
	for group, entry := range r {
		if !entry.IsWaiting {
			entry.waitingSince = time.Time{}
			entry.FreeCards = -1 // not counted
			entry.prolonged = 0
			entry.IsExhausted = false
			entry.ExhaustedRequest = ""
		}

		entry.enqueued = entry.enqueued && entry.requested
		entry.IsWaiting = false
		entry.requested = false
		if entry.waitingSince.IsZero() && !entry.enqueued {
			delete(r, group)
		}
	}
}
