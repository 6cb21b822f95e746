package cardseconds

import (
	"time"

	"cardquota.dev/operator/internal/build"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
)

// zeroTime is for how long the metric shows a new sum as zero, so that Prometheus has a sample of zero: it counts no
// increase for the value with which a series begins.
var zeroTime = build.Wait(2 * time.Minute)

// counter is what the metric shows: only what is stored, because a counter that falls after a restart would count
// as a new start, and everything would be billed again.
type counter struct {
	// stored are the totals by part.
	stored [cardseconds.Parts]map[cardseconds.Series]cardseconds.Milli
	// begun is since when each sum is shown, the zero time for a sum of an earlier leader. It is nil before the
	// stored sums are loaded: shown as zero before that, a counter would fall.
	begun map[cardseconds.Series]time.Time
}

// load takes over the totals of one part, a ConfigMap that earlier leaders wrote. They are shown at once. Idle series
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

// begin shows sums as soon as cards are in use, at first as zero.
func (c *counter) begin(inUse map[cardseconds.Series]card.Count, now time.Time) {
	for series, count := range inUse {
		if count > 0 {
			c.beginSum(series, now)
		}
	}
}

// beginSum shows a sum from now on, if it is not shown yet and the stored sums are loaded.
func (c *counter) beginSum(series cardseconds.Series, now time.Time) {
	if _, isShown := c.begun[series]; !isShown && c.begun != nil {
		c.begun[series] = now
	}
}

// confirm shows the totals of a part as they are stored now, and drops those that are no longer among them because
// they are idle.
func (c *counter) confirm(part int, totals map[cardseconds.Series]cardseconds.Milli, now time.Time) {
	for series := range c.stored[part] {
		if _, isActive := totals[series]; !isActive {
			delete(c.begun, series)
		}
	}
	c.stored[part] = totals
	for series := range totals {
		c.beginSum(series, now)
	}
}

// shown returns what the metric shows now: zero for sums that began less than zeroTime ago, or are not stored yet.
func (c *counter) shown(now time.Time) map[cardseconds.Series]cardseconds.Milli {
	shown := make(map[cardseconds.Series]cardseconds.Milli, len(c.begun))
	for series := range c.begun {
		shown[series] = 0
	}

	for i := range c.stored {
		for series, total := range c.stored[i] {
			if begun, isShown := c.begun[series]; isShown && now.Sub(begun) >= zeroTime {
				shown[series] = total
			}
		}
	}

	return shown
}
