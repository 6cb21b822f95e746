package main

import (
	"flag"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"cardquota.dev/operator/internal/scheduler/configloader"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/metricnames"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

// TestTableOfMetrics: users look metrics up in a table of docs/metrics.md, which is generated from the code. The test
// fails when they differ, and writes the table with -update.
func TestTableOfMetrics(t *testing.T) {
	registry, ok := prometheus.DefaultRegisterer.(*prometheus.Registry)
	check.Must(t, ok, "the registry is a %T", prometheus.DefaultRegisterer)
	loader := check.Value(configloader.New(configloader.Config{Source: configloader.NewFile("unread"), Dir: t.TempDir()}))(t)
	metricnames.CheckTable(t, *update, "../../docs/metrics.md", metricnames.Scheduler, append(loader.Metrics(), registry)...)
}
