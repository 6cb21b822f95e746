package main

import (
	"go/ast"
	"path"
	"strings"

	"cardquota.dev/operator/hack/style/form"
)

// minLongFunction is the number of lines of a body from which paragraphs are counted. A body of one
// statement has none.
const minLongFunction = 20

// figures are the sums over the files of the product, or over those of tests and tools. Statements
// are those of declared functions.
type figures struct {
	statements, functions                  int
	bodyLines, blankLines, commentLines    int
	longFunctions, withParagraph           int
	parallel, heads, mixed, longConditions int
	complexity, fileLines                  int

	files   map[string]int // by package
	methods map[string]int // by package and type
}

func newFigures() *figures {
	return &figures{files: map[string]int{}, methods: map[string]int{}}
}

func (f *figures) add(name string, file form.File) {
	folder := path.Dir(name)
	f.fileLines = max(f.fileLines, file.Lines())
	f.files[folder]++
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}

		f.addFunction(file, function)
		if function.Recv != nil {
			f.methods[folder+"."+receiverName(function)]++
		}
	}
}

func (f *figures) addFunction(file form.File, function *ast.FuncDecl) {
	body := function.Body
	lines := file.BodyLines(body)
	f.functions++
	f.bodyLines += lines
	f.blankLines += file.BlankLines(body)
	f.commentLines += file.CommentLines(body)
	f.statements += form.Count(body)
	f.complexity = max(f.complexity, form.Complexity(function))

	if lines >= minLongFunction && form.CanBreak(body) {
		f.longFunctions++
		if file.HasBreak(body) {
			f.withParagraph++
		}
	}

	f.parallel += len(form.Parallel(body))
	f.heads += len(form.HeadStatements(body))
	f.mixed += len(form.Mixed(body))
	f.longConditions += len(form.LongConditions(body))
}

func receiverName(function *ast.FuncDecl) string {
	expression := function.Recv.List[0].Type

	for {
		switch of := expression.(type) {
		case *ast.StarExpr:
			expression = of.X
		case *ast.IndexExpr:
			expression = of.X
		case *ast.IndexListExpr:
			expression = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}

// isProduct reports whether a file is what users run, and neither a test nor a tool.
func isProduct(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	isProgram := top == "api" || top == "cmd" || top == "internal"
	return isProgram && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "internal/testing/")
}

func (f *figures) statementCount() float64     { return float64(f.statements) }
func (f *figures) functionCount() float64      { return float64(f.functions) }
func (f *figures) bodyLineCount() float64      { return float64(f.bodyLines) }
func (f *figures) parallelCount() float64      { return float64(f.parallel) }
func (f *figures) headCount() float64          { return float64(f.heads) }
func (f *figures) mixedCount() float64         { return float64(f.mixed) }
func (f *figures) longConditionCount() float64 { return float64(f.longConditions) }
func (f *figures) worstComplexity() float64    { return float64(f.complexity) }
func (f *figures) longestFile() float64        { return float64(f.fileLines) }
func (f *figures) largestPackage() float64     { return largest(f.files) }
func (f *figures) largestType() float64        { return largest(f.methods) }
func (f *figures) blankLineRatio() float64     { return ratio(f.blankLines, f.bodyLines, 100) }
func (f *figures) commentLineRatio() float64   { return ratio(f.commentLines, f.bodyLines, 100) }
func (f *figures) paragraphRatio() float64     { return ratio(f.withParagraph, f.longFunctions, 100) }
func (f *figures) parallelRatio() float64      { return ratio(f.parallel, f.bodyLines, 1000) }

func largest(counts map[string]int) float64 {
	most := 0
	for _, count := range counts {
		most = max(most, count)
	}

	return float64(most)
}

func ratio(part, of int, scale float64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of) * scale
}
