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

// maxOneWordPercent bounds the percentage of unexported functions whose name is one word. Kubernetes
// projects of this field have 2 to 15 of 100.
const maxOneWordPercent = 20

// avoidedPhrases are words and phrases that leave the reader to guess the actor or the meaning.
// They are refused in docs, in comments and in messages.
var avoidedPhrases = []string{
	"nobody", "somebody", "whoever", "anybody", "everybody", "shall",
	"put right", "puts right", "ever later", "goes by", "go by what", "tells that", "tells whether", "at work",
	"anew", "laid over",
}

// avoidedInProse use a word for another thing than its one meaning in CONTRIBUTING.md. They are refused in
// docs and in comments. Messages may have them: their texts are part of the API.
var avoidedInProse = []string{
	"hold cards", "holds cards", "held cards", "hold the cards", "holds the cards", "pods hold", "pod holds",
	"this holds", "that holds", "same holds", "quotas hold", "quota holds",
}

// avoidedInTests are refused in the names, comments and strings of tests besides avoidedPhrases.
// Programs print some of them with an actor. Pods are evicted, deleted or removed, and do not go. What leaves
// things out skips them, does not count them, or does not write them.
var avoidedInTests = []string{
	"told", "its own word", "own word",
	"goes first", "go first", "goes whole", "go whole", "goes as a whole", "go as a whole", "none goes", "none go", "leaves out",
}

// checkNames returns a finding when too many unexported functions of the Go files below root
// have a one-word name, and one for each comment, string or test name with an avoided phrase.
// Names of functions in test files and generated files do not count.
func checkNames(root string) ([]string, error) {
	var findings, oneWord []string
	functions := 0
	err := form.WalkGo(root, func(name string, file form.File) {
		if strings.HasSuffix(name, "_test.go") {
			findings = append(findings, checkPhrases(name, file, slices.Concat(avoidedPhrases, avoidedInTests))...)
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

		findings = append(findings, checkPhrases(name, file, avoidedPhrases)...)
	})

	if len(oneWord)*100 > functions*maxOneWordPercent {
		slices.Sort(oneWord)
		findings = append(findings, oneWord...)
		findings = append(findings, fmt.Sprintf("%d of %d unexported functions have a one-word name, more than %d of 100: name the verb and its object", len(oneWord), functions, maxOneWordPercent))
	}

	return findings, err
}

// checkPhrases returns a finding for each avoided phrase in the comments, the strings and the
// names of functions of a file.
func checkPhrases(name string, file form.File, avoided []string) (findings []string) {
	report := func(kind, text string, at token.Pos) {
		for _, phrase := range findPhrases(text, avoided) {
			findings = append(findings, fmt.Sprintf("%s:%d: the %s says %q: name the actor and what it does", name, file.Line(at), kind, phrase))
		}
	}
	for _, group := range file.Comments {
		report("comment", group.Text(), group.Pos())
		for _, phrase := range findPhrases(group.Text(), avoidedInProse) {
			findings = append(findings, fmt.Sprintf("%s:%d: the comment says %q: CONTRIBUTING.md has the word for it", name, file.Line(group.Pos()), phrase))
		}
	}

	ast.Inspect(file.File, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			if words := splitName(node.Name.Name); len(words) > 1 {
				report("name", strings.Join(words, " "), node.Pos())
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(node.Value)
			if isText := node.Kind == token.STRING && err == nil; isText && !slices.Contains(avoided, text) { // such a word alone is a name
				report("string", text, node.Pos())
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

// splitName returns the words of a name: test, says and why of TestSaysWhy.
func splitName(name string) []string {
	var words []string
	begin := 0
	for i, letter := range name {
		if unicode.IsUpper(letter) || letter == '_' {
			words = append(words, name[begin:i])
			begin = i
		}
	}
	return append(words, name[begin:])
}

// findPhrases returns the avoided phrases that text contains as whole words.
func findPhrases(text string, avoided []string) []string {
	words := " " + strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }), " ") + " "
	var found []string
	for _, phrase := range avoided {
		if strings.Contains(words, " "+phrase+" ") {
			found = append(found, phrase)
		}
	}

	return found
}
