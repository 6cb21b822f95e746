// Package missing skips tests where the machine lacks what they need, with a message that a
// test runner can match.
package missing

import "testing"

// Prefix starts the output of every test that this package skips. What follows names what is
// missing and how to get it.
const Prefix = "skipped, missing: "

// Skip skips a test because the machine lacks something, given as an error or a text.
func Skip(t testing.TB, what any) {
	t.Helper()
	t.Skipf("%s%v", Prefix, what)
}
