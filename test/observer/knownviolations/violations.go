// Package knownviolations lists the violations that the scheduler is known to cause, as package
// sessioncheck reports them. A test reproduces each entry. It fails when the violation no
// longer appears, and when another one appears. A fix of the scheduler removes the entry
// and inverts the test.
package knownviolations

import (
	"regexp"
	"testing"

	"cardquota.dev/operator/test/observer/sessioncheck"
)

// Violation is a known violation.
type Violation struct {
	// Name describes the violation. Its test passes it to Check.
	Name string
	// Invariant and Object are as reported; Object is a regular expression.
	Invariant, Object string
	// Because is the cause in the scheduler.
	Because string
}

// Violations are all known violations: none.
var Violations []Violation

// Check fails the test unless the named violation was found, and no other one.
func Check(t testing.TB, name string, found []sessioncheck.Violation) {
	t.Helper()
	for _, v := range Violations {
		if v.Name != name {
			continue
		}

		pattern := regexp.MustCompile(v.Object)
		seen := false
		for _, f := range found {
			if f.Invariant == v.Invariant && pattern.MatchString(f.Object) {
				seen = true
			} else {
				t.Errorf("beside what is expected: %s %s %s", f.Invariant, f.Object, f.Message)
			}
		}

		if !seen {
			t.Errorf("the scheduler does not do this any more, take it from the list of expected violations: %s", name)
		}

		return
	}

	t.Errorf("%q is not in the list of expected violations", name)
}
