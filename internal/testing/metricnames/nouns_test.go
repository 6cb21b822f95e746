package metricnames

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

var row = regexp.MustCompile("^\\| `cardquota_(?:scheduler_)?([a-z0-9_]+)` \\| ([^|]*) \\|")

// TestANounHasTheSameLabelsInBothPrograms: what both programs count has one noun, such as quota_cards,
// with the component in front at the scheduler.
func TestANounHasTheSameLabelsInBothPrograms(t *testing.T) {
	page := check.Value(os.ReadFile("../../../docs/metrics.md"))(t)

	tables := map[string]map[string]string{}
	for _, heading := range []string{Scheduler, Operator} {
		tables[heading] = map[string]string{}
		_, table, _ := cutTable(t, string(page), heading)
		for line := range strings.Lines(table) {
			if match := row.FindStringSubmatch(line); match != nil {
				tables[heading][match[1]] = match[2]
			}
		}
	}

	var both []string
	for _, noun := range []string{"deserved_cards", "physical_cards", "quota_cards", "used_cards"} {
		if tables[Scheduler][noun] != "" && tables[Operator][noun] != "" {
			both = append(both, noun)
		}
	}

	check.Equal(t, "nouns that both programs need", []string{"deserved_cards", "physical_cards", "quota_cards", "used_cards"}, both)
	for noun, labels := range tables[Scheduler] {
		other, isShared := tables[Operator][noun]
		check.That(t, !isShared || other == labels, "%s has the labels %s at the scheduler, %s at the operator", noun, labels, other)
	}
}
