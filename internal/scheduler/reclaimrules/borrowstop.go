package reclaimrules

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/quota"
)

// borrowCooldown is how long a queue may not borrow a card again after others reclaimed it. Otherwise the
// queue could borrow it between two jobs of its owner, and lose it again. If others reclaim again before the
// queue has borrowed for as long as it was stopped, the next cooldown is twice as long, up to maxBorrowCooldown.
var (
	borrowCooldown    = build.Wait(5 * time.Minute)
	maxBorrowCooldown = build.Wait(time.Hour)
)

// BorrowStops are the cards that others reclaimed from queues that had borrowed them.
type BorrowStops map[api.QueueID]map[quota.Resource]borrowStop

// borrowStop is why a queue may not borrow a card: others reclaimed it.
type borrowStop struct {
	since    time.Time
	cooldown time.Duration
	// borrowed is how long the queue has borrowed the card since then, counted up to countedAt.
	borrowed  time.Duration
	countedAt time.Time
}

// end is when the queue may borrow the card again.
func (s borrowStop) end() time.Time { return s.since.Add(s.cooldown) }

// isForgotten reports whether another reclaim would make the next cooldown no longer: the queue has borrowed for as
// long as it was stopped, or the stop ended long ago. A queue that borrows nothing, because it lacks cards or pods,
// has not shown that others leave it what it borrows.
func (s borrowStop) isForgotten(now time.Time) bool {
	return s.borrowed >= s.cooldown || !now.Before(s.end().Add(maxBorrowCooldown))
}

// countBorrowing returns the stop with the time up to now counted. If the queue borrows the card now, it counts as having
// borrowed since countedAt, or since the end of the stop if that is later.
func (s borrowStop) countBorrowing(isBorrowing bool, now time.Time) borrowStop {
	from := s.countedAt
	if end := s.end(); from.Before(end) {
		from = end
	}

	if isBorrowing && now.After(from) {
		s.borrowed += now.Sub(from)
	}
	s.countedAt = now
	return s
}

// restartedAt returns the stop after another reclaim. It is as long as the last one if that still goes on, else twice as
// long. It is as short as a first one if the last is forgotten, or if there was none, which the zero stop stands for.
func (s borrowStop) restartedAt(now time.Time) borrowStop {
	cooldown := s.cooldown
	switch {
	case s.isForgotten(now):
		cooldown = borrowCooldown
	case !now.Before(s.end()):
		cooldown = min(2*s.cooldown, maxBorrowCooldown)
	}
	return borrowStop{since: now, cooldown: cooldown, countedAt: now}
}

// RecordReclaimed records that others reclaimed some cards, CPU or memory that a queue had
// borrowed. The queue may not borrow them again for a cooldown.
func (r *Rules) RecordReclaimed(queue api.QueueID, resources ...quota.Resource) {
	stops := r.stops[queue]
	if stops == nil {
		stops = map[quota.Resource]borrowStop{}
		r.stops[queue] = stops
	}

	for _, resource := range resources {
		stops[resource] = stops[resource].restartedAt(r.Now())
	}

	r.StopBorrowing()
}

// StopBorrowing keeps queues from borrowing what was reclaimed from them a short time ago. It counts how long they
// have borrowed since, and forgets what no longer matters.
func (r *Rules) StopBorrowing() {
	now := r.Now()
	for queue, stops := range r.stops {
		isKnown := r.HasQueue(string(queue))
		stopped := make(map[quota.Resource]bool, len(stops))
		for name, stop := range stops {
			stop = stop.countBorrowing(isKnown && r.Ledger.AboveDeserved(string(queue), name) > 0, now)
			stops[name] = stop
			// A stop that has ended stays for a time, because it decides how long the next one takes.
			switch {
			case now.Before(stop.end()):
				stopped[name] = true
			case stop.isForgotten(now):
				delete(stops, name)
			}
		}

		if isKnown {
			r.Ledger.StopBorrowing(string(queue), stopped)
		}
		if len(stops) == 0 {
			delete(r.stops, queue)
		}
	}
}
