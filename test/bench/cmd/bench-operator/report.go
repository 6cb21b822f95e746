package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"cardquota.dev/operator/test/bench/harness"
)

// The limits.
const (
	maxMemory = 600 << 20
	// maxCores is less than one core under load.
	maxCores = 1.0
	// maxRestCores is for the count in each minute, the heartbeats of all nodes, and two scrapes in a minute of
	// what all CardQuotas of a cluster at rest show. The scrapes take 0.015 cores to 0.02 cores of it.
	maxRestCores = 0.07
	// maxLag is how late a status may be. A LocalCardQuota is written once in ten seconds.
	maxLag     = 5 * time.Second
	maxViewLag = 15 * time.Second
	// maxLowered is how late a quota of 0 may be on its Queue.
	maxLowered = time.Second
	// minChanges is the part of the wanted changes without which the measurement says nothing.
	minChanges = 0.9
	// maxScrape is the time after which Prometheus gives up, unless it is configured otherwise.
	maxScrape = 10 * time.Second
	// successPerFailure is how many scrapes must succeed for each that fails. The API server checks the
	// token of the reader, and may have no time while the cluster is filled.
	successPerFailure = 4
)

// report is what was measured.
type report struct {
	size size
	// start is how long the operator took after its start until every status was right.
	start      time.Duration
	afterStart usage

	loadTime time.Duration
	changes  int
	load     usage
	writes   map[string]int
	lags     [kinds][]time.Duration
	// wrong is what differed from a recount after the load.
	wrong []string

	restTime          time.Duration
	atRest, afterRest usage
	restWrites        map[string]int

	// lowered is how long each lowered quota took until it was on its Queue.
	lowered []time.Duration

	// scrapes are what it cost to read the operator's metrics since its start, unreadable the reads
	// that failed.
	scrapes    []scrape
	unreadable []error
}

// row is a figure with its limit.
type row struct {
	what, figure, limit string
	exceeded            bool
}

func (r *report) printHeader(out io.Writer) {
	s := r.size
	harness.Printf(out, "%d nodes, %d pods, %d CardQuotas of %d cards in %d namespace(s) each, %g changes of pods in a second for %s.\n",
		s.nodes, s.pods, s.quotas, s.cards, s.views, s.changes, s.duration)
	harness.Printf(out, "%d processors, load %s.\n", runtime.NumCPU(), harness.LoadAverage())
}

// rows returns the figures.
func (r *report) rows() []row {
	seconds := r.loadTime.Seconds()
	cores := r.load.cpu / seconds
	rows := []row{
		{what: "every status right after the start", figure: harness.FormatSeconds(r.start)},
		{what: "CPU of the start", figure: fmt.Sprintf("%.1f s", r.afterStart.cpu)},
		{"memory at most (RSS), with the start", mebibytes(r.load.peak), mebibytes(maxMemory), r.load.peak > maxMemory},
		{what: "memory after the load (RSS)", figure: mebibytes(r.load.resident)},
		{"CPU under load", fmt.Sprintf("%.2f cores", cores), fmt.Sprintf("%.2f cores", maxCores), cores >= maxCores},
		{what: "changes of pods", figure: fmt.Sprintf("%.1f/s", float64(r.changes)/seconds)},
		{what: "bytes that the operator writes", figure: fmt.Sprintf("%.0f KiB/s", float64(r.load.written)/1024/seconds)},
		{what: "writes of the operator", figure: fmt.Sprintf("%.1f/s", float64(countWrites(r.writes))/seconds)},
	}

	for k, lags := range r.lags {
		limit := maxLag
		if kind(k) == views {
			limit = maxViewLag
		}
		most := harness.Quantile(lags, 1)
		rows = append(rows, row{fmt.Sprintf("%s right after, p50, p99 and max of %d", kindNames[k], len(lags)),
			fmt.Sprintf("%s, %s, %s", harness.FormatSeconds(harness.Quantile(lags, 0.5)), harness.FormatSeconds(harness.Quantile(lags, 0.99)), harness.FormatSeconds(most)), harness.FormatSeconds(limit), most > limit})
	}

	rows = append(rows, row{"statuses that differ from a recount afterwards", fmt.Sprint(len(r.wrong)), "0", len(r.wrong) > 0})
	rows = append(rows, r.scrapeRows()...)
	if r.restTime == 0 {
		return rows
	}

	cores = r.atRest.cpu / r.restTime.Seconds()
	needless := countWrites(r.restWrites)
	rows = append(rows,
		row{fmt.Sprintf("CPU with %d CardQuotas at rest", r.size.restQuotas), fmt.Sprintf("%.3f cores", cores), fmt.Sprintf("%.3f cores", maxRestCores), cores > maxRestCores},
		row{what: "memory at rest (RSS)", figure: mebibytes(r.afterRest.resident)},
		row{what: "memory at most (RSS), with all CardQuotas", figure: mebibytes(r.afterRest.peak)},
		row{what: "bytes that the operator writes at rest", figure: fmt.Sprintf("%.1f KiB/s", float64(r.atRest.written)/1024/r.restTime.Seconds())},
		row{"writes at rest but Leases and card-seconds", fmt.Sprint(needless), "0", needless > 0})

	most := harness.Quantile(r.lowered, 1)
	return append(rows, row{fmt.Sprintf("a quota of 0 is on its Queue while a node flaps, p50 and max of %d", len(r.lowered)),
		fmt.Sprintf("%d ms, %d ms", harness.Quantile(r.lowered, 0.5).Milliseconds(), most.Milliseconds()), harness.FormatSeconds(maxLowered), most > maxLowered})
}

