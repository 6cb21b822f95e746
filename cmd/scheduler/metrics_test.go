package main

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

// registered returns the names of this project's metrics that the program exports. Unlike a
// scrape it has those too that no session has counted anything for.
func registered(t *testing.T) []string {
	t.Helper()
	registry, ok := prometheus.DefaultRegisterer.(*prometheus.Registry)
	if !ok {
		t.Fatalf("the registry is a %T", prometheus.DefaultRegisterer)
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptions)
		close(descriptions)
	}()
	name := regexp.MustCompile(`fqName: "(cardquota_[a-z_]+)"`)
	names := map[string]bool{}
	for description := range descriptions {
		if match := name.FindStringSubmatch(description.String()); match != nil {
			names[match[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func TestTheTableOfMetricsIsWhatTheSchedulerExports(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	check.NoError(t, err)
	name := regexp.MustCompile("`(cardquota_[a-z_]+)`")
	documented := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 1 && cells[0] == "" {
			for _, match := range name.FindAllStringSubmatch(cells[1], -1) {
				documented[match[1]] = true
			}
		}
	}
	check.Equal(t, "metrics (-docs/metrics.md +the scheduler)", slices.Sorted(maps.Keys(documented)), registered(t))
}
