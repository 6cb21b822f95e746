package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
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
func (p *project) writeReport(outcomes []outcome, notRun []string, wall time.Duration) (bool, error) {
	file, err := createFile(p.root, "report.txt")
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()

	out := io.MultiWriter(os.Stdout, file)
	printStages(out, outcomes, wall)
	printSlowest(out, outcomes)
	return printVerdict(out, outcomes, notRun, os.Getenv("CI") == "true"), nil
}

func printStages(out io.Writer, outcomes []outcome, wall time.Duration) {
	_, _ = fmt.Fprintf(out, "\n%-14s %8s %8s %8s %7s\n", "stage", "wall s", "CPU s", "budget", "tests")
	var cpu time.Duration
	for _, o := range outcomes {
		over := ""
		if o.wall.Seconds() > o.stage.budget*1.25 {
			over = "  WARNING: more than 25 % over budget"
		}

		cpu += o.cpu
		_, _ = fmt.Fprintf(out, "%-14s %8.1f %8.1f %8.0f %7d%s\n", o.stage.name, o.wall.Seconds(), o.cpu.Seconds(), o.stage.budget,
			o.results.passed+o.results.failed+len(o.results.skipped), over)
	}
	_, _ = fmt.Fprintf(out, "%-14s %8.1f %8.1f\n", "all", wall.Seconds(), cpu.Seconds())
}

func printSlowest(out io.Writer, outcomes []outcome) {
	var tests []testDuration
	for _, o := range outcomes {
		tests = append(tests, o.results.tests...)
	}

	slices.SortStableFunc(tests, func(a, b testDuration) int { return cmp.Compare(b.seconds, a.seconds) })
	_, _ = fmt.Fprintln(out, "\nThe slowest tests, in seconds:")
	for _, t := range tests[:min(maxSlowestTests, len(tests))] {
		_, _ = fmt.Fprintf(out, "%8.1f  %s\n", t.seconds, t.name)
	}
}

// printVerdict prints what was skipped, not run, or failed and how, and closes with the counts.
// In CI a skipped test is a failure: that machine has what every test needs. Groups that do not
// run are no skipped tests.
func printVerdict(out io.Writer, outcomes []outcome, notRun []string, inCI bool) bool {
	var passed, failed int
	var skipped, broken []string
	for _, o := range outcomes {
		passed += o.results.passed
		failed += o.results.failed
		skipped = append(skipped, o.results.skipped...)
		if o.err != nil {
			broken = append(broken, fmt.Sprintf("%s (%v)", o.stage.name, o.err))
		}
	}

	_, _ = fmt.Fprintln(out)
	for _, name := range skipped {
		_, _ = fmt.Fprintln(out, "skipped:", name)
	}
	for _, line := range notRun {
		_, _ = fmt.Fprintln(out, line)
	}
	for _, o := range outcomes {
		for _, f := range o.results.failures {
			printFailure(out, f)
		}
	}

	if inCI && (len(skipped) > 0) {
		broken = append(broken, fmt.Sprintf("%d tests were skipped, and CI must run all of a chosen stage", len(skipped)))
	}
	if len(broken) > 0 {
		_, _ = fmt.Fprintln(out, "failed:", strings.Join(broken, "; "))
	}

	_, _ = fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, failed, len(skipped))
	return len(broken) == 0
}

var (
	// gomegaFailure matches the line before what an assertion of gomega says.
	gomegaFailure = regexp.MustCompile(`^\s+\w+\.go:\d+:\s*$`)
	// goLine matches the lines that go test adds, and empty ones.
	goLine = regexp.MustCompile(`^\s*(=== .*|--- .*|FAIL(\t.*)?)?$`)
)

// printFailure prints what the first failed assertion says, or the first lines where there is
// none. A long test logs much before and after it.
func printFailure(out io.Writer, f failure) {
	lines := slices.DeleteFunc(strings.Split(f.text, "\n"), goLine.MatchString)
	if len(lines) == 0 { // a parent whose subtest says why
		return
	}

	_, _ = fmt.Fprintln(out, "FAIL", f.name)
	more := max(0, len(lines)-maxFailureLines)
	from := min(max(0, slices.IndexFunc(lines, gomegaFailure.MatchString)), more)
	for _, line := range lines[from:min(from+maxFailureLines, len(lines))] {
		_, _ = fmt.Fprintf(out, "    %.*s\n", maxLineBytes, strings.TrimRight(line, " "))
	}
	if more > 0 {
		_, _ = fmt.Fprintf(out, "    … %d more lines above\n", more)
	}
}
