// Package metricnames generates the tables of docs/metrics.md from the metrics that the programs
// export.
package metricnames

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"cardquota.dev/operator/internal/testing/check"
)

// Headings of the page above the tables.
const (
	Scheduler = "## The scheduler"
	Operator  = "## The operator"
)

var (
	description = regexp.MustCompile(`^Desc\{fqName: "(cardquota_[a-z0-9_]+)", help: ("(?:[^"\\]|\\.)*"), constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)
	firstCell   = regexp.MustCompile("^\\| `(cardquota_[a-z0-9_]+)` \\|")
)

// metric is a metric of this project.
type metric struct {
	labels []string
	help   string
}

// describedBy returns this project's metrics of collectors, including those without a sample.
func describedBy(t testing.TB, collectors ...prometheus.Collector) map[string]metric {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		for _, collector := range collectors {
			collector.Describe(descriptions)
		}
	}()

	metrics := map[string]metric{}
	for desc := range descriptions {
		match := description.FindStringSubmatch(desc.String())
		if match == nil {
			check.That(t, !strings.Contains(desc.String(), `"cardquota_`), "cannot read %s", desc)
			continue
		}
		help := check.Value(strconv.Unquote(match[2]))(t)
		metrics[match[1]] = metric{strings.FieldsFunc(match[3], func(r rune) bool { return r == ',' }), help}
	}

	return metrics
}

// Registered returns the names of this project's metrics in a registry.
func Registered(t testing.TB, registry prometheus.Collector) []string {
	return slices.Sorted(maps.Keys(describedBy(t, registry)))
}

// Documented returns the metrics in the table below a heading.
func Documented(t testing.TB, file, heading string) []string {
	_, table, _ := cutTable(t, string(check.Value(os.ReadFile(file))(t)), heading)
	var names []string
	for line := range strings.Lines(table) {
		if match := firstCell.FindStringSubmatch(line); match != nil {
			names = append(names, match[1])
		}
	}

	slices.Sort(names)
	return names
}

// CheckTable compares the table below a heading with the metrics of collectors, or writes it.
func CheckTable(t testing.TB, update bool, file, heading string, collectors ...prometheus.Collector) {
	before, table, after := cutTable(t, string(check.Value(os.ReadFile(file))(t)), heading)
	want := newTable(describedBy(t, collectors...))
	if update {
		check.NoError(t, os.WriteFile(file, []byte(before+want+after), 0o600))
		return
	}
	check.Equal(t, "table below "+heading+" (-code +"+file+"; run this test with -update)", want, table)
}

func newTable(metrics map[string]metric) string {
	lines := []string{"| Name | Labels | Meaning |", "|---|---|---|"}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		labels := make([]string, len(metrics[name].labels))
		for i, label := range metrics[name].labels {
			labels[i] = "`" + label + "`"
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s |", name, strings.Join(labels, ", "), strings.ReplaceAll(metrics[name].help, "|", `\|`)))
	}
	return strings.Join(lines, "\n") + "\n"
}

// cutTable cuts a page around the first table below a heading.
func cutTable(t testing.TB, page, heading string) (before, table, after string) {
	head, section, found := strings.Cut(page, "\n"+heading+"\n")
	check.Must(t, found, "the page has no %q", heading)
	start := strings.Index(section, "\n| Name |")
	check.Must(t, start >= 0, "no table below %q", heading)

	start++
	end := start
	for line := range strings.Lines(section[start:]) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		end += len(line)
	}

	return head + "\n" + heading + "\n" + section[:start], section[start:end], section[end:]
}
