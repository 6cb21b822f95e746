package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// maxSlowestTests is the number of slow tests in a report.
	maxSlowestTests = 20
	// maxFailureLines and maxLineBytes bound the output of a failure in the summary.
	maxFailureLines = 12
	maxLineBytes    = 300
)

// writeReport prints the time of every stage, the slowest tests, what was skipped, and the
// result. It writes the same to dist/report.txt. It returns whether everything passed.
func (r *runner) writeReport(outcomes []outcome, p *plan, wall time.Duration) (bool, error) {
	file, err := os.Create(filepath.Join(r.dist, "report.txt"))
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()

	out := io.MultiWriter(os.Stdout, file)
	budgets, err := r.readBudgets()
	if err != nil {
		return false, err
	}

	_, _ = fmt.Fprintln(out)
	printStages(out, outcomes, budgets, wall)
	printSlowest(out, outcomes)

	return printVerdict(out, outcomes, p, os.Getenv("CI") == "true"), nil
}

func printStages(out io.Writer, outcomes []outcome, budgets map[string]time.Duration, wall time.Duration) {
	_, _ = fmt.Fprintf(out, "%-14s %8s %8s %8s %7s\n", "stage", "wall s", "CPU s", "budget", "tests")
	var cpu time.Duration
	var warnings []string
	for _, o := range outcomes {
		budget := ""
		over := ""
		if most := budgets[o.stage.name]; most > 0 {
			budget = fmt.Sprintf("%.0f", most.Seconds())
			if o.wall > most+most/4 {
				over = "  over budget"
				warnings = append(warnings, o.stage.name)
			}
		}

		cpu += o.cpu
		_, _ = fmt.Fprintf(out, "%-14s %8.1f %8.1f %8s %7d%s\n", o.stage.name, o.wall.Seconds(), o.cpu.Seconds(), budget,
			o.results.passed+o.results.failed+len(o.results.skipped), over)
	}

	_, _ = fmt.Fprintf(out, "%-14s %8.1f %8.1f\n", "all", wall.Seconds(), cpu.Seconds())
	if len(warnings) > 0 {
		_, _ = fmt.Fprintf(out, "WARNING: more than 25 %% over the budget of %s: %s\n", budgetsFile, strings.Join(warnings, ", "))
	}
}

func printSlowest(out io.Writer, outcomes []outcome) {
	var tests []testDuration
	for _, o := range outcomes {
		tests = append(tests, o.results.tests...)
	}
	slices.SortStableFunc(tests, func(a, b testDuration) int { return cmp.Compare(b.elapsed, a.elapsed) })
	_, _ = fmt.Fprintln(out, "\nThe slowest tests, in seconds:")
	for _, t := range tests[:min(maxSlowestTests, len(tests))] {
		_, _ = fmt.Fprintf(out, "%8.1f  %s\n", t.elapsed.Seconds(), t.name)
	}
}

// printVerdict prints what was skipped, not run, or failed and how, and closes with the counts.
// In CI a skipped test is a failure: that machine has what every test needs. Groups that do not
// run are no skipped tests.
func printVerdict(out io.Writer, outcomes []outcome, p *plan, inCI bool) bool {
	var passed, failed, skipped int
	var broken []string
	_, _ = fmt.Fprintln(out)

	for _, o := range outcomes {
		passed += o.results.passed
		failed += o.results.failed
		skipped += len(o.results.skipped)

		for _, name := range o.results.skipped {
			_, _ = fmt.Fprintln(out, "skipped:", name)
		}
		if o.err != nil {
			broken = append(broken, fmt.Sprintf("%s (%v)", o.stage.name, o.err))
		}
	}

	for _, s := range p.stages {
		if c := p.decisions[s.name]; !c.run {
			_, _ = fmt.Fprintf(out, "not run: %s: %s\n", s.name, c.reason)
		}
	}

	for _, o := range outcomes {
		for _, f := range o.results.failures {
			printFailure(out, f)
		}
	}

	ok := len(broken) == 0
	if len(broken) > 0 {
		_, _ = fmt.Fprintln(out, "failed:", strings.Join(broken, "; "))
	}

	if inCI && skipped > 0 {
		_, _ = fmt.Fprintf(out, "failed: %d tests were skipped, and CI must run all of a chosen stage\n", skipped)
		ok = false
	}

	_, _ = fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return ok
}

// gomegaFailure matches the line before what an assertion of gomega says.
var gomegaFailure = regexp.MustCompile(`^\s+\w+\.go:\d+:\s*$`)

// printFailure prints what the first failed assertion says, or the first informative lines where there is
// none. A long test logs much before and after it.
func printFailure(out io.Writer, f failure) {
	var lines []string
	asserted := -1
	for line := range strings.Lines(f.text) {
		line = strings.TrimRight(line, " \n")
		switch text := strings.TrimSpace(line); {
		case text == "", text == "FAIL", strings.HasPrefix(text, "=== "), strings.HasPrefix(text, "--- "), strings.HasPrefix(text, "FAIL\t"):
			continue
		case len(line) > maxLineBytes:
			line = strings.ToValidUTF8(line[:maxLineBytes], "") + "…"
		case asserted < 0 && gomegaFailure.MatchString(line):
			asserted = len(lines)
		}
		lines = append(lines, "    "+line)
	}

	if len(lines) == 0 { // a parent whose subtest says why
		return
	}

	if more := len(lines) - maxFailureLines; more > 0 {
		from := min(max(asserted, 0), more)
		lines = append(slices.Clone(lines[from:from+maxFailureLines]), fmt.Sprintf("    … %d more lines above", more))
	}
	_, _ = fmt.Fprintf(out, "FAIL %s\n%s\n", f.name, strings.Join(lines, "\n"))
}

// readLines reads the lines of a file that are neither empty nor comments.
func readLines(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	var lines []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}

	return lines, nil
}
