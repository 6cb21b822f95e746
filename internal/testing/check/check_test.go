package check

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// recorder is a test that records what is reported.
type recorder struct{ errors, fatals []string }

func (*recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatals = append(r.fatals, fmt.Sprintf(format, args...))
}

// TestEachCheckReportsWhatIsNotTrue: a check that is true reports nothing. Another one reports an error, after
// which the test goes on, or a fatal one, which ends it. Each row calls checks and counts both. Refused also
// checks that the error suits an event: no control characters, and at most 1024 bytes.
func TestEachCheckReportsWhatIsNotTrue(t *testing.T) {
	broken := errors.New("it is broken")

	for name, tc := range map[string]struct {
		check                  func(T)
		wantErrors, wantFatals int
	}{
		"Equal of equal values":                      {func(t T) { Equal(t, "it", []int{1}, []int{1}) }, 0, 0},
		"Equal of different values":                  {func(t T) { Equal(t, "it", []int{1}, []int{2}) }, 1, 0},
		"That and Must of true":                      {func(t T) { That(t, true, "no"); Must(t, true, "no") }, 0, 0},
		"That of false":                              {func(t T) { That(t, false, "no %d", 1) }, 1, 0},
		"Must of false":                              {func(t T) { Must(t, false, "no %d", 1) }, 0, 1},
		"NoError of nil":                             {func(t T) { NoError(t, nil) }, 0, 0},
		"NoError of an error":                        {func(t T) { NoError(t, broken) }, 0, 1},
		"Value without an error":                     {func(t T) { Equal(t, "it", 1, Value(1, nil)(t)) }, 0, 0},
		"Value with an error":                        {func(t T) { Value(1, broken)(t) }, 0, 1},
		"Says of the wanted error":                   {func(t T) { Says(t, broken, "broken") }, 0, 0},
		"Says of another error":                      {func(t T) { Says(t, broken, "closed") }, 1, 0},
		"Says of nil, and an error is wanted":        {func(t T) { Says(t, nil, "broken") }, 1, 0},
		"Says of an error, and none is wanted":       {func(t T) { Says(t, broken, "") }, 1, 0},
		"Says of nil, and no error is wanted":        {func(t T) { Says(t, nil, "") }, 0, 0},
		"Contains of a text with the wanted part":    {func(t T) { Contains(t, "it", "abc", "b") }, 0, 0},
		"Contains of a text without it":              {func(t T) { Contains(t, "it", "abc", "d") }, 1, 0},
		"Has and Lacks that are both true":           {func(t T) { Text(t, "it", "abc").Has("a", "b").Lacks("d") }, 0, 0},
		"Has of a part that is missing":              {func(t T) { Text(t, "it", "abc").Has("d").Lacks("e") }, 1, 0},
		"Lacks of two parts that are there":          {func(t T) { Text(t, "it", "abc").Has("a").Lacks("b", "c") }, 2, 0},
		"Refused with both wanted parts":             {func(t T) { Refused(t, broken, "it", "broken") }, 0, 0},
		"Refused without one of two wanted parts":    {func(t T) { Refused(t, broken, "it", "closed") }, 1, 0},
		"Refused of nil":                             {func(t T) { Refused(t, nil) }, 0, 1},
		"Refused with a control character":           {func(t T) { Refused(t, errors.New("\a")) }, 1, 0},
		"Refused with 1025 bytes, an event has 1024": {func(t T) { Refused(t, errors.New(strings.Repeat("a", 1025))) }, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			tc.check(r)
			Equal(t, "errors", tc.wantErrors, len(r.errors))
			Equal(t, "fatal errors", tc.wantFatals, len(r.fatals))
		})
	}
}

// TestCasesRunsEachRowAsASubtest: the body of the loop runs once for each row, in a subtest with the name of the row. A
// continue ends only that row.
func TestCasesRunsEachRowAsASubtest(t *testing.T) {
	got := map[string]int{}
	for t, tc := range Cases(t, map[string]int{"one": 1, "two": 2}) {
		got[t.Name()] = tc
		if tc == 2 {
			continue
		}
	}

	const prefix = "TestCasesRunsEachRowAsASubtest/"
	Equal(t, "rows by subtest", map[string]int{prefix + "one": 1, prefix + "two": 2}, got)
}
