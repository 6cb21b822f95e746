package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

func TestVerdictFailsOnSkipsInCI(t *testing.T) {
	passed := outcome{results: testResults{passed: 3}}
	broken := outcome{results: testResults{failed: 1, failures: []failure{{"test/olm TestX", "=== RUN TestX\n    a_test.go:3: it is wrong\n--- FAIL: TestX\n"}}}}
	skips := outcome{results: testResults{passed: 3, skipped: []string{"test/olm TestX"}}}

	for t, tc := range check.Cases(t, map[string]struct {
		outcome outcome
		inCI    bool
		want    bool
		says    string
	}{
		"passed":                {passed, true, true, "3 passed, 0 failed, 0 skipped"},
		"skips at home":         {skips, false, true, "3 passed, 0 failed, 1 skipped"},
		"skips in CI":           {skips, true, false, "1 tests were skipped"},
		"names what skipped":    {skips, false, true, "skipped: test/olm TestX"},
		"names what is not run": {passed, false, true, "not run: olm: no input has changed"},
		"a test that failed":    {broken, false, true, "FAIL test/olm TestX\n        a_test.go:3: it is wrong\n"},
		"a stage that failed":   {outcome{stage: stage{name: "lint"}, err: errors.New("exit status 1")}, false, false, "failed: lint (exit status 1)"},
	}) {
		var out bytes.Buffer
		check.Equal(t, "passed", tc.want, printVerdict(&out, []outcome{tc.outcome}, []string{"not run: olm: no input has changed"}, tc.inCI))
		check.Contains(t, "verdict", out.String(), tc.says)
	}
}

func TestFailureShowsTheAssertion(t *testing.T) {
	const assertion = "    day_test.go:9: \n        Expected\n            <int>: 1\n"
	const shown = "        day_test.go:9:\n            Expected\n                <int>: 1\n"
	logged := strings.Repeat("    day_test.go:1: a command\n", 20)

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"an assertion of gomega": {logged + assertion + logged, shown + "        day_test.go:1: a command\n"},
		"one near the end":       {logged + assertion, shown + "    … 11 more"},
		"none":                   {logged, "FAIL test/docs TestX\n        day_test.go:1: a command\n"},
	}) {
		var out bytes.Buffer
		printFailure(&out, failure{"test/docs TestX", tc.text})
		check.Contains(t, "failure", out.String(), tc.want)
		check.Equal(t, "lines", maxFailureLines+2, strings.Count(out.String(), "\n"))
	}
}

func TestStagesOverTheirBudgetAreNamed(t *testing.T) {
	for seconds, want := range map[int]bool{120: false, 130: true} {
		var out bytes.Buffer
		printStages(&out, []outcome{{stage: stage{name: "lint", budget: 100}, wall: time.Duration(seconds) * time.Second}}, time.Hour)
		check.That(t, strings.Contains(out.String(), "WARNING: more than 25 % over budget") == want, "after %d s of 100:\n%s", seconds, out.String())
	}
}
