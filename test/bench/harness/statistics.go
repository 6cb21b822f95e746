package harness

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Number is a measured number.
type Number interface{ ~int | ~int64 | ~float64 }

// SortedValues returns a value of all runs, the smallest first.
func SortedValues[R any, N Number](runs []R, value func(R) N) []N {
	values := make([]N, len(runs))
	for i, run := range runs {
		values[i] = value(run)
	}
	slices.Sort(values)
	return values
}

// Median returns the median of sorted values.
func Median[N Number](sorted []N) N {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Quantile returns a quantile by nearest rank.
func Quantile(values []time.Duration, part float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(part*float64(len(sorted)) + 0.999999)
	return sorted[max(0, min(rank, len(sorted))-1)]
}

// RunAlternating runs each contender the given number of times. It reverses their order every
// other time, so that a machine that slows down favours none.
func RunAlternating(runs int, contenders []string, play func(contender string) error, out io.Writer) error {
	for n := range runs {
		order := slices.Clone(contenders)
		if n%2 == 1 {
			slices.Reverse(order)
		}

		for _, contender := range order {
			Printf(out, "\nRun %d of %s\n", n+1, contender)
			if err := play(contender); err != nil {
				return fmt.Errorf("run %d of %s: %w", n+1, contender, err)
			}
		}
	}
	return nil
}

// LoadAverage returns the load of this machine over one minute.
func LoadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(text), " ")
	return average
}

// FormatSeconds formats a duration in seconds.
func FormatSeconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// Printf prints a report and ignores write errors.
func Printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
