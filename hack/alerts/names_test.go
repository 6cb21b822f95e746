package alerts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	promql "github.com/prometheus/prometheus/promql/parser"
)

// metricName is how all our metrics are called.
var metricName = regexp.MustCompile(`^cardquota_[a-z0-9_]+$`)

// exported are the names of the metrics that the programs make: every string of their sources that
// is such a name. One that is put together of parts is not found, so that who explains it in the
// document is told to write it in full.
func exported(t *testing.T) []string {
	t.Helper()
	names := map[string]bool{}
	for _, folder := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(projectRoot, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				if literal, ok := node.(*ast.BasicLit); ok {
					if text, err := strconv.Unquote(literal.Value); err == nil && metricName.MatchString(text) {
						names[text] = true
					}
				}
				return true
			})
			return nil
		})
		noError(t, err)
	}
	return slices.Sorted(maps.Keys(names))
}

// explained are the names that docs/metrics.md explains, above the alerts.
func explained(t *testing.T) []string {
	t.Helper()
	text, _, found := strings.Cut(read(t, "docs/metrics.md"), "\n## Example alerts\n")
	if !found {
		t.Fatal("docs/metrics.md has no example alerts")
	}
	names := map[string]bool{}
	for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		if metricName.MatchString(quoted[1]) {
			names[quoted[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func TestEveryMetricIsExplainedAndNoOther(t *testing.T) {
	equal(t, "metrics (-cmd and internal +docs/metrics.md)", exported(t), explained(t))
}

func TestAlertsAskForMetricsThatThereAre(t *testing.T) {
	// What Prometheus itself makes of every scrape.
	known := append(exported(t), "up")
	for _, rule := range rules(t) {
		expression, err := promql.ParseExpr(rule.Expr)
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		asked := 0
		promql.Inspect(expression, func(node promql.Node, _ []promql.Node) error {
			if selector, ok := node.(*promql.VectorSelector); ok {
				asked++
				if !slices.Contains(known, selector.Name) {
					t.Errorf("%s asks for %s, which no program exports", rule.Alert, selector.Name)
				}
			}
			return nil
		})
		if asked == 0 {
			t.Errorf("%s asks for nothing", rule.Alert)
		}
	}
}
