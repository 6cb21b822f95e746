package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// TestTheVerdictSaysWhatFailedWasSkippedOrNotRun: the last lines of make test count tests, name those that were
// skipped and the groups that did not run, and repeat failures. A stage that failed fails the run. So do skipped
// tests in CI, where nothing may be missing. Here group olm has not run, in every row.
func TestTheVerdictSaysWhatFailedWasSkippedOrNotRun(t *testing.T) {
	passed := outcome{results: testResults{passed: 3}}
	skipped := outcome{results: testResults{passed: 3, skipped: []string{"test/olm TestX"}}}
	failedTest := outcome{results: testResults{
		failed:   1,
		failures: []failure{{"test/olm TestX", "=== RUN TestX\n    a_test.go:3: it is wrong\n--- FAIL: TestX\n"}},
	}}
	failedStage := outcome{stage: stage{name: "lint"}, err: errors.New("exit status 1")}

	for t, tc := range check.Cases(t, map[string]struct {
		outcome    outcome
		inCI       bool
		wantPassed bool
		wantText   string
	}{
		"3 tests passed in CI: counted":                        {passed, true, true, "3 passed, 0 failed, 0 skipped"},
		"1 test was skipped on a developer's machine: counted": {skipped, false, true, "3 passed, 0 failed, 1 skipped"},
		"1 test was skipped on a developer's machine: named":   {skipped, false, true, "skipped: test/olm TestX"},
		"1 test was skipped in CI: fails":                      {skipped, true, false, "1 tests were skipped"},
		"a group did not run: named with the reason":           {passed, false, true, "not run: olm: no input has changed"},
		"a test failed: its assertion is repeated": {
			// The run has passed here only because the row has no error of the stage, to which a failed test leads.
			failedTest, false, true, "FAIL test/olm TestX\n        a_test.go:3: it is wrong\n",
		},
		"a stage failed: named with its error": {failedStage, false, false, "failed: lint (exit status 1)"},
	}) {
		var out bytes.Buffer
		check.Equal(t, "passed", tc.wantPassed, printVerdict(&out, []outcome{tc.outcome}, []string{"not run: olm: no input has changed"}, tc.inCI))
		check.Contains(t, "verdict", out.String(), tc.wantText)
	}
}

// TestAFailureShowsItsAssertionFirst: a long test logs much before and after it fails. The verdict shows 12
// lines (maxFailureLines), and begins with the assertion of gomega. If fewer than 12 are left from there on, it
// shows the last 12. Without an assertion it shows the first 12.
func TestAFailureShowsItsAssertionFirst(t *testing.T) {
	const assertion = "    day_test.go:9: \n        Expected\n            <int>: 1\n"
	const shownAssertion = "        day_test.go:9:\n            Expected\n                <int>: 1\n"
	twentyLines := strings.Repeat("    day_test.go:1: a command\n", 20)

	for t, tc := range check.Cases(t, map[string]struct{ output, wantShown string }{
		"an assertion between 20 lines before and after": {
			twentyLines + assertion + twentyLines, shownAssertion + "        day_test.go:1: a command\n",
		},
		"an assertion after 20 lines, at the end": {twentyLines + assertion, shownAssertion + "    … 11 more"}, // of 23
		"no assertion: the first lines":           {twentyLines, "FAIL test/docs TestX\n        day_test.go:1: a command\n"},
	}) {
		var out bytes.Buffer
		printFailure(&out, failure{"test/docs TestX", tc.output})
		check.Contains(t, "failure", out.String(), tc.wantShown)
		check.Equal(t, "lines", maxFailureLines+2, strings.Count(out.String(), "\n")) // with the name, and how many more
	}
}

// TestAStageThatTakesAQuarterMoreThanItsBudgetIsWarnedAbout: stage lint has a budget of 100 s, so 130 s are too long,
// and 120 s are not.
func TestAStageThatTakesAQuarterMoreThanItsBudgetIsWarnedAbout(t *testing.T) {
	for seconds, wantWarning := range map[int]bool{120: false, 130: true} {
		var out bytes.Buffer
		lint := outcome{stage: stage{name: "lint", budget: 100}, wall: time.Duration(seconds) * time.Second}
		printStages(&out, []outcome{lint}, time.Hour) // the run took an hour, which has no budget
		hasWarning := strings.Contains(out.String(), "WARNING: more than 25 % over budget")
		check.That(t, hasWarning == wantWarning, "after %d s of 100:\n%s", seconds, out.String())
	}
}
