package metricnames

import (
	"os"
	"regexp"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

var row = regexp.MustCompile("(?m)^\\| `cardquota_(?:scheduler_)?([a-z0-9_]+)` \\| ([^|]*) \\|")

// TestAMetricOfBothProgramsHasTheSameLabels: operator and scheduler both export some amounts, such as
// cardquota_quota_cards and cardquota_scheduler_quota_cards. A query that compares them needs the same labels on both.
// docs/metrics.md has a table for each program, with names and labels. Four amounts must be in both tables.
func TestAMetricOfBothProgramsHasTheSameLabels(t *testing.T) {
	page := check.Value(os.ReadFile("../../../docs/metrics.md"))(t)
	labelsOf := func(heading string) map[string]string {
		labels := map[string]string{}
		_, table, _ := cutTable(t, string(page), heading)
		for _, match := range row.FindAllStringSubmatch(table, -1) {
			labels[match[1]] = match[2]
		}
		return labels
	}

	scheduler := labelsOf(Scheduler)
	operator := labelsOf(Operator)
	for _, amount := range []string{"deserved_cards", "physical_cards", "quota_cards", "used_cards"} {
		check.That(t, scheduler[amount] != "" && operator[amount] != "", "a program does not export %s", amount)
	}

	for name, labels := range scheduler {
		other, isShared := operator[name]
		check.That(t, !isShared || other == labels, "%s has the labels %s at the scheduler, %s at the operator", name, labels, other)
	}
}
