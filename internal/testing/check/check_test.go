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

func TestWhatIsReported(t *testing.T) {
	broken := errors.New("it is broken")

	for name, tc := range map[string]struct {
		check          func(T)
		errors, fatals int
	}{
		"equal":                {func(t T) { Equal(t, "it", []int{1}, []int{1}) }, 0, 0},
		"different":            {func(t T) { Equal(t, "it", []int{1}, []int{2}) }, 1, 0},
		"what holds":           {func(t T) { That(t, true, "no"); Must(t, true, "no") }, 0, 0},
		"what does not hold":   {func(t T) { That(t, false, "no %d", 1) }, 1, 0},
		"what must hold":       {func(t T) { Must(t, false, "no %d", 1) }, 0, 1},
		"no error":             {func(t T) { NoError(t, nil) }, 0, 0},
		"an error":             {func(t T) { NoError(t, broken) }, 0, 1},
		"a value":              {func(t T) { Equal(t, "it", 1, Value(1, nil)(t)) }, 0, 0},
		"an error for a value": {func(t T) { Value(1, broken)(t) }, 0, 1},
		"the error":            {func(t T) { Says(t, broken, "broken") }, 0, 0},
		"another error":        {func(t T) { Says(t, broken, "closed") }, 1, 0},
		"an error too few":     {func(t T) { Says(t, nil, "broken") }, 1, 0},
		"an error too many":    {func(t T) { Says(t, broken, "") }, 1, 0},
		"no error, as wanted":  {func(t T) { Says(t, nil, "") }, 0, 0},
		"the text":             {func(t T) { Contains(t, "it", "abc", "b") }, 0, 0},
		"another text":         {func(t T) { Contains(t, "it", "abc", "d") }, 1, 0},
		"wanted texts":         {func(t T) { Text(t, "it", "abc").Has("a", "b").Lacks("d") }, 0, 0},
		"no wanted text":       {func(t T) { Text(t, "it", "abc").Has("d").Lacks("e") }, 1, 0},
		"unwanted texts":       {func(t T) { Text(t, "it", "abc").Has("a").Lacks("b", "c") }, 2, 0},
		"the refusal":          {func(t T) { Refused(t, broken, "it", "broken") }, 0, 0},
		"another refusal":      {func(t T) { Refused(t, broken, "it", "closed") }, 1, 0},
		"no refusal":           {func(t T) { Refused(t, nil) }, 0, 1},
		"a bell":               {func(t T) { Refused(t, errors.New("\a")) }, 1, 0},
		"1025 bytes":           {func(t T) { Refused(t, errors.New(strings.Repeat("a", 1025))) }, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			tc.check(r)
			if len(r.errors) != tc.errors || len(r.fatals) != tc.fatals {
				t.Errorf("reported %q, fatal %q", r.errors, r.fatals)
			}
		})
	}
}

func TestCasesAreSubtests(t *testing.T) {
	got := map[string]int{}
	for t, tc := range Cases(t, map[string]int{"one": 1, "two": 2}) {
		got[t.Name()] = tc
		if tc == 2 {
			continue
		}
	}
	Equal(t, "cases", map[string]int{"TestCasesAreSubtests/one": 1, "TestCasesAreSubtests/two": 2}, got)
}
