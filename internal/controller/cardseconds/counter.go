package cardseconds

import (
	"time"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
)

// zeroTime is for how long a new sum is served as zero, so that Prometheus has a sample of zero: it counts no
// increase for the value with which a series begins.
var zeroTime = build.Wait(2 * time.Minute)

// counter is what is served: only what is stored, because a counter that falls after a restart would count
// as a new start, and everything would be billed again.
type counter struct {
	// stored are the totals by part.
	stored [cardseconds.Parts]map[cardseconds.Series]cardseconds.Milli
	// begun is since when each sum is served, zero for a sum of an earlier leader. It is nil before the
	// stored sums are loaded, which may be more than zero.
	begun map[cardseconds.Series]time.Time
}

// load takes over the totals of one part, a ConfigMap that earlier leaders wrote. They are served at once. Idle series
// are dropped, as confirm does.
func (c *counter) load(part int, rows []cardseconds.RunningRow, now time.Time) {
	if c.begun == nil {
		c.begun = map[cardseconds.Series]time.Time{}
	}
	c.stored[part] = make(map[cardseconds.Series]cardseconds.Milli, len(rows))
	for i := range rows {
		if row := &rows[i]; !row.IsIdle(now) {
			c.stored[part][row.Series] = row.Total
			c.begun[row.Series] = time.Time{}
		}
	}
}

// begin serves sums that are in use.
func (c *counter) begin(inUse map[cardseconds.Series]card.Count, now time.Time) {
	for series, count := range inUse {
		if count > 0 {
			c.beginSum(series, now)
		}
	}
}

func (c *counter) beginSum(series cardseconds.Series, now time.Time) {
	if _, isServed := c.begun[series]; !isServed && c.begun != nil {
		c.begun[series] = now
	}
}

// confirm serves the totals of a part that are stored, and drops those that are idle.
func (c *counter) confirm(part int, totals map[cardseconds.Series]cardseconds.Milli, now time.Time) {
	for series := range c.stored[part] {
		if _, isServed := totals[series]; !isServed {
			delete(c.begun, series)
		}
	}
	c.stored[part] = totals
	for series := range totals {
		c.beginSum(series, now)
	}
}

// served returns what to serve.
func (c *counter) served(now time.Time) map[cardseconds.Series]cardseconds.Milli {
	served := make(map[cardseconds.Series]cardseconds.Milli, len(c.begun))
	for series := range c.begun {
		served[series] = 0
	}

	for i := range c.stored {
		for series, total := range c.stored[i] {
			if begun, isServed := c.begun[series]; isServed && now.Sub(begun) >= zeroTime {
				served[series] = total
			}
		}
	}

	return served
}
