package alerts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	promql "github.com/prometheus/prometheus/promql/parser"
)

// targetLabels are those that Prometheus adds to each series of a target.
var targetLabels = []string{"job", "instance"}

// documentedLabels returns the labels of each metric by the tables of docs/metrics.md, which are
// generated from the code.
func documentedLabels(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{"up": nil, "process_start_time_seconds": nil}
	for _, row := range regexp.MustCompile("(?m)^\\| `(cardquota_[a-z0-9_]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(readFile(t, "docs/metrics.md"), -1) {
		var labels []string
		for _, quoted := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			labels = append(labels, quoted[1])
		}
		known[row[1]] = labels
	}

	requireThat(t, len(known) >= 40, "docs/metrics.md describes %d metrics", len(known))

	return known
}

// labelCheck follows the labels of an expression.
type labelCheck struct {
	known  map[string][]string
	faults []string
}

func (c *labelCheck) require(what string, wanted, there []string) {
	for _, label := range wanted {
		if !slices.Contains(there, label) {
			c.faults = append(c.faults, fmt.Sprintf("%s has no label %s", what, label))
		}
	}
}

// labelsOf returns the labels that the series of an expression may have, and records the labels that it
// asks for and that are not there.
func (c *labelCheck) labelsOf(node promql.Node) []string {
	switch n := node.(type) {
	case *promql.VectorSelector:
		return c.labelsOfSelector(n)
	case *promql.AggregateExpr:
		inner := c.labelsOf(n.Expr)
		c.require(n.Expr.String(), n.Grouping, inner)
		switch {
		case n.Without:
			c.faults = append(c.faults, "without() keeps labels that the expression does not name: "+n.String())
		case n.Op == promql.TOPK || n.Op == promql.BOTTOMK:
			return inner
		}

		return n.Grouping
	case *promql.BinaryExpr:
		return c.labelsOfBinary(n)
	case *promql.Call:
		var labels []string
		for _, arg := range n.Args {
			labels = append(labels, c.labelsOf(arg)...)
		}
		if n.Func.Name == "histogram_quantile" {
			c.require(n.String(), []string{"le"}, labels)
			labels = slices.DeleteFunc(slices.Clone(labels), func(label string) bool { return label == "le" })
		}

		return labels
	}

	var labels []string
	for _, child := range promql.Children(node) {
		labels = append(labels, c.labelsOf(child)...)
	}

	return labels
}

func (c *labelCheck) labelsOfSelector(n *promql.VectorSelector) []string {
	name, isBucket := strings.CutSuffix(n.Name, "_bucket")
	own, isKnown := c.known[name]
	if !isKnown {
		c.faults = append(c.faults, "docs/metrics.md does not explain "+n.Name)
	}

	labels := slices.Concat(targetLabels, own)
	if isBucket {
		labels = append(labels, "le")
	}

	for _, matcher := range n.LabelMatchers {
		if matcher.Name != "__name__" {
			c.require(n.Name, []string{matcher.Name}, labels)
		}
	}

	return labels
}

func (c *labelCheck) labelsOfBinary(n *promql.BinaryExpr) []string {
	left := c.labelsOf(n.LHS)
	right := c.labelsOf(n.RHS)
	m := n.VectorMatching
	if m == nil { // with a number
		return append(slices.Clone(left), right...)
	}

	if m.On {
		c.require(n.LHS.String(), m.MatchingLabels, left)
		c.require(n.RHS.String(), m.MatchingLabels, right)
	}

	switch {
	case n.Op == promql.LOR:
		return append(slices.Clone(left), right...)
	case n.Op.IsSetOperator():
		return left
	case m.Card == promql.CardManyToOne:
		c.require(n.RHS.String(), m.Include, right)
		return append(slices.Clone(left), m.Include...)
	case m.On:
		return m.MatchingLabels
	}

	return left
}

// usedLabels matches the labels that a legend or a summary shows.
var usedLabels = regexp.MustCompile(`{{\s*(?:with \$labels\.|\$labels\.)?([a-z_]+)\s*}}`)

// checkLabels reports labels that an expression or its texts name, and that its series do not have.
func checkLabels(t *testing.T, where, expr string, known map[string][]string, texts ...string) {
	t.Helper()
	expression, err := promql.ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}

	c := labelCheck{known: known}
	labels := c.labelsOf(expression)
	for _, text := range texts {
		for _, match := range usedLabels.FindAllStringSubmatch(text, -1) {
			if match[1] != "end" {
				c.require("the answer", match[1:], labels)
			}
		}
	}

	for _, fault := range c.faults {
		t.Errorf("%s: %s", where, fault)
	}
}

// TestBoardsAndAlertsUseLabelsThatTheirMetricsHave: a query that groups by a label that its metric does not
// have, or matches or shows it, is silently wrong. docs/metrics.md has the labels of each metric. All queries
// of the boards of config/grafana and all alerts are followed, with their legends and summaries.
func TestBoardsAndAlertsUseLabelsThatTheirMetricsHave(t *testing.T) {
	known := documentedLabels(t)
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1d")
	for name, b := range readBoards(t) {
		for _, p := range b.Panels {
			for _, target := range p.Targets {
				checkLabels(t, name+": panel "+p.Title, variables.Replace(target.Expr), known, target.LegendFormat)
			}
		}
	}

	for _, rule := range parsedRules(t) {
		checkLabels(t, rule.Alert, rule.Expr, known, rule.Annotations["summary"])
	}
}

// TestLabelsThatAMetricDoesNotHaveAreFound: the check of TestBoardsAndAlertsUseLabelsThatTheirMetricsHave must find a
// wrong label, and accept a right one. Metric a has the labels queue and card, metric info has queue and tenant;
// Prometheus adds job. Metric b does not exist, and a quantile needs the label le. Each row is a query and the number
// of faults in it.
func TestLabelsThatAMetricDoesNotHaveAreFound(t *testing.T) {
	known := map[string][]string{"a": {"queue", "card"}, "info": {"queue", "tenant"}}

	for query, want := range map[string]int{
		`max by (queue, card) (a)`:           0,
		`max by (tenant) (a)`:                1,
		`sum by (job) (a)`:                   0,
		`a{tenant="x"}`:                      1,
		`b`:                                  1,
		`sum by (card) (max by (queue) (a))`: 1,
		`histogram_quantile(0.9, a)`:         1,
		`topk by (queue) (1, max by (queue, tenant) (info))`: 0,
		`time() - max by (queue) (a) > 3600`:                 0,
		`sum(a) or vector(0)`:                                0,
		`a and on (tenant) info`:                             1,
		`max by (queue) (a) * on (queue) group_left (tenant) max by (queue, tenant) (info)`: 0,
		`max by (card) (a) * on (queue) group_left (tenant) max by (queue, tenant) (info)`:  1,
		`max by (queue) (a) * on (queue) group_left (tenant) max by (queue) (info)`:         1,
	} {
		c := labelCheck{known: known}
		c.labelsOf(value(promql.ParseExpr(query))(t))
		equal(t, fmt.Sprint("faults of ", query, ": ", c.faults), want, len(c.faults))
	}
}
