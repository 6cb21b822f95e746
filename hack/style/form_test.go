package main

import (
	"slices"
	"strings"
	"testing"
)

// findForm returns what the rules of form find in the body of a function, as "line: message". The body
// begins in line 2.
func findForm(t *testing.T, body string) []string {
	t.Helper()
	findings, err := checkForm(writeTree(t, map[string]string{
		"a_test.go": "package a; func f(a, b, c, d, e bool, m map[int]int, n, o int) bool {\n" + body + "\n}\n",
	}))
	if err != nil {
		t.Fatal(err)
	}

	for i, finding := range findings {
		findings[i] = strings.TrimPrefix(finding, "a_test.go:")
	}

	return findings
}

const (
	oneStatement = "2: 2 assignments in one statement: write one in each"
	onlyDefine   = "2: the head of an if or switch takes := only: write the statement before it"
	noBrackets   = "2: && beside || without brackets: write (a && b) || c"
	manyParts    = "2: a condition of more than 3 operators: give it, or a part of it, a name"
)

func TestRulesOfStatements(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"n, o = 1, 2", oneStatement},
		{"x, y := 1, 2", oneStatement},
		{"var x, y = 1, 2", oneStatement},
		{"var x, y int", ""},
		{"m[1], o = 1, 2", oneStatement},
		{"if x, y := 1, 2; x < y {}", oneStatement},
		{"n, o = o, 2", oneStatement}, // written as two statements it does the same
		{"n, o = n+1, o+1", oneStatement},
		{"x.n, y.o = x.n, o", oneStatement},
		{"n, x = 1, point{n: 2}", oneStatement}, // the field has the name only
		{"n, o = 1, y.n", oneStatement},
		{"n, o = o, n", ""},
		{"m[n], m[o] = m[o], m[n]", ""},
		{"x.n, o = o, x.n+1", ""},
		{"n, o = o, n-o", ""},
		{"x, y := f()", ""},
		{"x, ok := m[1]", ""},
		{"x, ok = <-y", ""},
		{"x, ok = y.(int)", ""},
		{"for i, j := 0, 9; i < j; i, j = i+1, j-1 {}", ""},
		{"for n < o { n, o = 1, 2 }", oneStatement},
		{"go func() { n, o = 1, 2 }()", oneStatement},

		{"if n = 1; a {}", onlyDefine},
		{"if n += 1; a {}", onlyDefine},
		{"if n++; a {}", onlyDefine},
		{"if f(); a {}", onlyDefine},
		{"switch n = 1; n {}", onlyDefine},
		{"switch n = 1; x := y.(type) {}", onlyDefine},
		{"if a {} else if n = 1; b {}", onlyDefine},
		{"if x := f(); x {}", ""},
		{"if x, ok := m[1]; ok {}", ""},
		{"switch x := y.(type) {}", ""},
		{"for n = 0; a; n++ {}", ""},

		{"return a || b && c", noBrackets},
		{"return a && b || c", noBrackets},
		{"x := f(a, !(b || c && d))", noBrackets},
		{"return a || (b && c)", ""},
		{"return (a || b) && c", ""},
		{"return a || f(b && c)", ""},

		{"if a && b && c && d && e {}", manyParts},
		{"for a && b && !(c || d || e) {}", manyParts},
		{"switch { case a || b || c || d || e: }", manyParts},
		{"f(a || b || c || d || e)", manyParts},
		{"return f(a || b || c || d || e)", manyParts},
		{"return a || b || (c && d && e)", manyParts},
		{"x := a || b || (c && d && e)", manyParts},
		{"if a && b && c && d {}", ""},
		{"if a && b && f(c && d && e) && d {}", ""},
		{"return a || b || c || d || e", ""}, // the function is the name
		{"x := a && b && c && d && e", ""},
		{"var x = a && b && (c && d && e)", ""},
	} {
		found := strings.Join(findForm(t, c.code), "; ")

		if found != c.want {
			t.Errorf("%s: found %q, want %q", c.code, found, c.want)
		}
	}
}

func TestLongFunctionsNeedAParagraph(t *testing.T) {
	steps := strings.TrimSuffix(strings.Repeat("f()\n", 12), "\n")
	short := strings.TrimPrefix(steps, "f()\n")
	cases := "switch n {\n" + strings.Repeat("case 1:\nf()\n", 5) + "}"

	for _, c := range []struct{ name, body, want string }{
		{"twelve lines", steps, "1: a function of 12 lines without a paragraph: put a blank line between the steps"},
		{"eleven lines", short, ""},
		{"a break", short + "\n\nf()", ""},
		{"a break before a comment", short + "\n\n// Why.\nf()", ""},
		{"a break behind a comment", short + "\n// Why.\n\nf()", ""},
		{"a comment of two lines", short + "\n// Why\n// it is.\nf()", "1: a function of 14 lines without a paragraph: put a blank line between the steps"},
		{"a comment behind code", short + " // why\n\nf()", ""},
		{"a break in a block", "if a {\n" + short + "\n\nf()\n}", ""},
		{"a break in a case", "switch n {\ncase 1:\n" + short + "\n\nf()\n}", ""},
		{"blank lines in a table", "f([]int{\n" + strings.Repeat("1,\n\n", 6) + "})\nf()", "1: a function of 15 lines without a paragraph: put a blank line between the steps"},
		{"one statement", "f([]int{\n" + strings.Repeat("1,\n", 12) + "})", ""},
		{"cases of one statement", cases, ""},
		{"cases and a statement", cases + "\nf()", "1: a function of 13 lines without a paragraph: put a blank line between the steps"},
	} {
		if found := strings.Join(findForm(t, c.body), "; "); found != c.want {
			t.Errorf("%s: found %q, want %q", c.name, found, c.want)
		}
	}
}

func TestFunctionLiteralsNeedAParagraphToo(t *testing.T) {
	found := findForm(t, "f()\n\ngo func() {\n"+strings.Repeat("f()\n", 12)+"}()")
	if !slices.Equal(found, []string{"4: a function of 12 lines without a paragraph: put a blank line between the steps"}) {
		t.Errorf("found %q", found)
	}
}

func TestGeneratedCodeHasNoForm(t *testing.T) {
	findings, err := checkForm(writeTree(t, map[string]string{
		"z.go":          "// Code generated by x. DO NOT EDIT.\n\npackage a\n\nvar a, b = 1, 2\n\nfunc f() { x, y := 1, 2 }\n",
		"testdata/b.go": "package b\n\nfunc f() { x, y := 1, 2 }\n",
	}))
	if err != nil || findings != nil {
		t.Errorf("found %q, %v", findings, err)
	}
}
