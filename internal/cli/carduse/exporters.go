package carduse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Exporter is a program of which Prometheus has samples. Only the leader of the operator exports.
type Exporter struct {
	// Labels are those that Prometheus adds, such as instance.
	Labels map[string]string
	// At are the instants at which it had samples.
	At []time.Time
}

// Gap is a time without samples.
type Gap struct {
	// From is the last instant with samples. It is the begin of the window if there is none.
	From time.Time `json:"from"`
	// To is the next instant with samples, or the end of the window.
	To time.Time `json:"to"`
}

const (
	// gapStep is the time between two instants at which samples are looked for. Prometheus takes a
	// sample as valid for five minutes.
	gapStep = 5 * time.Minute
	// gapStepsAtOnce bounds the work of Prometheus for one answer.
	gapStepsAtOnce = int(24 * time.Hour / gapStep)
	// minMissing is how many instants without samples make a gap. A change of the leader may miss one.
	minMissing = 2
	// maxTogether is for how many instants in a row two programs may export: while the leader
	// changes.
	maxTogether = int(time.Hour / gapStep)
)

// findGaps returns the gaps of a window. It refuses two programs that export side by side, because
// they count for two clusters.
func findGaps(ctx context.Context, source Source, window Window) ([]Gap, error) {
	exports := map[string]*export{}
	steps := int(window.To.Sub(window.From) / gapStep)
	instant := func(i int) time.Time { return window.To.Add(-time.Duration(steps-i) * gapStep) }
	seen := make([]bool, steps+1)
	for from := 0; from <= steps; from += gapStepsAtOnce {
		to := min(from+gapStepsAtOnce-1, steps)
		exporters, err := source.Exporters(ctx, instant(from), instant(to), gapStep)
		if err != nil {
			return nil, err
		}
		for _, exporter := range exporters {
			at := exportOf(exports, exporter.Labels)
			for _, when := range exporter.At {
				if i := int(when.Sub(instant(0)) / gapStep); i >= 0 && i <= steps {
					seen[i], at.has[i] = true, true
				}
			}
		}
	}
	var all []*export
	for _, key := range slices.Sorted(maps.Keys(exports)) {
		all = append(all, exports[key])
	}
	if err := refuseSeveral(all, steps); err != nil {
		return nil, err
	}
	return gapsOf(seen, instant, window), nil
}

// export are the instants at which a program had samples.
type export struct {
	labels map[string]string
	has    map[int]bool
}

func exportOf(exports map[string]*export, labels map[string]string) *export {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&key, "%q=%q,", name, labels[name])
	}
	if exports[key.String()] == nil {
		exports[key.String()] = &export{labels, map[int]bool{}}
	}
	return exports[key.String()]
}

func gapsOf(seen []bool, instant func(int) time.Time, window Window) []Gap {
	var gaps []Gap
	missing := 0
	for i := 0; i <= len(seen); i++ {
		if i < len(seen) && !seen[i] {
			missing++
			continue
		}
		if missing >= minMissing {
			gap := Gap(window)
			if first := i - missing; first > 0 {
				gap.From = instant(first - 1)
			}
			if i < len(seen) {
				gap.To = instant(i)
			}
			gaps = append(gaps, gap)
		}
		missing = 0
	}
	return gaps
}

// SeveralError says that two programs export the counter side by side.
type SeveralError struct {
	// One and Other are the labels in which they differ.
	One, Other string
}

func (e *SeveralError) Error() string {
	return fmt.Sprintf("two programs export the counter at the same time, one with %s and one with %s: their sums would be mixed", e.One, e.Other)
}

// refuseSeveral refuses two programs that export for long at the same time. It looks at each instant
// once, since a report of a year has thousands of programs: one for each restart.
func refuseSeveral(exports []*export, steps int) error {
	limit := min(maxTogether, max(minMissing, steps/2))
	present := make([][]*export, steps+1)
	for _, one := range exports {
		for at := range one.has {
			present[at] = append(present[at], one)
		}
	}
	together := map[[2]*export]int{} // for how many instants in a row
	for _, programs := range present {
		next := map[[2]*export]int{}
		for i, one := range programs {
			for _, other := range programs[i+1:] {
				pair := [2]*export{one, other}
				if next[pair] = together[pair] + 1; next[pair] > limit {
					left, right := differences(one.labels, other.labels)
					return &SeveralError{left, right}
				}
			}
		}
		together = next
	}
	return nil
}

// differences returns the labels in which two sets differ, as matchers.
func differences(one, other map[string]string) (left, right string) {
	var ones, others []string
	names := map[string]bool{}
	for _, labels := range []map[string]string{one, other} {
		for name := range labels {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if one[name] != other[name] {
			ones, others = append(ones, fmt.Sprintf("%s=%q", name, one[name])), append(others, fmt.Sprintf("%s=%q", name, other[name]))
		}
	}
	return strings.Join(ones, ", "), strings.Join(others, ", ")
}
