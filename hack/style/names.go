package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
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

// avoidedInTests are refused in the names, comments and strings of tests, and of what tests and tools use,
// besides avoidedPhrases. Programs print some of them with an actor. Pods are evicted, deleted or removed, and do
// not go. Volcano pipelines them to nodes. What leaves things out skips them, does not count them, or does not write
// them.
var avoidedInTests = []string{
	"told", "tells", "telling", "its own word", "own word", "believed", "believes", "believing", "heard", "spares", "promised",
	"goes first", "go first", "goes whole", "go whole", "goes as a whole", "go as a whole", "none goes", "none go", "leaves out",
	"pod goes", "pods go", "pod went", "pods went", "job goes", "jobs go", "gang goes", "gangs go", "that goes", "just goes", "least goes",
	"them go", "come and go", "comes and goes", "came or went", "went for", "counts as gone", "count as gone",
}

// checkNames returns a finding when too many unexported functions of the Go files below root
// have a one-word name, and one for each comment, string or name with an avoided phrase.
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

		avoided := avoidedPhrases
		if isForTests(name) {
			avoided = slices.Concat(avoided, avoidedInTests)
		}
		findings = append(findings, checkPhrases(name, file, avoided)...)
	})

	if len(oneWord)*100 > functions*maxOneWordPercent {
		slices.Sort(oneWord)
		findings = append(findings, oneWord...)
		findings = append(findings, fmt.Sprintf("%d of %d unexported functions have a one-word name, more than %d of 100: name the verb and its object", len(oneWord), functions, maxOneWordPercent))
	}

	return findings, err
}

// isForTests reports whether a file is a tool, or what tests use.
func isForTests(name string) bool {
	name = filepath.ToSlash(name)
	return strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "hack/") || strings.HasPrefix(name, "internal/testing/")
}

// checkPhrases returns a finding for each avoided phrase in the comments, the strings, and the names of
// functions, variables and fields of a file.
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
		for _, variable := range declaredVariables(node) {
			report("name", strings.Join(splitName(variable.Name), " "), variable.Pos())
		}

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

// declaredVariables returns the variables, constants, parameters and fields that a node declares.
func declaredVariables(node ast.Node) (declared []*ast.Ident) {
	switch node := node.(type) {
	case *ast.Field:
		return node.Names
	case *ast.ValueSpec:
		return node.Names
	case *ast.AssignStmt:
		for _, left := range node.Lhs {
			if name, ok := left.(*ast.Ident); ok && node.Tok == token.DEFINE {
				declared = append(declared, name)
			}
		}
	}

	return declared
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

// findPhrases returns the avoided phrases that text contains as whole words. A name of a file is one word.
func findPhrases(text string, avoided []string) []string {
	parts := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && r != '.' })
	words := " "
	for _, part := range parts {
		words += strings.Trim(part, ".") + " "
	}

	var found []string
	for _, phrase := range avoided {
		if strings.Contains(words, " "+phrase+" ") {
			found = append(found, phrase)
		}
	}

	return found
}
