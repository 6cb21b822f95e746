package cache

import (
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// TestReservationEndsWhenSomethingElseThanQuotaBlocks: an enqueued job has a reservation until its pods are placed. If
// they are not placed, the reservation ends ReservationTimeout (5 minutes) after the wait began, so that a job that
// cannot start blocks no other. A refusal for quota restarts these 5 minutes: here one after the first minute. When
// the job has not waited for one session, the next wait has 5 minutes of its own.
func TestReservationEndsWhenSomethingElseThanQuotaBlocks(t *testing.T) {
	start := time.Now()
	p := Reservations{}
	const maxReservation = time.Hour // it is not reached here
	isActive := func(age time.Duration) bool { return p.IsActive("g", start.Add(age), maxReservation) }

	check.Equal(t, "active at first", true, isActive(0))
	check.Equal(t, "active just before the timeout", true, isActive(ReservationTimeout-time.Second))
	p.RestartWait("g", start.Add(time.Minute)) // a refusal for quota
	check.Equal(t, "active 5 minutes after the start, 4 minutes after the refusal", true, isActive(ReservationTimeout))
	check.Equal(t, "active 5 minutes after the refusal", false, isActive(ReservationTimeout+time.Minute))

	p.RemoveStale() // the session of the last question ends
	p.RemoveStale() // a session in which the job does not wait ends
	check.Equal(t, "active when the job waits again", true, isActive(time.Hour))
}
