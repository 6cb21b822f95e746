// Package alerts tests the alerts of config/prometheus with Prometheus' own parser, templates
// and query engine. It is a separate module because only it needs Prometheus.
package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	promql "github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// projectRoot is the project's root relative to this package. Go does not know that these tests
// depend on files outside of this module: run them with -count=1, or Go may show a cached
// result.
const projectRoot = "../.."

func noError(t *testing.T, err error) {
	t.Helper()
	requireThat(t, err == nil, "%v", err)
}

// expectThat reports a failed condition.
func expectThat(t *testing.T, isTrue bool, format string, args ...any) {
	t.Helper()
	if !isTrue {
		t.Errorf(format, args...)
	}
}

// requireThat is expectThat, but ends the test.
func requireThat(t *testing.T, isTrue bool, format string, args ...any) {
	t.Helper()
	if !isTrue {
		t.Fatalf(format, args...)
	}
}

// equal reports a difference under a title that names both sides.
func equal[V any](t *testing.T, what string, left, right V) {
	t.Helper()
	diff := cmp.Diff(left, right)
	expectThat(t, diff == "", "%s:\n%s", what, diff)
}

// value returns what a call returned beside its error, and ends the test on an error.
func value[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		noError(t, err)
		return v
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	return string(value(os.ReadFile(filepath.Join(projectRoot, name)))(t))
}

// installedGroups returns the rule groups of config/prometheus.
func installedGroups(t *testing.T) map[string]any {
	t.Helper()
	var rule struct {
		Spec map[string]any `json:"spec"`
	}
	noError(t, yaml.Unmarshal([]byte(readFile(t, "config/prometheus/prometheusrule.yaml")), &rule))
	return rule.Spec
}

// parsedRules returns the alerts of config/prometheus as Prometheus parses them. Invalid
// expressions and templates, and unknown fields, end the test.
func parsedRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	parsed, problems := rulefmt.Parse(value(yaml.Marshal(installedGroups(t)))(t), false, model.UTF8Validation)
	requireThat(t, len(problems) == 0, "%v", problems)
	requireThat(t, len(parsed.Groups) == 1 && len(parsed.Groups[0].Rules) > 0, "want one group of alerts, got %+v", parsed)
	return parsed.Groups[0].Rules
}

// TestEachAlertWaitsAndHasASeverityAndASummary: an alert waits before it fires, so that a restart does not fire
// it. Its severity is critical or warning, and its summary says what is wrong.
func TestEachAlertWaitsAndHasASeverityAndASummary(t *testing.T) {
	for _, rule := range parsedRules(t) {
		expectThat(t, rule.Alert != "", "%+v is no alert", rule)
		expectThat(t, rule.For != 0, "%s does not wait", rule.Alert)
		expectThat(t, rule.Annotations["summary"] != "", "%s has no summary", rule.Alert)
		severity := rule.Labels["severity"]
		expectThat(t, severity == "critical" || severity == "warning", "%s: severity %q", rule.Alert, severity)
	}
}

// TestEachAlertHasARunbook: the link of an alert leads to the section of its name in docs/runbooks.md. The sections of
// that page are those of all alerts, in the same order.
func TestEachAlertHasARunbook(t *testing.T) {
	var sections, alerts []string
	for _, heading := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(readFile(t, "docs/runbooks.md"), -1) {
		sections = append(sections, heading[1])
	}
	for _, rule := range parsedRules(t) {
		alerts = append(alerts, rule.Alert)
		equal(t, "runbook of "+rule.Alert, "https://cardquota.dev/docs/runbooks#"+strings.ToLower(rule.Alert), rule.Annotations["runbook_url"])
	}
	equal(t, "alerts (-docs/runbooks.md +config/prometheus)", sections, alerts)
}

// TestTheAlertsOfTheDocumentAreThoseOfConfig: docs/metrics.md shows the alerts as YAML, for users without
// kustomize. It must be what config/prometheus installs.
func TestTheAlertsOfTheDocumentAreThoseOfConfig(t *testing.T) {
	_, block, found := strings.Cut(readFile(t, "docs/metrics.md"), "```yaml\n")
	block, _, closed := strings.Cut(block, "```")
	requireThat(t, found && closed, "docs/metrics.md has no YAML block")
	var documented map[string]any
	noError(t, yaml.UnmarshalStrict([]byte(block), &documented))
	equal(t, "alerts (-docs/metrics.md +config/prometheus)", documented, installedGroups(t))
}

// documentedNames returns the metrics that docs/metrics.md describes above the alerts. Tests of
// both programs compare these names with their exports.
func documentedNames(t *testing.T) map[string]bool {
	t.Helper()
	text, _, found := strings.Cut(readFile(t, "docs/metrics.md"), "\n## Example alerts\n")
	requireThat(t, found, "docs/metrics.md has no example alerts")
	names := map[string]bool{}
	for _, quoted := range regexp.MustCompile("`(cardquota_[a-z0-9_]+)`").FindAllStringSubmatch(text, -1) {
		names[quoted[1]] = true
	}
	return names
}

// TestAlertsUseMetricsThatTheProgramsExport: an alert on a metric that does not exist never fires.
// docs/metrics.md has all metrics of both programs, and "up" is Prometheus' own. Each alert uses at least one.
func TestAlertsUseMetricsThatTheProgramsExport(t *testing.T) {
	known := documentedNames(t)
	known["up"] = true
	for _, rule := range parsedRules(t) {
		expression, err := promql.ParseExpr(rule.Expr)
		requireThat(t, err == nil, "%s: %v", rule.Alert, err)

		expectThat(t, len(promql.ExtractSelectors(expression)) > 0, "%s uses no metric", rule.Alert)
		promql.Inspect(expression, func(node promql.Node, _ []promql.Node) error {
			if selector, ok := node.(*promql.VectorSelector); ok {
				expectThat(t, known[selector.Name], "%s uses %s, which docs/metrics.md does not explain", rule.Alert, selector.Name)
			}
			return nil
		})
	}
}