// scrapeRows returns the figures of the scrapes.
func (r *report) scrapeRows() []row {
	var longest, largest scrape
	for _, s := range r.scrapes {
		if s.took > longest.took {
			longest = s
		}
		if s.bytes > largest.bytes {
			largest = s
		}
	}

	return []row{
		{fmt.Sprintf("the longest of %d scrapes of the metrics", len(r.scrapes)), harness.FormatSeconds(longest.took), harness.FormatSeconds(maxScrape), longest.took > maxScrape},
		{what: "the largest scrape", figure: fmt.Sprintf("%d series, %s", largest.series, mebibytes(uint64(largest.bytes)))},
		{"scrapes that failed", fmt.Sprint(len(r.unreadable)), fmt.Sprint(len(r.scrapes) / successPerFailure), len(r.unreadable) > len(r.scrapes)/successPerFailure},
	}
}

// print prints the table. Its error is errExceeded if a limit is exceeded, and says if the machine was
// too busy for the measurement.
func (r *report) print(out io.Writer) error {
	rows := r.rows()
	harness.Printf(out, "\n| %d processors, load %s | Measured | Limit |\n|---|---|---|\n", runtime.NumCPU(), harness.LoadAverage())
	for _, row := range rows {
		harness.Printf(out, "| %s | %s | %s |\n", row.what, row.figure, row.limit)
	}

	harness.Printf(out, "\nWrites of the operator under load: %s\n", describeWrites(r.writes))
	if r.restTime > 0 {
		harness.Printf(out, "Regular and other writes at rest, in %s: %s\n", r.restTime.Round(time.Second), describeAll(r.restWrites))
	}

	var err error
	for _, row := range rows {
		if row.exceeded {
			harness.Printf(out, "FAILED: %s: %s, the limit is %s\n", row.what, row.figure, row.limit)
			err = errExceeded
		}
	}

	for _, text := range r.wrong[:min(5, len(r.wrong))] {
		harness.Printf(out, "FAILED: %s\n", text)
	}

	for _, failed := range r.unreadable {
		harness.Printf(out, "A scrape of the metrics failed: %v\n", failed)
	}

	if rate := float64(r.changes) / r.loadTime.Seconds(); rate < minChanges*r.size.changes {
		err = errors.Join(err, fmt.Errorf("only %.1f changes of pods in a second: this machine is too busy for %g", rate, r.size.changes))
	}

	return err
}

// finish prints what was measured, also if the measurement ended early with an error, and returns
// what failed.
func (r *report) finish(out io.Writer, failed error) error {
	if r != nil && r.loadTime > 0 {
		failed = errors.Join(failed, r.print(out))
	}
	if failed == nil {
		harness.Printf(out, "All limits are kept.\n")
	}
	return failed
}

// countWrites counts the writes that happen because something changed.
func countWrites(writes map[string]int) (n int) {
	for write, count := range writes {
		if !isRegular(write) && !isOfPods(write) {
			n += count
		}
	}
	return n
}

// isOfPods reports whether a write is one of the benchmark's to pods.
func isOfPods(write string) bool { return strings.Contains(write, " pods") }

func describeWrites(writes map[string]int) string {
	own := maps.Clone(writes)
	maps.DeleteFunc(own, func(write string, _ int) bool { return isOfPods(write) || write == "PATCH nodes/status" })
	return describeAll(own)
}

func describeAll(writes map[string]int) string {
	var parts []string
	for _, write := range slices.Sorted(maps.Keys(writes)) {
		parts = append(parts, fmt.Sprintf("%d %s", writes[write], write))
	}
	return strings.Join(parts, ", ")
}

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }
