package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestReadEventsCountsTestsAndPrintsFailures: runtests reads the JSON events of go test. It writes all of them
// to a log, and prints only failed tests with their output, failed builds, packages, and lines that are no
// events. In package a, TestA fails in its subtest TestA/one, TestB passes, TestC is skipped, and the package
// then panics. Package b does not compile, package c passes. A test and its subtest count as two. Times are
// listed without tests that have subtests, and the verdict repeats failures that have output: TestA/one.
func TestReadEventsCountsTestsAndPrintsFailures(t *testing.T) {
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
	const wantPrinted = `FAIL a TestA/one (1.5 s)
it is wrong
panic: boom
FAIL a (9.0 s)
b.go:1: no such thing
ok   c (0.1 s)
not an event
`

	var out, log bytes.Buffer
	got := check.Value(readEvents(strings.NewReader(events), &log, &out, "m"))(t)
	check.Equal(t, "log", events, log.String())
	check.Equal(t, "what is printed", wantPrinted, out.String())

	check.Equal(t, "passed", 1, got.passed)
	check.Equal(t, "failed", 2, got.failed)
	check.Equal(t, "skipped", []string{"a TestC"}, got.skipped)
	check.That(t, slices.Equal(got.failures, []failure{{"a TestA/one", "it is wrong\n"}}), "failures that the verdict repeats: %v", got.failures)
	check.That(t, slices.Equal(got.tests, []testDuration{{"a TestA/one", 1.5}, {"a TestB", 3}, {"a TestC", 0}}), "tests with their seconds: %v", got.tests)
}
