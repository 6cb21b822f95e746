package build

import (
	"fmt"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
)

func TestShippedProgramsWaitAsLongAsWritten(t *testing.T) {
	check.That(t, testClocks != "" || Wait(20*time.Second) == 20*time.Second, "20 s became %s", Wait(20*time.Second))
}

func TestTheLinkersTextIsTheDivisor(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 1, "x:1": 1, "fast:4": 4} {
		check.Equal(t, fmt.Sprintf("%q: got", text), want, parseDivisor(text))
	}
	for _, text := range []string{"4", "fast", "fast:", "fast:0", "fast:-1", "fast:four"} {
		func() {
			defer func() { check.That(t, recover() != nil, "%q was taken", text) }()
			parseDivisor(text)
		}()
	}
}
