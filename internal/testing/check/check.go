// Package check compares what a test got with what it wants, in one line each. It
// adds no style of its own: a difference is told as by cmp.Diff, and goes on or
// ends the test as its function says.
package check

import (
	"fmt"
	"iter"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// T is a *testing.T or a *rapid.T.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Equal reports how got differs from want.
func Equal[V any](t T, what string, want, got V, options ...cmp.Option) {
	t.Helper()
	if !cmp.Equal(want, got, options...) { // quicker than a difference, which properties ask for by the thousand
		t.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got, options...))
	}
}

// That reports, as fmt.Sprintf writes it, what is wrong when something does not hold.
func That(t T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf("%s", fmt.Sprintf(format, args...))
	}
}

// Must ends the test when something does not hold, and says what That would.
func Must(t T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Fatalf("%s", fmt.Sprintf(format, args...))
	}
}

// NoError ends the test at an error.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// Says reports when an error does not contain a text, or, for "", when there is one.
func Says(t T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want …%s…", err, want)
	}
}

// Contains reports when got does not contain all of some texts.
func Contains(t T, what, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nwant …%s…", what, got, want)
		}
	}
}

// Cases runs the body of a loop as a subtest for each case of a table:
//
//	for t, tc := range check.Cases(t, map[string]struct{…}{…}) {
//
// A case that ends its test at once, by t.Fatal, ends the loop as well.
func Cases[V any](t *testing.T, cases map[string]V) iter.Seq2[*testing.T, V] {
	return func(yield func(*testing.T, V) bool) {
		t.Helper()
		for name, tc := range cases {
			begun, ended, more := false, false, true
			t.Run(name, func(t *testing.T) {
				begun = true
				more = yield(t, tc)
				ended = true
			})
			if begun && !ended {
				t.FailNow() // Go does not let a loop go on whose body has not come to its end
			}
			if !more {
				return
			}
		}
	}
}

// Refused ends the test without an error, and reports when an error does not contain
// all of some texts or is none that an event can hold.
func Refused(t T, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want …%s…", strings.Join(wants, "… and …"))
		return
	}
	Contains(t, "error", err.Error(), wants...)
	if !FitsEvent(err.Error()) {
		t.Errorf("no event can hold the error %q", err)
	}
}

// FitsEvent tells whether an event can hold a message and a terminal can show it: it
// is short (Kubernetes, pkg/apis/core/validation), and has no control or formatting
// characters.
func FitsEvent(message string) bool {
	return message != "" && len(message) <= 1024 && utf8.ValidString(message) &&
		!strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) })
}
