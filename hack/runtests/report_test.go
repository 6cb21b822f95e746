package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestVerdictFailsOnSkipsInCI(t *testing.T) {
	passed := outcome{results: testResults{passed: 3}}
	broken := outcome{results: testResults{failed: 1, failures: []failure{{"test/olm TestX", "=== RUN TestX\n    a_test.go:3: it is wrong\n--- FAIL: TestX\n"}}}}
	skips := outcome{results: testResults{passed: 3, skipped: []string{"test/olm TestX"}}}

	for name, tc := range map[string]struct {
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
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			ok := printVerdict(&out, []outcome{tc.outcome}, []string{"not run: olm: no input has changed"}, tc.inCI)
			if ok != tc.want || !strings.Contains(out.String(), tc.says) {
				t.Errorf("passed: %v, want %v, and %q in:\n%s", ok, tc.want, tc.says, out.String())
			}
		})
	}
}

func TestFailureShowsTheAssertion(t *testing.T) {
	const assertion = "    day_test.go:9: \n        Expected\n            <int>: 1\n"
	const shown = "        day_test.go:9:\n            Expected\n                <int>: 1\n"
	logged := strings.Repeat("    day_test.go:1: a command\n", 20)

	for name, tc := range map[string]struct{ text, want string }{
		"an assertion of gomega": {logged + assertion + logged, shown + "        day_test.go:1: a command\n"},
		"one near the end":       {logged + assertion, shown + "    … 11 more"},
		"none":                   {logged, "FAIL test/docs TestX\n        day_test.go:1: a command\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			printFailure(&out, failure{"test/docs TestX", tc.text})
			if lines := strings.Count(out.String(), "\n"); !strings.Contains(out.String(), tc.want) || lines != maxFailureLines+2 {
				t.Errorf("%q is missing in %d lines:\n%s", tc.want, lines, out.String())
			}
		})
	}
}

func TestStagesOverTheirBudgetAreNamed(t *testing.T) {
	for seconds, want := range map[int]bool{120: false, 130: true} {
		var out bytes.Buffer
		printStages(&out, []outcome{{stage: stage{name: "lint", budget: 100}, wall: time.Duration(seconds) * time.Second}}, time.Hour)
		if strings.Contains(out.String(), "WARNING: more than 25 % over budget") != want {
			t.Errorf("after %d s of 100:\n%s", seconds, out.String())
		}
	}
}
