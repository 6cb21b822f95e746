package main

import (
	"fmt"
	"strings"
	"testing"
)

// findingsInBody returns what the rules of form find in the body of a function, as "line: message", with "; "
// between them. The body begins in line 2 of the file.
func findingsInBody(t *testing.T, body string) string {
	findings, err := checkForm(writeTree(t, map[string]string{
		"a_test.go": "package a; func f(a, b, c, d, e bool, m map[int]int, n, o int) bool {\n" + body + "\n}\n",
	}))
	if err != nil {
		t.Fatal(err)
	}

	return strings.ReplaceAll(strings.Join(findings, "; "), "a_test.go:", "")
}

const (
	oneStatement = "2: 2 assignments in one statement: write one in each"
	onlyDefine   = "2: the head of an if or switch takes := only: write the statement before it"
	noBrackets   = "2: && beside || without brackets: write (a && b) || c"
	manyParts    = "2: a condition of more than 3 operators: give it, or a part of it, a name"
)

// TestStatementsAssignOneValueAndHaveShortConditions: a statement assigns one value. There are three exceptions: the
// results of one expression; a swap, where a value reads what is assigned before it; and the variables that control
// a for loop, as its condition or its post statement uses them. The head of an if or switch takes := only. && beside ||
// has brackets. A condition has at most three operators. More of one kind are allowed if a variable or a function gives
// the condition its name. Each row is a statement and what the linter finds in it, "" for nothing.
func TestStatementsAssignOneValueAndHaveShortConditions(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"n, o = 1, 2", oneStatement},
		{"x, y := 1, 2", oneStatement},
		{"var x, y = 1, 2", oneStatement},
		{"var x, y int", ""},
		{"const x, y = 1, 2", oneStatement},
		{"const ( x = 1; y = 2 )", ""},
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
		{"for i, j := 0, len(m); i < j; i++ {}", ""},
		{"for i, j := 0, 1; f(i); j++ {}", ""},
		{"for i, j := f(); i < 9; i++ {}", ""}, // the results of one call
		{"for i, found := 0, false; i < 9; i++ { found = true }", oneStatement},
		{"for i, j := 0, 9; ; i++ {}", oneStatement},
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
		{"if a && b && f(c && d && e) && d {}", ""}, // an argument counts by itself
		{"return a || b || c || d || e", ""},        // the function is the name
		{"x := a && b && c && d && e", ""},
		{"var x = a && b && (c && d && e)", ""},
	} {
		t.Run(c.code, func(t *testing.T) { expectFindings(t, c.want, findingsInBody(t, c.code)) })
	}
}

// TestAFunctionOfTwelveLinesNeedsAParagraph: a body of twelve lines and more has a blank line between its
// steps. Blank lines within a literal, of a function or of data, do not count, and the lines of a comment
// count. Steps are the statements of one block or case, at any depth. One statement has no steps, however
// long it is, and the cases themselves are none.
func TestAFunctionOfTwelveLinesNeedsAParagraph(t *testing.T) {
	twelve := strings.TrimSuffix(strings.Repeat("f()\n", 12), "\n")
	eleven := strings.TrimPrefix(twelve, "f()\n")
	twelveOfSwitch := "switch n {\n" + strings.Repeat("case 1:\nf()\n", 5) + "}"
	noParagraph := func(lines int) string {
		return fmt.Sprintf("1: a function of %d lines without a paragraph: put a blank line between the steps", lines)
	}

	for name, tc := range map[string]struct{ body, want string }{
		"12 lines":                      {twelve, noParagraph(12)},
		"11 lines":                      {eleven, ""},
		"a blank line":                  {eleven + "\n\nf()", ""},
		"a blank line before a comment": {eleven + "\n\n// Why.\nf()", ""},
		"a blank line behind a comment": {eleven + "\n// Why.\n\nf()", ""},
		"a comment of two lines, and no blank line":              {eleven + "\n// Why\n// it is.\nf()", noParagraph(14)},
		"a blank line behind a comment on a statement":           {eleven + " // why\n\nf()", ""},
		"a blank line in a block":                                {"if a {\n" + eleven + "\n\nf()\n}", ""},
		"a blank line in a case":                                 {"switch n {\ncase 1:\n" + eleven + "\n\nf()\n}", ""},
		"a blank line only in a function literal":                {"g := func() {\nf()\n\nf()\n}\n" + strings.TrimPrefix(eleven, strings.Repeat("f()\n", 4)), noParagraph(12)},
		"a function literal with a blank line, and nothing else": {"f(func() {\n" + eleven + "\n\nf()\n})", ""},
		"blank lines only in a literal":                          {"f([]int{\n" + strings.Repeat("1,\n\n", 6) + "})\nf()", noParagraph(15)},
		"one statement of 14 lines":                              {"f([]int{\n" + strings.Repeat("1,\n", 12) + "})", ""},
		"one switch of 12 lines":                                 {twelveOfSwitch, ""},
		"a switch of 12 lines and a statement":                   {twelveOfSwitch + "\nf()", noParagraph(13)},
	} {
		t.Run(name, func(t *testing.T) { expectFindings(t, tc.want, findingsInBody(t, tc.body)) })
	}
}

