package queue

import (
	"time"

	"cardquota.dev/operator/internal/timing"
)

var (
	// firstPause is how long after the first put-back of a manager's change its
	// next one is put back; every further put-back doubles it.
	firstPause = timing.Wait(time.Second)
	// longestPause is the most that a put-back waits. It is short: a foreign
	// quota is in force that long.
	longestPause = timing.Wait(8 * time.Second)
	// quiet is how long a manager has to leave the object alone until it is
	// answered at once again, and until the same news is news again.
	quiet = timing.Wait(5 * time.Minute)
)

// Dispute remembers who keeps writing one object of the operator, the Queue of a
// CardQuota or the scheduler's configuration, so that a
// controller that never gives in costs ever fewer writes, while an edit by hand
// is put back at once. The zero value knows nobody. Every time is an argument.
type Dispute struct {
	// Longest is the most that a put-back waits; 0 means 8 seconds, the measure for
	// Queues.
	Longest time.Duration

	rounds map[string]round
	told   string
	toldAt time.Time
}

// round is the last put-back of one manager's change.
type round struct {
	at    time.Time
	pause time.Duration
	// count is how many put-backs there were, this one included.
	count int
}

// Wait returns how long the next put-back still has to wait, at least 0. writers
// are all whose changes it would replace; one who is new to the dispute, or was
// quiet, waits for nobody.
func (d *Dispute) Wait(writers []string, now time.Time) time.Duration {
	wait := d.longest()
	for _, writer := range writers {
		last, known := d.rounds[writer]
		if !known || over(last.at, now) {
			return 0
		}
		wait = min(wait, last.at.Add(last.pause).Sub(now))
	}
	if len(writers) == 0 {
		return 0
	}
	return max(0, wait)
}

// Replaced notes that the changes of the writers were put back now, and returns
// how long the next put-back will wait when the same writers go on.
func (d *Dispute) Replaced(writers []string, now time.Time) time.Duration {
	for writer, last := range d.rounds {
		if over(last.at, now) {
			delete(d.rounds, writer)
		}
	}
	if len(writers) == 0 {
		return 0
	}
	if d.rounds == nil {
		d.rounds = map[string]round{}
	}
	next := d.longest()
	for _, writer := range writers {
		last, again := d.rounds[writer]
		pause := firstPause
		if again {
			pause = min(2*last.pause, d.longest())
		}
		d.rounds[writer] = round{at: now, pause: pause, count: last.count + 1}
		next = min(next, pause)
	}
	return next
}

func (d *Dispute) longest() time.Duration {
	if d.Longest > 0 {
		return d.Longest
	}
	return longestPause
}

// Rounds returns how often the changes of a writer were put back without five
// quiet minutes between.
func (d *Dispute) Rounds(writer string, now time.Time) int {
	last, known := d.rounds[writer]
	if !known || over(last.at, now) {
		return 0
	}
	return last.count
}

// News tells whether a text about the dispute is worth an event: it is not the
// text of last time, or nothing was to be told for a while.
func (d *Dispute) News(text string, now time.Time) bool {
	news := text != d.told || over(d.toldAt, now)
	d.told, d.toldAt = text, now
	return news
}

// over tells whether what was last seen then has been quiet long enough.
func over(then, now time.Time) bool { return now.Sub(then) >= quiet }
