// Package carduse computes how many card-seconds queues used in a time, from the samples that
// Prometheus has of the operator's counter.
//
// The package is pure: it calls a Source, which asks Prometheus, and knows neither clock nor client.
// The operator's counter never falls while it is kept. Two things let it begin at zero again: a sum
// that has not grown for seven days is dropped, and an administrator may delete the ConfigMaps. So
// the use of an hour is the growth of the largest value of the hour. It needs no estimate at the
// ends of the time, and times that follow each other add up to the whole.
package carduse

import (
	"maps"
	"time"

	"cardquota.dev/operator/internal/cardseconds"
)

// Values are the values of a counter by series, in thousandths of a card-second.
type Values map[cardseconds.Series]int64

const (
	// dropTime is how long the operator keeps a sum that does not grow.
	dropTime = 7 * 24 * time.Hour
	// dropTolerance is how much later than its true growth an hour may show it.
	dropTolerance = 2 * time.Hour
)

// counter adds up the growth of a counter. The zero value has seen nothing.
type counter struct {
	// last are the last values, and grewAt when they last grew, unset before that.
	last   Values
	grewAt map[cardseconds.Series]time.Time
	// lost are the largest values of sums that began at zero again. An older ConfigMap may bring them back.
	lost Values
	// used is the growth of each series that was seen.
	used Values
}

// begin sets the values from which growth counts.
func (c *counter) begin(values Values) {
	c.last, c.grewAt, c.lost, c.used = maps.Clone(values), map[cardseconds.Series]time.Time{}, Values{}, Values{}
	for series := range values {
		c.used[series] = 0
	}
}

// add takes the largest values of the time that ends at an instant. No values mean that there are no
// samples, because every scrape has all series.
func (c *counter) add(at time.Time, values Values) {
	if len(values) == 0 {
		return
	}
	for series := range c.last {
		if _, exists := values[series]; !exists && c.wasDropped(series, at) {
			delete(c.last, series)
			delete(c.grewAt, series)
			delete(c.lost, series)
		}
	}
	for series, value := range values {
		growth := c.growthOf(series, value)
		if growth > 0 {
			c.grewAt[series] = at
		}
		c.used[series] += growth
		c.last[series] = value
	}
}

// growthOf returns how much a counter grew, and remembers a value that is lost. One that fell began at
// zero again. One that fell by less than half more likely goes on from an older ConfigMap, which an
// administrator restored, as does one that more than doubles to more than half of what was lost. Months
// must not count twice because of that.
func (c *counter) growthOf(series cardseconds.Series, value int64) int64 {
	last, lost := c.last[series], c.lost[series]
	isRestored := lost > 0 && value/2 > last && value > lost/2
	if isRestored || value >= lost {
		delete(c.lost, series)
	}
	switch {
	case isRestored:
		return max(0, value-lost)
	case value >= last:
		return value - last
	case value > last/2:
		return 0
	default:
		c.lost[series] = max(last, lost)
		return value
	}
}

// wasDropped reports whether the operator may have dropped a sum that is missing. A sum that grew
// lately is missing only after its ConfigMap was deleted, and may be larger than before when it is
// back: then it must not count twice.
func (c *counter) wasDropped(series cardseconds.Series, at time.Time) bool {
	grewAt, grew := c.grewAt[series]
	return !grew || at.Sub(grewAt) >= dropTime-dropTolerance
}
