package carduse

import (
	"context"
	"slices"
	"time"

	"cardquota.dev/operator/internal/cardseconds"
)

// Source answers questions about the operator's counter.
type Source interface {
	// Largest returns the largest values of the time before each instant from start to end.
	Largest(ctx context.Context, start, end time.Time, step, before time.Duration) ([]Values, error)
	// Smallest returns the smallest values of the time before an instant.
	Smallest(ctx context.Context, at time.Time, before time.Duration) (Values, error)
	// Exporters returns which programs had samples at each instant from start to end.
	Exporters(ctx context.Context, start, end time.Time, step time.Duration) ([]Exporter, error)
}

// Window is the time that a report covers.
type Window struct{ From, To time.Time }

// Use is what queues used in a window.
type Use struct {
	// CardSeconds are the card-seconds by series. A series that did not grow has 0.
	CardSeconds map[cardseconds.Series]Milli
	// Gaps are the times without samples, the earliest first.
	Gaps []Gap
	// FirstSample is set if Prometheus has no samples of the seven days before the window. What
	// was used before this hour is unknown then.
	FirstSample time.Time
	// HasSamples reports whether there is a sample in the window, or in the seven days before it.
	HasSamples bool
}

// Milli is a number in thousandths.
type Milli int64

const (
	// step is the time of which the largest value counts.
	step = time.Hour
	// stepsAtOnce bounds the size of an answer.
	stepsAtOnce = 24
	// stepsBefore is how many steps before a window may have its last sample.
	stepsBefore = 7 * 24
)

// Sum returns the use in a window.
func Sum(ctx context.Context, source Source, window Window) (Use, error) {
	var c counter
	var use Use
	before, err := valuesBefore(ctx, source, window.From)
	if err != nil {
		return use, err
	}
	if len(before) > 0 {
		c.begin(before)
		use.HasSamples = true
	}
	for at := firstInstant(window); !at.After(window.To); at = at.Add(stepsAtOnce * step) {
		end := at.Add((stepsAtOnce - 1) * step)
		if end.After(window.To) {
			end = window.To
		}
		cells, err := source.Largest(ctx, at, end, step, step)
		if err != nil {
			return use, err
		}
		for i, values := range cells {
			instant := at.Add(time.Duration(i) * step)
			if len(values) > 0 && !use.HasSamples {
				first, err := source.Smallest(ctx, instant, step)
				if err != nil {
					return use, err
				}
				c.begin(first)
				use.HasSamples, use.FirstSample = true, instant.Add(-step)
			}
			c.add(instant, values)
		}
	}
	use.CardSeconds = make(map[cardseconds.Series]Milli, len(c.used))
	for series, n := range c.used {
		use.CardSeconds[series] = Milli(n)
	}
	if use.HasSamples {
		use.Gaps, err = findGaps(ctx, source, window)
	}
	return use, err
}

// firstInstant returns the first instant of which values are asked for. All are whole steps before
// the end of the window.
func firstInstant(window Window) time.Time {
	steps := (window.To.Sub(window.From) - 1) / step
	return window.To.Add(-steps * step)
}

// valuesBefore returns the largest values of the last hour with samples up to an instant, nil if there
// are none. Those of earlier hours may be larger: then the sums have begun at zero again since. Most
// often the first hour has samples, so it is asked for alone.
func valuesBefore(ctx context.Context, source Source, at time.Time) (Values, error) {
	for ago, steps := 0, 1; ago < stepsBefore; ago, steps = ago+steps, min(stepsAtOnce, stepsBefore-ago-steps) {
		end := at.Add(-time.Duration(ago) * step)
		cells, err := source.Largest(ctx, end.Add(-time.Duration(steps-1)*step), end, step, step)
		if err != nil {
			return nil, err
		}
		for _, values := range slices.Backward(cells) {
			if len(values) > 0 {
				return values, nil
			}
		}
	}
	return nil, nil
}
