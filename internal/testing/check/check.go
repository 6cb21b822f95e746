// Package check compares what a test got with what it wants, in one line each. Differences look
// like those of cmp.Diff. Each function either continues the test or ends it.
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

// Equal reports the difference between want and got.
func Equal[V any](t T, what string, want, got V, options ...cmp.Option) {
	t.Helper()
	if !cmp.Equal(want, got, options...) { // quicker than a difference, which properties ask for by the thousand
		Trail(t).Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got, options...))
	}
}

// That reports a failed condition; the message is formatted as by fmt.Sprintf.
func That(t T, isTrue bool, format string, args ...any) {
	t.Helper()
	if !isTrue {
		Trail(t).Errorf("%s", fmt.Sprintf(format, args...))
	}
}

// Must is That, but ends the test.
func Must(t T, isTrue bool, format string, args ...any) {
	t.Helper()
	if !isTrue {
		Trail(t).Fatalf("%s", fmt.Sprintf(format, args...))
	}
}

// NoError ends the test on an error.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		Trail(t).Fatalf("%v", err)
	}
}

// Value returns what a call returned beside its error, and ends the test on an error. Where the value does not
// matter, it only does that.
//
//	text := check.Value(os.ReadFile(path))(t)
func Value[V any](value V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		NoError(t, err)
		return value
	}
}

// Says reports an error that does not contain a text, or any error for "".
func Says(t T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
		Trail(t).Errorf("got error %v, want …%s…", err, want)
	}
}

// Contains reports each wanted text that got does not contain.
func Contains(t T, what, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			Trail(t).Errorf("%s:\n%s\nwant …%s…", what, got, want)
		}
	}
}

// Cases runs the body of a loop as a subtest for each case of a table:
//
//	for t, tc := range check.Cases(t, map[string]struct{…}{…}) {
//
// A case that ends its test by t.Fatal also ends the loop.
func Cases[V any](t *testing.T, cases map[string]V) iter.Seq2[*testing.T, V] {
	return func(yield func(*testing.T, V) bool) {
		t.Helper()
		for name, tc := range cases {
			begun := false
			ended := false
			more := true

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

// Refused ends the test without an error. It reports an error that does not contain all wanted
// texts, or that does not fit an event.
func Refused(t T, err error, wants ...string) {
	t.Helper()
	if err == nil {
		Trail(t).Fatalf("accepted, want …%s…", strings.Join(wants, "… and …"))
		return
	}
	Contains(t, "error", err.Error(), wants...)
	if !FitsEvent(err.Error()) {
		Trail(t).Errorf("the error %q does not fit an event", err)
	}
}

// FitsEvent reports whether a message fits an event and a terminal: it is short (Kubernetes,
// pkg/apis/core/validation), and has no control or formatting characters.
func FitsEvent(message string) bool {
	return message != "" && len(message) <= 1024 && utf8.ValidString(message) &&
		!strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) })
}
