package deviceclaim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestWhichDriversAnExpressionAllows: the CEL expression of a selector allows devices of the drivers with which it
// compares device.driver; "" stands for no driver. "&&" allows what both sides allow, and "||" what either allows.
// "any" means that it may allow every driver. That is so if the comparison is missing, negated, in one branch of an
// "or" only, or hidden in another construct. It is also so for an expression that is not valid or too large. "any" is
// the safe answer, because a claim that may get cards is refused. A comparison with != excludes no driver.
func TestWhichDriversAnExpressionAllows(t *testing.T) {
	const anyOne = "any"
	for expression, want := range map[string]string{
		`device.driver == "a"`:                                    "a",
		`"a" == device.driver`:                                    "a",
		`device.driver == 'a' && device.attributes["a"].x`:        "a",
		`device.attributes["a"].x && (device.driver == r"a")`:     "a",
		`device.driver == "a" && device.driver == "b"`:            "",
		`device.driver == "a" || device.driver == "b"`:            "a b",
		`device.driver == "a" || device.attributes["b"].x`:        anyOne,
		`device.driver in ["a", "b"] && device.driver != "b"`:     "a b",
		`device.driver in ["a", x]`:                               anyOne,
		`device.driver in []`:                                     "",
		`!(device.driver == "a")`:                                 anyOne,
		`device.driver != "a"`:                                    anyOne,
		`device.driver == "a" ? true : true`:                      anyOne,
		`[device].exists(device, device.driver == "a")`:           anyOne,
		`cel.bind(device, {"driver": "a"}, device.driver == "a")`: anyOne,
		`other.driver == "a"`:                                     anyOne,
		`device.driver == "a" == true`:                            anyOne,
		`device.driver.startsWith("a")`:                           anyOne,
		`device.driver == "a" && device.?x.orValue(true)`:         "a",
		`true`:             anyOne,
		``:                 anyOne,
		`device.driver ==`: anyOne,
		`device.driver == "a" && ` + strings.Repeat("(", 5000) + "true" + strings.Repeat(")", 5000): anyOne,
		`device.driver == "a" && "` + strings.Repeat("x", maxExpression) + `" != ""`:                anyOne,
	} {
		got := driversIn(expression)
		text := strings.Join(got.names, " ")
		if got.isAny {
			text = anyOne
		}

		check.Equal(t, fmt.Sprintf("%.60s", expression), want, text)

		again := driversIn(expression) // driversIn remembers the expression now
		check.That(t, again.isAny == got.isAny && slices.Equal(again.names, got.names), "%.60s: %v the second time", expression, again)
	}
}

// condition is a random condition, and for which drivers it is true.
type condition struct {
	text string
	is   func(driver string) bool
}

// drawCondition draws a condition of comparisons with drivers a, b and c, and, or and not.
func drawCondition(t *rapid.T, depth int) condition {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "driver")
	kinds := 5
	if depth == 0 {
		kinds = 2
	}

	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return condition{fmt.Sprintf("device.driver == %q", name), func(driver string) bool { return driver == name }}
	case 1:
		return condition{fmt.Sprintf("device.driver in [%q, \"c\"]", name), func(driver string) bool { return driver == name || driver == "c" }}
	case 2:
		return condition{"true", func(string) bool { return true }}
	case 3:
		a := drawCondition(t, depth-1)
		b := drawCondition(t, depth-1)
		return condition{"(" + a.text + ") && (" + b.text + ")", func(driver string) bool { return a.is(driver) && b.is(driver) }}
	case 4:
		a := drawCondition(t, depth-1)
		b := drawCondition(t, depth-1)
		return condition{"(" + a.text + ") || (" + b.text + ")", func(driver string) bool { return a.is(driver) || b.is(driver) }}
	default:
		a := drawCondition(t, depth-1)
		return condition{"!(" + a.text + ")", func(driver string) bool { return !a.is(driver) }}
	}
}

// TestEveryDriverIsFound: if a random condition is true for a driver, driversIn has that driver among those that it
// allows, or allows any. So no claim for cards is overlooked.
func TestEveryDriverIsFound(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		drawn := drawCondition(t, 3)
		allowed := driversIn(drawn.text)
		for _, driver := range []string{"a", "b", "c", "d"} {
			isAllowed := allowed.isAny || slices.Contains(allowed.names, driver)
			check.Must(t, isAllowed || !drawn.is(driver), "%s selects devices of %s, and allows only %v", drawn.text, driver, allowed.names)
		}
	})
}

// TestManyExpressionsAreForgotten: driversIn remembers parsed expressions, and users may write any number of them. So
// it keeps at most maxKnownExpressions.
func TestManyExpressionsAreForgotten(t *testing.T) {
	for i := range 3 * maxKnownExpressions {
		driversIn(fmt.Sprintf("device.driver == %q", fmt.Sprint("d", i)))
	}

	check.That(t, len(knownExpressions.drivers) <= maxKnownExpressions, "%d expressions are kept", len(knownExpressions.drivers))
}
