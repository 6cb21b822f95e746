package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"cardquota.dev/operator/test/bench/harness"
)

// report has the measurements of all runs, by contender.
type report struct {
	size         size
	measurements map[string][]measurement
}

func (r *report) printHeader(out io.Writer) {
	harness.Printf(out, "%d gangs of %d pods with one card each wait in %d queues for %d nodes with %d cards of %d models.\n",
		r.size.gangs, harness.GangSize, queues, r.size.nodes, harness.GangSize, len(models))
	harness.Printf(out, "Sessions every %s, %d processors, %s of each scheduler; the time is from the scheduler's start.\n",
		r.size.period, runtime.NumCPU(), countRuns(r.size.runs))
}

// addRun prints and records a run.
func (r *report) addRun(out io.Writer, name string, d measurement) {
	r.measurements[name] = append(r.measurements[name], d)
	harness.Printf(out, "  all %d pods bound after %s; the first after %s, half after %s\n", r.size.gangs*harness.GangSize, harness.FormatSeconds(d.all), harness.FormatSeconds(d.first), harness.FormatSeconds(d.half))
	harness.Printf(out, "  pods on %d nodes, a gang on %.2f nodes on average\n", d.nodes, d.nodesPerGang)
	harness.Printf(out, "  CPU seconds: %s\n", formatSorted(d.cpuSeconds, "%s %.1f"))
	harness.Printf(out, "  load average %s at the start, %.1f CPU seconds of programs that do not belong to the benchmark\n", d.load, d.otherCPUSeconds)
	harness.Printf(out, "  writes until %s after the last binding: %s\n", settleTime, formatSorted(d.apiWrites, "%s %d"))
}

// printComparison prints the comparison. The error is errSlower when ours is slower.
func (r *report) printComparison(out io.Writer) error {
	harness.Printf(out, "\n")
	for _, name := range []string{stockName, ourName} {
		times := harness.SortedValues(r.measurements[name], func(d measurement) time.Duration { return d.all })
		harness.Printf(out, "%s: all pods bound after %s in the median of %s, from %s to %s; in the median %d API writes and %.1f CPU seconds.\n",
			name, harness.FormatSeconds(harness.Median(times)), countRuns(len(times)), harness.FormatSeconds(times[0]), harness.FormatSeconds(times[len(times)-1]),
			harness.Median(harness.SortedValues(r.measurements[name], func(d measurement) int { return sumValues(d.apiWrites) })),
			harness.Median(harness.SortedValues(r.measurements[name], func(d measurement) float64 { return sumValues(d.cpuSeconds) })))
	}

	theirs := r.medianTime(stockName)
	own := r.medianTime(ourName)
	ratio := own.Seconds() / theirs.Seconds()
	if own > theirs {
		harness.Printf(out, "%s takes %.2f times as long as %s: it is slower.\n", ourName, ratio, stockName)
		return errSlower
	}

	harness.Printf(out, "%s takes %.2f times as long as %s: it is not slower.\n", ourName, ratio, stockName)
	return nil
}

// medianTime returns the median time of a contender.
func (r *report) medianTime(name string) time.Duration {
	return harness.Median(harness.SortedValues(r.measurements[name], func(d measurement) time.Duration { return d.all }))
}

func sumValues[N harness.Number](values map[string]N) (sum N) {
	for _, value := range values {
		sum += value
	}
	return sum
}

// formatSorted formats values, the largest first.
func formatSorted[N harness.Number](values map[string]N, format string) string {
	keys := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), strings.Compare(a, b))
	})
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = fmt.Sprintf(format, key, values[key])
	}
	return strings.Join(texts, ", ")
}

func countRuns(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}
