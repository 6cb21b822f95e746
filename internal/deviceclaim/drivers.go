package deviceclaim

import (
	"slices"
	"sync"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
	resourcev1 "k8s.io/api/resource/v1"
)

// drivers are the drivers of which a device can be.
type drivers struct {
	// isAny is every driver.
	isAny bool
	// names are the drivers otherwise.
	names []string
}

var anyDriver = drivers{isAny: true}

// intersect returns the drivers that two conditions allow.
func (d drivers) intersect(other drivers) drivers {
	switch {
	case d.isAny:
		return other
	case other.isAny:
		return d
	}
	return drivers{names: slices.DeleteFunc(slices.Clone(d.names), func(name string) bool { return !slices.Contains(other.names, name) })}
}

// unite returns the drivers that one of two conditions allows.
func (d drivers) unite(other drivers) drivers {
	if d.isAny || other.isAny {
		return anyDriver
	}
	return drivers{names: append(slices.Clone(d.names), other.names...)}
}

// driversOf returns the drivers whose devices all of these selectors may select.
func driversOf(selectors []resourcev1.DeviceSelector) drivers {
	found := anyDriver
	for _, selector := range selectors {
		if selector.CEL != nil {
			found = found.intersect(driversIn(selector.CEL.Expression))
		}
	}
	return found
}

// Bounds of expressions. maxExpression is that of the API server.
const (
	maxExpression       = 10 << 10
	maxKnownExpressions = 256
)

// knownExpressions are expressions that were parsed. A scheduler asks about the same ones in each session.
var knownExpressions = struct {
	sync.Mutex
	drivers map[string]drivers
}{drivers: map[string]drivers{}}

// driversIn returns the drivers whose devices a CEL expression may select. Conditions that do
// not compare device.driver with texts allow any driver. So does a text that cannot be parsed.
func driversIn(expression string) drivers {
	if len(expression) > maxExpression { // the API server accepts none, so do not spend time on it
		return anyDriver
	}

	knownExpressions.Lock()
	defer knownExpressions.Unlock()

	found, isKnown := knownExpressions.drivers[expression]
	if isKnown {
		return found
	}

	// Tenants write selectors, so the cache is bounded. Dropping all is simpler than tracking use.
	if len(knownExpressions.drivers) >= maxKnownExpressions {
		clear(knownExpressions.drivers)
	}

	found = parseDrivers(expression)
	knownExpressions.drivers[expression] = found
	return found
}

// parseDrivers is driversIn for an expression that was not parsed before.
func parseDrivers(expression string) drivers {
	parsing, err := parser.NewParser(parser.EnableOptionalSyntax(true))
	if err != nil {
		return anyDriver
	}
	parsed, errs := parsing.Parse(common.NewTextSource(expression))
	if len(errs.GetErrors()) > 0 {
		return anyDriver
	}
	return driversAllowedBy(parsed.Expr())
}

// driversAllowedBy returns the drivers for whose devices a CEL expression may be true.
func driversAllowedBy(expression ast.Expr) drivers {
	// Only calls of &&, ||, == and in are understood. All else may be true for any driver, and so may select
	// cards, which are then refused.
	if expression.Kind() != ast.CallKind {
		return anyDriver
	}

	call := expression.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		found := anyDriver
		for _, arg := range args {
			found = found.intersect(driversAllowedBy(arg))
		}
		return found
	case operators.LogicalOr:
		found := drivers{}
		for _, arg := range args {
			found = found.unite(driversAllowedBy(arg))
		}
		return found
	case operators.Equals:
		return driverEqualTo(args)
	case operators.In, operators.OldIn:
		return driverAmong(args)
	}

	return anyDriver
}

// driverEqualTo reads device.driver == "text", in either order. Any other comparison allows any driver.
func driverEqualTo(args []ast.Expr) drivers {
	if len(args) != 2 {
		return anyDriver
	}
	for i, arg := range args {
		if text, isText := textOf(args[1-i]); isText && isDriver(arg) {
			return drivers{names: []string{text}}
		}
	}
	return anyDriver
}

// driverAmong reads device.driver in ["text", "text"]. Any other use of in allows any driver.
func driverAmong(args []ast.Expr) drivers {
	if len(args) != 2 || !isDriver(args[0]) || args[1].Kind() != ast.ListKind {
		return anyDriver
	}

	var found drivers
	for _, element := range args[1].AsList().Elements() {
		text, isText := textOf(element)
		if !isText {
			return anyDriver
		}
		found.names = append(found.names, text)
	}

	return found
}

// isDriver reports whether an expression is device.driver, and not has(device.driver).
func isDriver(expression ast.Expr) bool {
	if expression.Kind() != ast.SelectKind {
		return false
	}
	selected := expression.AsSelect()
	isOfDevice := selected.Operand().Kind() == ast.IdentKind && selected.Operand().AsIdent() == "device"
	return isOfDevice && selected.FieldName() == "driver" && !selected.IsTestOnly()
}

// textOf returns the text of a literal, false for another expression.
func textOf(expression ast.Expr) (string, bool) {
	if expression.Kind() != ast.LiteralKind {
		return "", false
	}
	text, isText := expression.AsLiteral().Value().(string)
	return text, isText
}
