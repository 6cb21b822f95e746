package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/tide"
)

// report has the results of all runs, by action.
type report struct {
	Size size
	Runs map[string][]*runResult
}

func (r *report) printHeader(out io.Writer) {
	harness.Printf(out, "%d gangs of %d training pods with one card each run on %d nodes, %d single training pods wait, sessions every %s.\n",
		r.Size.Nodes, harness.GangSize, r.Size.Nodes, r.Size.Singles, r.Size.Period)
	harness.Printf(out, "%d processors, %d run(s) of each action.\n", runtime.NumCPU(), r.Size.Runs)
}

// describeScene describes a scene in one line.
func describeScene(s *tide.Result) string {
	l := s.Loss
	served := fmt.Sprintf("%d of %d pods served, all bound after %s, running after %s", s.Done, s.Pods, harness.FormatSeconds(s.Bound), harness.FormatSeconds(s.Running))
	if len(s.Waited) > 0 {
		served = fmt.Sprintf("%d of %d pods served, bound after %s (p50) and %s (p95)", s.Done, s.Pods, harness.FormatSeconds(harness.Quantile(s.Waited, 0.5)), harness.FormatSeconds(harness.Quantile(s.Waited, 0.95)))
	}
	return fmt.Sprintf("%s; %d gangs broken (least %d) and %d single pods lost, %.0f card-seconds, %d gangs left in part, %d retries",
		served, l.Gangs, l.Least, l.Singles, l.CardSeconds, l.Partial, l.Retries)
}

// tableRow is a value under both actions.
type tableRow struct {
	what  string
	value func(*runResult) float64
	// format is the format of one value.
	format string
}

// tableRows returns the rows of the table.
func (r *report) tableRows() []tableRow {
	inSeconds := func(of func(*runResult) time.Duration) func(*runResult) float64 {
		return func(m *runResult) float64 { return of(m).Seconds() }
	}
	lost := func(scene string, of func(harness.Loss) float64) func(*runResult) float64 {
		return func(m *runResult) float64 { return of(m.Scenes[scene].Loss) }
	}

	rows := []tableRow{
		{"one pod is bound after, p50", inSeconds(func(m *runResult) time.Duration { return harness.Quantile(m.Scenes[oneByOne].Waited, 0.5) }), "%.2f s"},
		{"one pod is bound after, p95", inSeconds(func(m *runResult) time.Duration { return harness.Quantile(m.Scenes[oneByOne].Waited, 0.95) }), "%.2f s"},
		{fmt.Sprintf("%d pods of one Deployment are bound after", r.Size.Flood), inSeconds(func(m *runResult) time.Duration { return m.Scenes[oneDeployment].BoundAfter() }), "%.1f s"},
		{fmt.Sprintf("%d pods of %d Deployments are bound after", r.Size.Flood, r.Size.Flood/harness.GangSize), inSeconds(func(m *runResult) time.Duration { return m.Scenes[manyDeployments].BoundAfter() }), "%.1f s"},
		{fmt.Sprintf("a gang of %d pods runs after", r.Size.Gang), inSeconds(func(m *runResult) time.Duration { return m.Scenes[oneGang].RunningAfter() }), "%.1f s"},
	}
	for _, scene := range scenes {
		rows = append(rows, tableRow{fmt.Sprintf("gangs broken by %s (at least %d)", scene, r.minGangs(scene)), lost(scene, func(l harness.Loss) float64 { return float64(l.Gangs) }), "%.0f"})
	}

	return append(rows,
		tableRow{"card-seconds lost in all", cardSeconds, "%.0f"},
		tableRow{"training pods on their own lost", sumOverScenes(func(l harness.Loss) float64 { return float64(l.Singles) }), "%.0f"},
		tableRow{"retries counted against jobs", sumOverScenes(func(l harness.Loss) float64 { return float64(l.Retries) }), "%.0f"},
		tableRow{"gangs that did not come back", func(m *runResult) float64 { return float64(countStuckGangs(m)) }, "%.0f"},
		tableRow{"gangs left running in part", sumOverScenes(func(l harness.Loss) float64 { return float64(l.Partial) }), "%.0f"},
	)
}

// markdown returns the table: medians, ranges, and the ratio of the medians.
func (r *report) markdown() string {
	var out strings.Builder
	harness.Printf(&out, "| median of %d run(s) (range) | Volcano's reclaim | cardreclaim | Ratio |\n|---|---|---|---|\n", r.Size.Runs)
	for _, row := range r.tableRows() {
		theirs := harness.SortedValues(r.Runs[tide.Reclaim], row.value)
		own := harness.SortedValues(r.Runs[tide.CardReclaim], row.value)
		ratio := ""
		if harness.Median(theirs) > 0 {
			ratio = fmt.Sprintf("%.2f", harness.Median(own)/harness.Median(theirs))
		}
		harness.Printf(&out, "| %s | %s | %s | %s |\n", row.what, formatRange(row.format, theirs), formatRange(row.format, own), ratio)
	}

	return out.String()
}

// writeFiles writes the report as a table and as JSON.
func (r *report) writeFiles(folder string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "bench-tide.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "bench-tide.md"), []byte(r.markdown()), 0o644)
}

func formatRange(format string, sorted []float64) string {
	text := fmt.Sprintf(format, harness.Median(sorted))
	if len(sorted) > 1 {
		text += fmt.Sprintf(" ("+format+" to "+format+")", sorted[0], sorted[len(sorted)-1])
	}
	return text
}
