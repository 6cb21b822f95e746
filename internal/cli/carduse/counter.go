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
	used   Values
}

// begin sets the values from which growth counts.
func (c *counter) begin(values Values) {
	c.last, c.grewAt, c.used = maps.Clone(values), map[cardseconds.Series]time.Time{}, Values{}
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
		}
	}
	for series, value := range values {
		growth := growthOf(c.last[series], value)
		if growth > 0 {
			c.used[series] += growth
			c.grewAt[series] = at
		}
		c.last[series] = value
	}
}

// growthOf returns how much a counter grew. One that fell began at zero again. One that fell by less than
// half more likely goes on from an older ConfigMap, which an administrator restored: months must not
// count twice because of that.
func growthOf(last, value int64) int64 {
	switch {
	case value >= last:
		return value - last
	case value > last/2:
		return 0
	default:
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
