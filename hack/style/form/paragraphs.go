package form

import (
	"go/ast"
	"strings"
)

// LongestRun returns the number of lines of the longest run of body without a blank line, and the line
// where it begins. A case begins a paragraph. The lines of a literal, and those of a call without
// function literals, count as one: they have no steps.
func (f File) LongestRun(body *ast.BlockStmt) (lines, begin int) {
	first := f.Line(body.Lbrace) + 1
	continued := f.continuedLines(body)
	clauses := f.clauseLines(body)
	run := 0
	for i, line := range strings.Split(string(f.text(body.Lbrace, body.Rbrace)), "\n")[1:] {
		switch {
		case continued[first+i]:
		case strings.TrimSpace(line) == "", clauses[first+i]:
			run = 0
		default:
			run++
		}

		if run > lines {
			lines = run
			begin = first + i
		}
	}

	return lines, begin - lines + 1
}

// continuedLines returns the lines of the literals and the calls of body but their first ones.
func (f File) continuedLines(body *ast.BlockStmt) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CompositeLit, *ast.BasicLit:
		case *ast.CallExpr:
			if hasFunction(node) {
				return true
			}
		default:
			return true
		}

		for line := f.Line(node.Pos()) + 1; line <= f.Line(node.End()); line++ {
			lines[line] = true
		}

		return true
	})

	return lines
}

func hasFunction(call *ast.CallExpr) bool {
	found := false
	ast.Inspect(call, func(node ast.Node) bool {
		_, isFunction := node.(*ast.FuncLit)
		found = found || isFunction
		return !found
	})

	return found
}

// clauseLines returns the lines where a case begins.
func (f File) clauseLines(body *ast.BlockStmt) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(body, func(node ast.Node) bool {
		if statement, ok := node.(ast.Stmt); ok && isClause(statement) {
			lines[f.Line(node.Pos())] = true
		}

		return true
	})

	return lines
}
