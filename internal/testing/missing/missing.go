// Package missing skips tests where the machine lacks what they need, in one form
// that a runner of tests can match.
package missing

import "testing"

// Prefix begins the output of every test that is skipped by this package. What
// follows names what is missing and how to get it.
const Prefix = "skipped, missing: "

// Skip skips a test because the machine lacks what is named, an error or a text.
func Skip(t testing.TB, what any) {
	t.Helper()
	t.Skipf("%s%v", Prefix, what)
}
