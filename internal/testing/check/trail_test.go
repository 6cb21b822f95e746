package check_test

import (
	"fmt"
	"regexp"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// said records the last failure.
type said struct {
	check.T
	text string
}

func (s *said) Errorf(format string, args ...any) { s.text = fmt.Sprintf(format, args...) }

func (s *said) Fatalf(format string, args ...any) { s.Errorf(format, args...) }

func fail(t check.T) { check.Must(t, false, "no") }

func TestAFailureNamesTheLinesThatLedToIt(t *testing.T) {
	s := &said{T: t}
	check.That(s, false, "no")
	check.Equal(t, "a failure in the test itself", "no", s.text)

	fail(s)
	check.That(t, regexp.MustCompile(`^no\n\tat trail_test.go:\d+\n\tat trail_test.go:\d+$`).MatchString(s.text), "a failure in a function says %q", s.text)
}