// TestAFunctionHasABlankLineEveryFifteenLines: a function has no more than fifteen lines between two blank lines. A
// case begins a paragraph as a blank line does. The lines of a literal, and of a call without a function, count as
// one. The paragraph of 16 lines begins in the third line of the body, which is line 4 of the file.
func TestAFunctionHasABlankLineEveryFifteenLines(t *testing.T) {
	fifteen := strings.Repeat("f()\n", 15)
	sixteen := "4: 16 lines without a blank line: put one between the steps"

	for name, tc := range map[string]struct{ body, want string }{
		"15 lines and 15 lines": {fifteen + "\n" + fifteen, ""},
		"16 lines":              {"f()\n\n" + fifteen + "f()", sixteen},
		"16 lines of blocks":    {"f()\n\nif a {\n" + strings.Repeat("f()\n", 14) + "}", sixteen},
		"15 lines in each case": {"f()\n\nswitch n {\n" + "case 1:\n" + fifteen + "case 2:\n" + fifteen + "\n}", ""},
		"a literal of 16 lines": {"f()\n\nf([]int{\n" + strings.Repeat("1,\n", 14) + "})", ""},
		"a call of 16 lines":    {"f()\n\nf(\n" + strings.Repeat("1,\n", 14) + ")", ""},
		"a call of a function":  {"f()\n\nf(func() {\n" + strings.Repeat("f()\n", 11) + "})\n" + strings.Repeat("f()\n", 3), sixteen},
	} {
		t.Run(name, func(t *testing.T) { expectFindings(t, tc.want, findingsInBody(t, tc.body)) })
	}
}

// TestAFunctionLiteralOfTwelveLinesNeedsAParagraph: the body of a function literal counts by itself. A blank line in
// the function around the literal does not help. The literal begins in the third line of the body, which is line 4 of
// the file.
func TestAFunctionLiteralOfTwelveLinesNeedsAParagraph(t *testing.T) {
	found := findingsInBody(t, "f()\n\ngo func() {\n"+strings.Repeat("f()\n", 12)+"}()")
	expectFindings(t, "4: a function of 12 lines without a paragraph: put a blank line between the steps", found)
}

// TestTheFormOfGeneratedCodeAndTestdataIsFree: a generator, and not the project, decides the form of generated files.
// Both files assign two values in a statement.
func TestTheFormOfGeneratedCodeAndTestdataIsFree(t *testing.T) {
	findings, err := checkForm(writeTree(t, map[string]string{
		"z.go":          "// Code generated by x. DO NOT EDIT.\n\npackage a\n\nvar a, b = 1, 2\n\nfunc f() { x, y := 1, 2 }\n",
		"testdata/b.go": "package b\n\nfunc f() { x, y := 1, 2 }\n",
	}))
	if err != nil || findings != nil {
		t.Errorf("found %q, %v", findings, err)
	}
}
