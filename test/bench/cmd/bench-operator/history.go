package main

import "time"

// numbers are what a status says of cards: comparable, "" for an object that does not exist.
type numbers string

// version is what an object should say since a time.
type version struct {
	numbers numbers
	since   time.Time
}

// history compares what an object says with what it should say. Changes may follow each other
// faster than an object is written. So an object that says what was right at one time is as late as
// the first later change.
type history struct {
	// open are the versions that the object has not said yet, the oldest first.
	open []version
	// right is the last version that it has said, says what it says now.
	right, says numbers
	// lags is how long each version took until the object said it, or a later one.
	lags []time.Duration
}

// expect records what the object should say from now on.
func (h *history) expect(now time.Time, should numbers) {
	if h.wanted() == should {
		return
	}
	h.open = append(h.open, version{should, now})
	h.compare(now) // the watches of two kinds are not in order
}

// observe records what the object says.
func (h *history) observe(now time.Time, says numbers) {
	h.says = says
	if len(h.open) == 0 && says != h.right { // it was right before
		h.open = []version{{h.right, now}}
	}
	h.compare(now)
}

// wanted returns what the object should say now.
func (h *history) wanted() numbers {
	if len(h.open) > 0 {
		return h.open[len(h.open)-1].numbers
	}
	return h.right
}

// compare closes the versions up to the latest one that the object says.
func (h *history) compare(now time.Time) {
	for i := len(h.open) - 1; i >= 0; i-- {
		if h.open[i].numbers != h.says {
			continue
		}
		for _, v := range h.open[:i+1] {
			h.lags = append(h.lags, now.Sub(v.since))
		}
		h.right = h.says
		h.open = append([]version(nil), h.open[i+1:]...)
		return
	}
}

// isWrong reports whether the object does not say what it should say now.
func (h *history) isWrong() bool { return h.says != h.wanted() }

// lateBy returns for how long the object has not said what it should have said, 0 if it does.
func (h *history) lateBy(now time.Time) time.Duration {
	if len(h.open) == 0 {
		return 0
	}
	return now.Sub(h.open[0].since)
}
