// Package knownviolations lists what today's scheduler is known to do wrong, as the
// observer's judge reports it. Each entry has a test that plays it; the test fails
// when the violation does not appear any more, and when another one does. Who
// mends the scheduler takes the entry out and turns the test round.
package knownviolations

import (
	"regexp"
	"testing"

	"cardquota.dev/operator/test/observer/sessioncheck"
)

// Violation is one that the scheduler makes today.
type Violation struct {
	// Name says what the scheduler does wrong; its test gives it to Check.
	Name string
	// Invariant and Object are those of the report; Object is a pattern.
	Invariant, Object string
	// Because is the cause in the scheduler.
	Because string
}

// Violations are all that are known: none.
var Violations []Violation

// Check wants the violation of a name among what was found, and nothing else.
func Check(t testing.TB, name string, found []sessioncheck.Violation) {
	t.Helper()
	for _, v := range Violations {
		if v.Name != name {
			continue
		}
		pattern, seen := regexp.MustCompile(v.Object), false
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
