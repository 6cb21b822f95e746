// Package form knows how the code of this project is laid out: where a function has a break between
// paragraphs, what an assignment sets and what a condition asks. The rules of hack/style and the
// figures of hack/style/measure use the same definitions.
package form

import (
	"bytes"
	"go/ast"
	"go/token"
	"regexp"
)

const (
	// MinParagraphLines is the number of lines between the braces from which a function needs a break.
	MinParagraphLines = 12
	// MaxRunLines bounds the lines of a function without a blank line between them.
	MaxRunLines = 15
	// MaxOperators bounds the && and || of a condition.
	MaxOperators = 3
)

// A File is the syntax tree of a Go file, parsed with comments.
type File struct {
	*ast.File
	Positions *token.FileSet
	Source    []byte
}

// Line returns the line of a position.
func (f File) Line(at token.Pos) int {
	return f.Positions.Position(at).Line
}

// Lines returns the number of lines of the file.
func (f File) Lines() int {
	return bytes.Count(f.Source, []byte("\n"))
}

// BodyLines returns the number of lines between the braces of a body.
func (f File) BodyLines(body *ast.BlockStmt) int {
	return max(0, f.Line(body.Rbrace)-f.Line(body.Lbrace)-1)
}

// HasBreak reports whether a blank line separates two statements of body, at any depth. Function
// literals have paragraphs of their own.
func (f File) HasBreak(body *ast.BlockStmt) bool {
	found := false
	visitLists(body, func(list []ast.Stmt) {
		for i := 1; i < len(list); i++ {
			found = found || f.hasBlankLine(list[i-1].End(), list[i].Pos())
		}
	})

	return found
}

// CanBreak reports whether a list of body has two statements, without those of function literals. The
// cases of a switch are no paragraphs.
func CanBreak(body *ast.BlockStmt) bool {
	found := false
	visitLists(body, func(list []ast.Stmt) {
		found = found || (len(list) > 1 && !isClause(list[0]))
	})

	return found
}

func isClause(statement ast.Stmt) bool {
	switch statement.(type) {
	case *ast.CaseClause, *ast.CommClause:
		return true
	}

	return false
}

func visitLists(body *ast.BlockStmt, visit func([]ast.Stmt)) {
	ast.Inspect(body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.BlockStmt:
			visit(node.List)
		case *ast.CaseClause:
			visit(node.Body)
		case *ast.CommClause:
			visit(node.Body)
		}

		return true
	})
}

var blankLine = regexp.MustCompile(`\n[ \t]*\n`)

// hasBlankLine reports whether a line between the statements at two positions has neither code nor
// a comment.
func (f File) hasBlankLine(from, to token.Pos) bool {
	return blankLine.Match(f.text(from, to))
}

// BlankLines returns the number of blank lines in body, without those in strings.
func (f File) BlankLines(body *ast.BlockStmt) int {
	count := countBlankLines(f.text(body.Pos(), body.End()))
	ast.Inspect(body, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok {
			count -= countBlankLines([]byte(literal.Value))
		}

		return true
	})

	return count
}

func countBlankLines(text []byte) int {
	count := 0
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			count++
		}
	}

	return count
}

func (f File) text(from, to token.Pos) []byte {
	return f.Source[f.Positions.Position(from).Offset:f.Positions.Position(to).Offset]
}

// CommentLines returns the number of lines of body that are comments and nothing else.
func (f File) CommentLines(body *ast.BlockStmt) int {
	count := 0
	for _, group := range f.Comments {
		for _, comment := range group.List {
			if comment.Pos() > body.Lbrace && comment.End() <= body.Rbrace && f.beginsLine(comment.Pos()) {
				count += f.Line(comment.End()) - f.Line(comment.Pos()) + 1
			}
		}
	}

	return count
}

// beginsLine reports whether only space stands before a position in its line.
func (f File) beginsLine(at token.Pos) bool {
	before := f.Source[:f.Positions.Position(at).Offset]
	lineStart := bytes.LastIndexByte(before, '\n') + 1
	return len(bytes.TrimSpace(before[lineStart:])) == 0
}

// Bodies returns the body of every function of the file, those of function literals included.
func (f File) Bodies() []*ast.BlockStmt {
	var bodies []*ast.BlockStmt
	ast.Inspect(f.File, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			if node.Body != nil {
				bodies = append(bodies, node.Body)
			}
		case *ast.FuncLit:
			bodies = append(bodies, node.Body)
		}

		return true
	})

	return bodies
}
