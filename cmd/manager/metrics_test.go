package main

import (
	"flag"
	"slices"
	"testing"

	"cardquota.dev/operator/internal/controller/cardinventory"
	"cardquota.dev/operator/internal/controller/cardquota"
	"cardquota.dev/operator/internal/controller/cardseconds"
	"cardquota.dev/operator/internal/controller/servicetypepolicy"
	"cardquota.dev/operator/internal/testing/metricnames"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

// TestTableOfMetrics: users look metrics up in a table of docs/metrics.md, which is generated from the code. The test
// fails when they differ, and writes the table with -update. test/integration compares its names with a running
// operator.
func TestTableOfMetrics(t *testing.T) {
	all := slices.Concat(cardquota.Metrics(), cardinventory.Metrics(), cardseconds.Metrics(), servicetypepolicy.Metrics())
	metricnames.CheckTable(t, *update, "../../docs/metrics.md", metricnames.Operator, all...)
}
