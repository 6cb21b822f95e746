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
)

// report is what all runs measured, by contender.
type report struct {
	size   size
	drains map[string][]drain
}

func (r *report) begin(out io.Writer) {
	printf(out, "%d gangs of %d pods with one card each wait in %d queues for %d nodes with %d cards of %d models.\n",
		r.size.gangs, gangSize, queues, r.size.nodes, gangSize, len(models))
	printf(out, "Sessions every %s, %d processors, %s of each scheduler; the time is from the scheduler's start.\n",
		r.size.period, runtime.NumCPU(), runs(r.size.runs))
}

func (r *report) announce(out io.Writer, run int, name string) {
	printf(out, "\nRun %d of %s\n", run, name)
}

// add prints a run and keeps it for the end.
func (r *report) add(out io.Writer, name string, d drain) {
	r.drains[name] = append(r.drains[name], d)
	printf(out, "  all %d pods bound after %s; the first after %s, half after %s\n", r.size.gangs*gangSize, seconds(d.all), seconds(d.first), seconds(d.half))
	printf(out, "  pods on %d nodes, a gang on %.2f nodes on average\n", d.nodes, d.perGang)
	printf(out, "  CPU seconds: %s\n", listed(d.processors, "%s %.1f"))
	printf(out, "  load average %s at the start, %.1f CPU seconds of programs that do not belong to the benchmark\n", d.load, d.elsewhere)
	printf(out, "  writes until %s after the last binding: %s\n", aftermath, listed(d.writes, "%s %d"))
}

// end prints the comparison. The error is errSlower when ours lost.
func (r *report) end(out io.Writer) error {
	printf(out, "\n")
	for _, name := range []string{stockName, ourName} {
		times := each(r.drains[name], func(d drain) time.Duration { return d.all })
		printf(out, "%s: all pods bound after %s in the median of %s, from %s to %s; in the median %d API writes and %.1f CPU seconds.\n",
			name, seconds(median(times)), runs(len(times)), seconds(times[0]), seconds(times[len(times)-1]),
			median(each(r.drains[name], func(d drain) int { return total(d.writes) })),
			median(each(r.drains[name], func(d drain) float64 { return total(d.processors) })))
	}
	theirs, own := r.time(stockName), r.time(ourName)
	ratio := own.Seconds() / theirs.Seconds()
	if own > theirs {
		printf(out, "%s takes %.2f times as long as %s: it is slower.\n", ourName, ratio, stockName)
		return errSlower
	}
	printf(out, "%s takes %.2f times as long as %s: it is not slower.\n", ourName, ratio, stockName)
	return nil
}

// time is the median time of a contender.
func (r *report) time(name string) time.Duration {
	return median(each(r.drains[name], func(d drain) time.Duration { return d.all }))
}

type number interface{ ~int | ~int64 | ~float64 }

// each returns one value of every drain, sorted.
func each[N number](drains []drain, value func(drain) N) []N {
	values := make([]N, len(drains))
	for i, d := range drains {
		values[i] = value(d)
	}
	slices.Sort(values)
	return values
}

// median is the middle of sorted values, between two the mean.
func median[N number](sorted []N) N {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func total[N number](values map[string]N) (sum N) {
	for _, value := range values {
		sum += value
	}
	return sum
}

// listed writes values, the largest first.
func listed[N number](values map[string]N, format string) string {
	keys := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), strings.Compare(a, b))
	})
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = fmt.Sprintf(format, key, values[key])
	}
	return strings.Join(texts, ", ")
}

func runs(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// printf writes to people; a report that cannot be written is not an error.
func printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
