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

	"cardquota.dev/operator/test/arena"
)

// report is what all runs measured, by contender.
type report struct {
	size   size
	drains map[string][]drain
}

func (r *report) begin(out io.Writer) {
	arena.Printf(out, "%d gangs of %d pods with one card each wait in %d queues for %d nodes with %d cards of %d models.\n",
		r.size.gangs, arena.GangSize, queues, r.size.nodes, arena.GangSize, len(models))
	arena.Printf(out, "Sessions every %s, %d processors, %s of each scheduler; the time is from the scheduler's start.\n",
		r.size.period, runtime.NumCPU(), runs(r.size.runs))
}

// add prints a run and keeps it for the end.
func (r *report) add(out io.Writer, name string, d drain) {
	r.drains[name] = append(r.drains[name], d)
	arena.Printf(out, "  all %d pods bound after %s; the first after %s, half after %s\n", r.size.gangs*arena.GangSize, arena.Seconds(d.all), arena.Seconds(d.first), arena.Seconds(d.half))
	arena.Printf(out, "  pods on %d nodes, a gang on %.2f nodes on average\n", d.nodes, d.perGang)
	arena.Printf(out, "  CPU seconds: %s\n", listed(d.processors, "%s %.1f"))
	arena.Printf(out, "  load average %s at the start, %.1f CPU seconds of programs that do not belong to the benchmark\n", d.load, d.elsewhere)
	arena.Printf(out, "  writes until %s after the last binding: %s\n", aftermath, listed(d.writes, "%s %d"))
}

// end prints the comparison. The error is errSlower when ours lost.
func (r *report) end(out io.Writer) error {
	arena.Printf(out, "\n")
	for _, name := range []string{stockName, ourName} {
		times := arena.Sorted(r.drains[name], func(d drain) time.Duration { return d.all })
		arena.Printf(out, "%s: all pods bound after %s in the median of %s, from %s to %s; in the median %d API writes and %.1f CPU seconds.\n",
			name, arena.Seconds(arena.Median(times)), runs(len(times)), arena.Seconds(times[0]), arena.Seconds(times[len(times)-1]),
			arena.Median(arena.Sorted(r.drains[name], func(d drain) int { return total(d.writes) })),
			arena.Median(arena.Sorted(r.drains[name], func(d drain) float64 { return total(d.processors) })))
	}
	theirs, own := r.time(stockName), r.time(ourName)
	ratio := own.Seconds() / theirs.Seconds()
	if own > theirs {
		arena.Printf(out, "%s takes %.2f times as long as %s: it is slower.\n", ourName, ratio, stockName)
		return errSlower
	}
	arena.Printf(out, "%s takes %.2f times as long as %s: it is not slower.\n", ourName, ratio, stockName)
	return nil
}

// time is the median time of a contender.
func (r *report) time(name string) time.Duration {
	return arena.Median(arena.Sorted(r.drains[name], func(d drain) time.Duration { return d.all }))
}

func total[N arena.Number](values map[string]N) (sum N) {
	for _, value := range values {
		sum += value
	}
	return sum
}

// listed writes values, the largest first.
func listed[N arena.Number](values map[string]N, format string) string {
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
