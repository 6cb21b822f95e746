package main

import (
	"go/parser"
	"go/token"
	"regexp"
	"testing"
)

// TestEveryMutantFindsItsText tests that the mutants were updated together with the rules.
func TestEveryMutantFindsItsText(t *testing.T) {
	top, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}

	seen := map[mutant]bool{}
	for _, m := range trialsMatching(regexp.MustCompile("")) {
		file, content, err := m.brokenContent(top)
		switch {
		case err != nil:
			t.Errorf("%s: %s: %v", m.file, m.breaks, err)
			continue
		case m.old == m.new || seen[m.mutant]:
			t.Errorf("%s: %s: breaks nothing of its own", m.file, m.breaks)
		}

		seen[m.mutant] = true
		if _, err := parser.ParseFile(token.NewFileSet(), file, content, 0); err != nil {
			t.Errorf("%s: %s: %v", m.file, m.breaks, err)
		}
	}
}

func TestAMutantWhoseTextIsGoneIsRefused(t *testing.T) {
	top, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"no such text", "func "} {
		if _, _, err := (mutant{file: "internal/workload/pod.go", old: old, new: "x"}).brokenContent(top); err == nil {
			t.Errorf("%q was replaced", old)
		}
	}
}
