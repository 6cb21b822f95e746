package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestFollowCountsTestsAndPrintsFailures(t *testing.T) {
	const events = `{"Action":"run","Package":"m/a","Test":"TestA"}
{"Action":"output","Package":"m/a","Test":"TestA/one","Output":"it is wrong\n"}
{"Action":"fail","Package":"m/a","Test":"TestA/one","Elapsed":1.5}
{"Action":"fail","Package":"m/a","Test":"TestA","Elapsed":2}
{"Action":"output","Package":"m/a","Test":"TestB","Output":"quiet\n"}
{"Action":"pass","Package":"m/a","Test":"TestB","Elapsed":3}
{"Action":"skip","Package":"m/a","Test":"TestC","Elapsed":0}
{"Action":"output","Package":"m/a","Output":"panic: boom\n"}
{"Action":"fail","Package":"m/a","Elapsed":9}
{"ImportPath":"m/b","Action":"build-output","Output":"b.go:1: no such thing\n"}
{"Action":"pass","Package":"m/c","Elapsed":0.1}
not an event
`

	var out, log bytes.Buffer
	got, err := readEvents(strings.NewReader(events), &log, &out, "m")
	if err != nil {
		t.Fatal(err)
	}
	checkCounts(t, got)

	for _, want := range []string{"FAIL a TestA/one (1.5 s)\nit is wrong", "panic: boom", "b.go:1: no such thing", "ok   c", "not an event"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, out.String())
		}
	}

	if strings.Contains(out.String(), "quiet") {
		t.Error("the output of a test that passed is printed")
	}
	if log.String() != events {
		t.Error("the log differs from the events")
	}
}

// checkCounts checks what TestFollowCountsTestsAndPrintsFailures has counted.
func checkCounts(t *testing.T, got testResults) {
	t.Helper()
	if got.passed != 1 || got.failed != 2 || !slices.Equal(got.skipped, []string{"a TestC"}) {
		t.Errorf("passed %d, failed %d, skipped %v", got.passed, got.failed, got.skipped)
	}

	if len(got.failures) != 1 || got.failures[0] != (failure{"a TestA/one", "it is wrong\n"}) {
		t.Errorf("the failures that the verdict repeats: %v", got.failures)
	}
	if len(got.tests) != 3 || got.tests[0].name != "a TestA/one" {
		t.Errorf("the tests without subtests: %v", got.tests)
	}
}
