package deployment

import (
	"bytes"
	"os"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// The linker writes this text only into programs for tests.
const testClocks = "cardquota-test-clocks:"

// TestOnlyProgramsForTestsHaveShorterClocks: a shipped program never has the short clocks of tests, such as a
// heartbeat that is stale after seconds. Programs built for tests have them, unless CLOCKS is "shipped", and any
// other value is an error. The linker writes testClocks into a program with short clocks.
func TestOnlyProgramsForTestsHaveShorterClocks(t *testing.T) {
	for clocks, want := range map[string]bool{"": true, shippedClocks: false} {
		t.Setenv(clocksVariable, clocks)
		for _, name := range []string{"manager", "cardquota-scheduler"} {
			path := check.Value(ProgramPath(t.Context(), name))(t)
			check.Equal(t, path+" has the clocks of tests", want, bytes.Contains(check.Value(os.ReadFile(path))(t), []byte(testClocks)))
		}
	}

	t.Setenv(clocksVariable, "fast")
	_, err := ProgramPath(t.Context(), "manager")
	check.Says(t, err, `CLOCKS is "fast"`)
}
