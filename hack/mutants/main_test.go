package main

import (
	"go/parser"
	"go/token"
	"regexp"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestEveryMutantBreaksARuleThatIsThere: a mutant replaces a text of the product by a wrong one, and tests must
// notice. When the product changes, its mutants must too. The text must be there once, and the replacement must
// differ and must still be Go. No two mutants may be the same.
func TestEveryMutantBreaksARuleThatIsThere(t *testing.T) {
	top := check.Value(moduleRoot())(t)
	seen := map[mutant]bool{}
	for _, m := range trialsMatching(regexp.MustCompile("")) {
		name := m.file + ": " + m.breaks
		file, content, err := m.brokenContent(top)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}

		check.That(t, m.old != m.new, "%s: it changes nothing", name)
		check.That(t, !seen[m.mutant], "%s: another mutant is the same", name)
		seen[m.mutant] = true

		_, err = parser.ParseFile(token.NewFileSet(), file, content, 0)
		check.That(t, err == nil, "%s: %v", name, err)
	}
}

// TestAMutantNeedsATextThatIsThereOnce: a text that is gone, or that is there several times as "func ", is refused. It
// would break nothing, or not what it says.
func TestAMutantNeedsATextThatIsThereOnce(t *testing.T) {
	top := check.Value(moduleRoot())(t)
	for _, text := range []string{"no such text", "func "} {
		_, _, err := (mutant{file: "internal/workload/pod.go", old: text, new: "x"}).brokenContent(top)
		check.That(t, err != nil, "%q was replaced", text)
	}
}
