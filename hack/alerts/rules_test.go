// Package alerts tests the alerts of config/prometheus by Prometheus' own parser, templates and
// query engine. It is a module of its own: nothing else here needs Prometheus.
package alerts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"sigs.k8s.io/yaml"
)

// projectRoot is the project's root, seen from this package. Go does not know that these tests
// depend on files outside of this module: run them with -count=1, or an old result is shown.
const projectRoot = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(projectRoot, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// installed are the groups of rules of config/prometheus.
func installed(t *testing.T) map[string]any {
	t.Helper()
	var rule struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "config/prometheus/prometheusrule.yaml")), &rule); err != nil {
		t.Fatal(err)
	}
	return rule.Spec
}

// rules are the alerts of config/prometheus as Prometheus reads them: expressions and templates
// that it cannot parse, and fields that it does not know, end the test.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	text, err := yaml.Marshal(installed(t))
	if err != nil {
		t.Fatal(err)
	}
	parsed, problems := rulefmt.Parse(text, false, model.UTF8Validation)
	for _, problem := range problems {
		t.Error(problem)
	}
	if len(problems) > 0 || len(parsed.Groups) != 1 || len(parsed.Groups[0].Rules) == 0 {
		t.Fatalf("want one group of alerts, got %+v", parsed)
	}
	return parsed.Groups[0].Rules
}

func TestEveryAlertSaysWhatItMeans(t *testing.T) {
	for _, rule := range rules(t) {
		if rule.Alert == "" || rule.For == 0 || rule.Annotations["summary"] == "" {
			t.Errorf("%+v: want an alert that waits, with a summary", rule)
		}
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", rule.Alert, severity)
		}
	}
}

// Who copies the alerts from docs/metrics.md gets what config/prometheus installs.
func TestAlertsAreThoseOfTheDocument(t *testing.T) {
	_, block, found := strings.Cut(read(t, "docs/metrics.md"), "```yaml\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("docs/metrics.md has no YAML block")
	}
	var told map[string]any
	if err := yaml.UnmarshalStrict([]byte(block), &told); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(told, installed(t)); diff != "" {
		t.Errorf("alerts (-docs/metrics.md +config/prometheus):\n%s", diff)
	}
}
