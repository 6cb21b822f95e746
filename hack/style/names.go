package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"cardquota.dev/operator/hack/style/form"
)

// maxOneWordShare bounds the share of unexported functions whose name is one word. Kubernetes
// projects of this field have 2 to 15 of 100.
const maxOneWordShare = 20

// avoidedPhrases are words and phrases that leave the reader to guess the actor or the meaning.
// They are refused in docs, in comments and in messages.
var avoidedPhrases = []string{
	"nobody", "somebody", "whoever", "anybody", "everybody", "shall",
	"put right", "puts right", "ever later", "goes by", "go by what", "tells that", "tells whether", "at work",
	"anew", "laid over",
}

// checkNames returns a finding when too many unexported functions of the Go files below root
// have a one-word name, and one for each comment or string with an avoided phrase. Test files
// and generated files do not count.
func checkNames(root string) ([]string, error) {
	var findings, oneWord []string
	functions := 0
	err := form.WalkGo(root, func(name string, file form.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}

		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Name.IsExported() || isProgramEntry(function) {
				continue
			}

			functions++
			if isOneWord(function.Name.Name) {
				oneWord = append(oneWord, fmt.Sprintf("%s:%d: %s", name, file.Line(function.Pos()), function.Name.Name))
			}
		}

		findings = append(findings, checkPhrases(name, file)...)
	})

	if len(oneWord)*100 > functions*maxOneWordShare {
		slices.Sort(oneWord)
		findings = append(findings, oneWord...)
		findings = append(findings, fmt.Sprintf("%d of %d unexported functions have a one-word name, more than %d of 100: name the verb and its object", len(oneWord), functions, maxOneWordShare))
	}

	return findings, err
}

// checkPhrases returns a finding for each avoided phrase in the comments and strings of a file.
func checkPhrases(name string, file form.File) (findings []string) {
	report := func(kind, text string, at token.Pos) {
		for _, phrase := range findPhrases(text) {
			findings = append(findings, fmt.Sprintf("%s:%d: the %s says %q: name the actor and what it does", name, file.Line(at), kind, phrase))
		}
	}
	for _, group := range file.Comments {
		report("comment", group.Text(), group.Pos())
	}

	ast.Inspect(file.File, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && !slices.Contains(avoidedPhrases, text) { // such a word alone is a name
				report("string", text, literal.Pos())
			}
		}

		return true
	})

	return findings
}

func isProgramEntry(function *ast.FuncDecl) bool {
	return function.Recv == nil && (function.Name.Name == "main" || function.Name.Name == "init")
}

func isOneWord(name string) bool {
	return strings.IndexFunc(name, unicode.IsUpper) < 0 && !strings.Contains(name, "_")
}

// findPhrases returns the avoided phrases that text contains as whole words.
func findPhrases(text string) []string {
	words := " " + strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }), " ") + " "
	var found []string
	for _, phrase := range avoidedPhrases {
		if strings.Contains(words, " "+phrase+" ") {
			found = append(found, phrase)
		}
	}

	return found
}
