package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestEveryMutantBreaksARuleThatIsThere: a mutant replaces a text of the product by a wrong one, and tests must
// notice. When the product changes, its mutants must too. The text must be there once, and the replacement must
// differ and must still be Go. No two mutants may be the same.
func TestEveryMutantBreaksARuleThatIsThere(t *testing.T) {
	top := check.Value(moduleRoot())(t)
	seen := map[mutant]bool{}
	for _, m := range trialsMatching(regexp.MustCompile("")) { // all mutants
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

// TestEveryPatternOfATableSelectsTests: a table has mutants, a package whose tests must notice them, and perhaps a
// pattern of these tests. go test passes when its pattern selects no test, so all mutants of such a table would survive.
// Each alternative of a pattern, such as A and B of Test(A|B), selects at least one test of the package. Without a
// pattern the package has tests. A test that moves to another package takes its pattern along.
func TestEveryPatternOfATableSelectsTests(t *testing.T) {
	top := check.Value(moduleRoot())(t)
	for _, tab := range tables {
		tests := testsOf(t, filepath.Join(top, tab.tests))
		for _, alternative := range alternatives(tab.run) {
			pattern := check.Value(regexp.Compile(alternative))(t)
			check.That(t, slices.ContainsFunc(tests, pattern.MatchString), "%s: no test is named as in %q", tab.tests, alternative)
		}
	}
}

// group is a pattern with one group of alternatives: what is before it, the alternatives, and what is behind it.
var group = regexp.MustCompile(`^([^()]*)\(([^()]*)\)([^()]*)$`)

// alternatives returns a pattern with each alternative of its group in turn, or the pattern alone.
func alternatives(pattern string) (each []string) {
	parts := group.FindStringSubmatch(pattern)
	if parts == nil {
		return []string{pattern}
	}

	for alternative := range strings.SplitSeq(parts[2], "|") {
		each = append(each, parts[1]+alternative+parts[3])
	}
	return each
}

// testsOf returns the names of the test functions in a folder.
func testsOf(t *testing.T, folder string) (names []string) {
	for _, path := range check.Value(filepath.Glob(filepath.Join(folder, "*_test.go")))(t) {
		file := check.Value(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		for _, declaration := range file.Decls {
			if function, isFunction := declaration.(*ast.FuncDecl); isFunction && function.Recv == nil {
				names = append(names, function.Name.Name)
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "Test") || name == "TestMain" })
}
