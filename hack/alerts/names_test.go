package alerts

import (
	"regexp"
	"strings"
	"testing"

	promql "github.com/prometheus/prometheus/promql/parser"
)

// documentedNames returns the names that docs/metrics.md explains above the alerts. Tests of both programs
// hold these names against what the programs export.
func documentedNames(t *testing.T) map[string]bool {
	t.Helper()
	text, _, found := strings.Cut(readFile(t, "docs/metrics.md"), "\n## Example alerts\n")
	if !found {
		t.Fatal("docs/metrics.md has no example alerts")
	}
	names := map[string]bool{}
	for _, quoted := range regexp.MustCompile("`(cardquota_[a-z0-9_]+)`").FindAllStringSubmatch(text, -1) {
		names[quoted[1]] = true
	}
	return names
}

func TestAlertsAskForMetricsThatThereAre(t *testing.T) {
	known := documentedNames(t)
	known["up"] = true // Prometheus itself makes it of every scrape
	for _, rule := range parsedRules(t) {
		expression, err := promql.ParseExpr(rule.Expr)
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		asked := 0
		promql.Inspect(expression, func(node promql.Node, _ []promql.Node) error {
			if selector, ok := node.(*promql.VectorSelector); ok {
				asked++
				if !known[selector.Name] {
					t.Errorf("%s asks for %s, which docs/metrics.md does not explain", rule.Alert, selector.Name)
				}
			}
			return nil
		})
		if asked == 0 {
			t.Errorf("%s asks for nothing", rule.Alert)
		}
	}
}
