package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Rule is an alert of config/prometheus.
type Rule struct {
	Alert, Expr string
}

// shortened are texts of the rules that a day of a minute cannot reach, and what replaces them:
// an hour of waiting, and evictions in the hour before.
var shortened = map[string]string{"> 3600": "> 3", "[1h] offset 1h": "[1h]"}

// readRules returns the alerts of config/prometheus: as a file for Prometheus, and each of them.
func readRules(root string) ([]byte, []Rule, error) {
	text, err := os.ReadFile(filepath.Join(root, "config", "prometheus", "prometheusrule.yaml"))
	if err != nil {
		return nil, nil, fmt.Errorf("rules: %w", err)
	}

	short := string(text)
	for old, replacement := range shortened {
		if strings.Count(short, old) != 1 {
			return nil, nil, fmt.Errorf("the rules have not once %q", old)
		}
		short = strings.Replace(short, old, replacement, 1)
	}

	var object struct {
		Spec struct {
			Groups []struct {
				Name  string
				Rules []Rule
			}
		}
	}
	var whole struct {
		Spec any `json:"spec"`
	}

	if err := yaml.Unmarshal([]byte(short), &object); err != nil {
		return nil, nil, fmt.Errorf("rules: %w", err)
	}
	if err := yaml.Unmarshal([]byte(short), &whole); err != nil {
		return nil, nil, fmt.Errorf("rules: %w", err)
	}

	file, err := yaml.Marshal(whole.Spec)
	if err != nil {
		return nil, nil, fmt.Errorf("rules: %w", err)
	}

	var rules []Rule
	for _, group := range object.Spec.Groups {
		rules = append(rules, group.Rules...)
	}

	return file, rules, nil
}

// selector matches a selector. The values of labels in the alerts have no braces.
var selector = regexp.MustCompile(`\b(?:up|cardquota_[a-z_]+)(?:\{[^}]*\})?`)

// selectors returns the selectors of an alert's expression.
func (r Rule) selectors() []string { return selector.FindAllString(r.Expr, -1) }
