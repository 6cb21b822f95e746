package build

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

// TestShippedProgramsWaitAsLongAsWritten: only programs that are built for tests wait a part of the time in the
// source. The linker sets testClocks in them, and then this test checks nothing. In all other programs Wait
// returns the 20 s that it gets.
func TestShippedProgramsWaitAsLongAsWritten(t *testing.T) {
	check.That(t, testClocks != "" || Wait(20*time.Second) == 20*time.Second, "20 s became %s", Wait(20*time.Second))
}

// TestLinkerSetsTheDivisorOfWaitingTimes: for tests the linker sets a name and the number by which waiting times are
// divided, such as fast:4. Without a text they are not divided. A program with another text ends at once, because it
// would otherwise test something else.
func TestLinkerSetsTheDivisorOfWaitingTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 1, "x:1": 1, "fast:4": 4} {
		check.Equal(t, fmt.Sprintf("divisor of %q", text), want, parseDivisor(text))
	}
	for _, text := range []string{"4", "fast", "fast:", "fast:0", "fast:-1", "fast:four"} {
		func() {
			defer func() { check.That(t, recover() != nil, "%q is accepted", text) }()
			parseDivisor(text)
		}()
	}
}
