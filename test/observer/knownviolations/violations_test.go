package knownviolations

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/test/observer/sessioncheck"
)

// TestEveryKnownViolationHasATest finds the test of each entry by its name.
func TestEveryKnownViolationHasATest(t *testing.T) {
	var text strings.Builder
	for _, pattern := range []string{"../../../internal/*/expected_test.go", "../../../internal/*/*/expected_test.go", "../../e2e/expected_test.go"} {
		files, err := filepath.Glob(pattern)
		check.NoError(t, err)
		for _, file := range files {
			content, err := os.ReadFile(file)
			check.NoError(t, err)
			text.Write(content)
		}
	}

	for _, v := range Violations {
		if !strings.Contains(text.String(), strconv.Quote(v.Name)) {
			t.Errorf("no test plays %q", v.Name)
		}
	}
}

// reporter records whether a test would have failed.
type reporter struct {
	testing.TB
	failed bool
}

func (r *reporter) Helper()               {}
func (r *reporter) Errorf(string, ...any) { r.failed = true }

func TestCheckWantsTheViolationAndNoOther(t *testing.T) {
	known := Violation{Name: "a small job waits for ever", Invariant: sessioncheck.Progress, Object: "^pod/ns/small-0$", Because: "it is forgotten"}
	Violations = []Violation{known}
	t.Cleanup(func() { Violations = nil })

	expected := sessioncheck.Violation{Invariant: known.Invariant, Object: "pod/ns/small-0"}
	other := sessioncheck.Violation{Invariant: known.Invariant, Object: "pod/ns/other"}
	for t, tc := range check.Cases(t, map[string]struct {
		name  string
		found []sessioncheck.Violation
		fails bool
	}{
		"it appears":               {known.Name, []sessioncheck.Violation{expected}, false},
		"it appears no more":       {known.Name, nil, true},
		"another one appears":      {known.Name, []sessioncheck.Violation{expected, other}, true},
		"a name that is not known": {"?", []sessioncheck.Violation{expected}, true},
	}) {
		r := &reporter{TB: t}
		Check(r, tc.name, tc.found)
		check.Equal(t, "fails", tc.fails, r.failed)
	}
}
