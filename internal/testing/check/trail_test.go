package check_test

import (
	"fmt"
	"regexp"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// lastFailure records the text of the last failure.
type lastFailure struct {
	check.T
	text string
}

func (f *lastFailure) Errorf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

func (f *lastFailure) Fatalf(format string, args ...any) { f.Errorf(format, args...) }

func failInFunction(t check.T) { check.Must(t, false, "no") }

// TestAFailureNamesTheLinesThatLedToIt: a failure within a function of a test names its own line and that of the call, so
// such functions need no t.Helper. A failure in the test itself names no line, as Go prints that one.
func TestAFailureNamesTheLinesThatLedToIt(t *testing.T) {
	f := &lastFailure{T: t}
	check.That(f, false, "no")
	check.Equal(t, "a failure in the test itself", "no", f.text)

	failInFunction(f)
	const twoLines = `^no\n\tat trail_test.go:\d+\n\tat trail_test.go:\d+$`
	check.That(t, regexp.MustCompile(twoLines).MatchString(f.text), "a failure in a function: %q, want %s", f.text, twoLines)
}
