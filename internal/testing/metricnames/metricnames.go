// Package metricnames compares the metrics that a program exports with those that
// docs/metrics.md describes.
package metricnames

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"cardquota.dev/operator/internal/testing/check"
)

var (
	fqNamePattern     = regexp.MustCompile(`fqName: "(cardquota_[a-z0-9_]+)"`)
	quotedNamePattern = regexp.MustCompile("`(cardquota_[a-z0-9_]+)`")
)

// Registered returns the names of this project's metrics in a registry, including those without
// a sample.
func Registered(registry prometheus.Collector) []string {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptions)
		close(descriptions)
	}()
	names := map[string]bool{}
	for description := range descriptions {
		if match := fqNamePattern.FindStringSubmatch(description.String()); match != nil {
			names[match[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Documented returns the metrics that docs/metrics.md describes. Those of the scheduler are in
// the first column of its table, those of the operator in its text above the alerts.
func Documented(t testing.TB, file string) (scheduler, operator []string) {
	t.Helper()
	page, err := os.ReadFile(file)
	check.NoError(t, err)
	text, _, _ := strings.Cut(string(page), "\n## Example alerts\n")
	table, prose := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(text) {
		names, from := prose, line
		if cells := strings.Split(line, "|"); len(cells) > 1 && cells[0] == "" {
			names, from = table, cells[1]
		}
		for _, match := range quotedNamePattern.FindAllStringSubmatch(from, -1) {
			names[match[1]] = true
		}
	}
	maps.DeleteFunc(prose, func(name string, _ bool) bool { return table[name] })
	return slices.Sorted(maps.Keys(table)), slices.Sorted(maps.Keys(prose))
}
