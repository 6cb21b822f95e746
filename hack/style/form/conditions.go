package form

import (
	"go/ast"
	"go/token"
)

// Mixed returns the || below node that have an && without brackets as operand.
func Mixed(node ast.Node) []*ast.BinaryExpr {
	var found []*ast.BinaryExpr
	ast.Inspect(node, func(node ast.Node) bool {
		if or, ok := node.(*ast.BinaryExpr); ok && or.Op == token.LOR && (isAnd(or.X) || isAnd(or.Y)) {
			found = append(found, or)
		}

		return true
	})

	return found
}

func isAnd(expression ast.Expr) bool {
	binary, ok := expression.(*ast.BinaryExpr)
	return ok && binary.Op == token.LAND
}

// LongConditions returns the conditions below node with more than MaxOperators && and ||. A list
// of one operator that a function returns, or that a variable is set to, has its name.
func LongConditions(node ast.Node) []ast.Expr {
	var found []ast.Expr
	named := map[ast.Expr]bool{}
	parts := map[ast.Expr]bool{} // of conditions that were counted
	name := func(expressions []ast.Expr) {
		for _, expression := range expressions {
			named[expression] = true
		}
	}

	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ReturnStmt:
			name(node.Results)
		case *ast.AssignStmt:
			name(node.Rhs)
		case *ast.ValueSpec:
			name(node.Values)
		case ast.Expr:
			if parts[node] {
				return true
			}

			ands, ors := countOperators(node, parts)
			isNamed := named[node] && (ands == 0 || ors == 0)
			if ands+ors > MaxOperators && !isNamed {
				found = append(found, node)
			}
		}

		return true
	})

	return found
}

// countOperators counts the && and || of an expression through brackets and negations, and records
// its parts.
func countOperators(expression ast.Expr, parts map[ast.Expr]bool) (ands, ors int) {
	parts[expression] = true
	switch expression := expression.(type) {
	case *ast.ParenExpr:
		return countOperators(expression.X, parts)
	case *ast.UnaryExpr:
		if expression.Op == token.NOT {
			return countOperators(expression.X, parts)
		}
	case *ast.BinaryExpr:
		if expression.Op != token.LAND && expression.Op != token.LOR {
			return 0, 0
		}

		ands, ors = countOperators(expression.X, parts)
		moreAnds, moreOrs := countOperators(expression.Y, parts)
		ands += moreAnds
		ors += moreOrs

		if expression.Op == token.LAND {
			ands++
		} else {
			ors++
		}
	}

	return ands, ors
}

// Complexity returns the cyclomatic complexity of a function: 1, and 1 for each if, for, case, &&
// and ||.
func Complexity(function *ast.FuncDecl) int {
	complexity := 1
	ast.Inspect(function, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			complexity++
		case *ast.CaseClause:
			if node.List != nil {
				complexity++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				complexity++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				complexity++
			}
		}

		return true
	})

	return complexity
}
