package form

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// Assigned returns how many values a statement assigns by as many expressions: 2 for a, b = x, y,
// and 1 for a, b = f().
func Assigned(statement ast.Stmt) int {
	switch statement := statement.(type) {
	case *ast.AssignStmt:
		return len(statement.Rhs)
	case *ast.DeclStmt:
		values := 1
		for _, spec := range valueSpecs(statement) {
			values = max(values, len(spec.Values))
		}

		return values
	}

	return 1
}

// valueSpecs returns the variables or constants that a statement declares, by line.
func valueSpecs(statement *ast.DeclStmt) []*ast.ValueSpec {
	var specs []*ast.ValueSpec
	declaration, ok := statement.Decl.(*ast.GenDecl)
	if !ok {
		return nil
	}

	for _, spec := range declaration.Specs {
		if spec, ok := spec.(*ast.ValueSpec); ok {
			specs = append(specs, spec)
		}
	}

	return specs
}

// Parallel returns the assignments below node that assign several values by as many expressions,
// and that could be as many statements. The exceptions are swaps, the post statement of a for loop, and
// its init statement if the condition or the post statement uses each of the variables.
func Parallel(node ast.Node) []ast.Stmt {
	var found []ast.Stmt
	allowed := map[ast.Stmt]bool{}
	ast.Inspect(node, func(node ast.Node) bool {
		if loop, ok := node.(*ast.ForStmt); ok {
			allowed[loop.Init] = controlsLoop(loop)
			allowed[loop.Post] = true
		}
		statement, ok := node.(ast.Stmt)
		if ok && Assigned(statement) > 1 && !allowed[statement] && !isSwap(statement) {
			found = append(found, statement)
		}

		return true
	})

	return found
}

// controlsLoop reports whether the condition or the post statement of a loop uses each variable of its
// init statement.
func controlsLoop(loop *ast.ForStmt) bool {
	init, ok := loop.Init.(*ast.AssignStmt)
	if !ok {
		return true
	}

	used := map[string]bool{}
	for _, part := range []ast.Node{loop.Cond, loop.Post} {
		if part == nil {
			continue
		}
		ast.Inspect(part, func(node ast.Node) bool {
			if expression, ok := node.(ast.Expr); ok {
				used[types.ExprString(expression)] = true
			}
			return true
		})
	}

	return !slices.ContainsFunc(init.Lhs, func(left ast.Expr) bool { return !used[types.ExprString(left)] })
}

// isSwap reports whether a right side mentions an earlier left side. Such an assignment means
// something else when it is written as several.
func isSwap(statement ast.Stmt) bool {
	assignment, ok := statement.(*ast.AssignStmt)
	if !ok {
		return false
	}

	for i, right := range assignment.Rhs {
		for _, left := range assignment.Lhs[:i] {
			if mentions(right, types.ExprString(left)) {
				return true
			}
		}
	}

	return false
}

func mentions(in ast.Expr, text string) bool {
	if text == "_" {
		return false
	}

	found := false
	ast.Inspect(in, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr: // the name of a field is no variable
			found = found || types.ExprString(node) == text || mentions(node.X, text)
			return false
		case *ast.KeyValueExpr:
			_, isField := node.Key.(*ast.Ident)
			found = found || mentions(node.Value, text) || (!isField && mentions(node.Key, text))
			return false
		case ast.Expr:
			found = found || types.ExprString(node) == text
		}

		return true
	})

	return found
}

// HeadStatements returns the statements in the heads of if and switch below node that are not :=.
func HeadStatements(node ast.Node) []ast.Stmt {
	var found []ast.Stmt
	add := func(head ast.Stmt) {
		assignment, ok := head.(*ast.AssignStmt)
		if head != nil && (!ok || assignment.Tok != token.DEFINE) {
			found = append(found, head)
		}
	}

	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt:
			add(node.Init)
		case *ast.SwitchStmt:
			add(node.Init)
		case *ast.TypeSwitchStmt:
			add(node.Init)
		}

		return true
	})

	return found
}

// Count returns the number of statements of a body. Each assigned value counts as one, so that
// a, b = x, y is no shorter than two lines. A block is none.
func Count(body *ast.BlockStmt) int {
	count := 0
	ast.Inspect(body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BlockStmt, *ast.EmptyStmt:
		case *ast.AssignStmt:
			count += len(node.Rhs)
		case ast.Stmt:
			count++
		}

		return true
	})

	return count
}
