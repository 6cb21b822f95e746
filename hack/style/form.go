package main

import (
	"fmt"
	"go/ast"
	"go/token"

	"cardquota.dev/operator/hack/style/form"
)

// checkForm returns a finding for each place of the Go files below root whose layout is not that of
// the project. Tests count, generated files do not.
func checkForm(root string) ([]string, error) {
	var findings []string
	err := form.WalkGo(root, func(name string, file form.File) {
		findings = append(findings, checkLayout(name, file)...)
	})

	return findings, err
}

func checkLayout(name string, file form.File) (findings []string) {
	report := func(at token.Pos, format string, arguments ...any) {
		findings = append(findings, fmt.Sprintf("%s:%d: %s", name, file.Line(at), fmt.Sprintf(format, arguments...)))
	}
	for _, body := range file.Bodies() {
		lines := file.BodyLines(body)
		if lines >= form.MinParagraphLines && form.CanBreak(body) && !file.HasBreak(body) {
			report(body.Pos(), "a function of %d lines without a paragraph: put a blank line between the steps", lines)
		}
	}

	for _, statement := range form.Parallel(file.File) {
		report(statement.Pos(), "%d assignments in one statement: write one in each", form.Assigned(statement))
	}

	for _, statement := range form.HeadStatements(file.File) {
		report(statement.Pos(), "the head of an if or switch takes := only: write the statement before it")
	}

	for _, or := range form.Mixed(file.File) {
		report(or.Pos(), "&& beside || without brackets: write (a && b) || c")
	}

	for _, condition := range form.LongConditions(file.File) {
		report(condition.Pos(), "a condition of more than %d operators: give it, or a part of it, a name", form.MaxOperators)
	}

	return append(findings, checkRuns(name, file)...)
}

// checkRuns returns a finding for each function with too many lines between two blank lines.
func checkRuns(name string, file form.File) (findings []string) {
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}

		if lines, begin := file.LongestRun(function.Body); lines > form.MaxRunLines {
			findings = append(findings, fmt.Sprintf("%s:%d: %d lines without a blank line: put one between the steps", name, begin, lines))
		}
	}

	return findings
}
