package carduse

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Counter is the name of the operator's counter.
const Counter = "cardquota_card_seconds_total"

// SeriesLabels are the labels of the operator's counter.
var SeriesLabels = []string{"tenant", "project", "queue", "card", "service_type"}

// LargestQuery returns the query for Source.Largest.
func LargestQuery(matchers []string, before time.Duration) string {
	return overTime("max", matchers, before)
}

// SmallestQuery returns the query for Source.Smallest.
func SmallestQuery(matchers []string, before time.Duration) string {
	return overTime("min", matchers, before)
}

func overTime(function string, matchers []string, before time.Duration) string {
	return fmt.Sprintf("%s by (%s) (%s_over_time(%s[%ds]))", function, strings.Join(SeriesLabels, ", "), function, joinMatchers(matchers), int(before.Seconds()))
}

// ExportersQuery returns the query for Source.Exporters.
func ExportersQuery(matchers []string) string {
	return fmt.Sprintf("count without (%s) (%s)", strings.Join(SeriesLabels, ", "), joinMatchers(matchers))
}

func joinMatchers(matchers []string) string {
	if len(matchers) == 0 {
		return Counter
	}
	return Counter + "{" + strings.Join(matchers, ", ") + "}"
}

var matcherPattern = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)(=|!=|=~|!~)"([^"\\\n]|\\.)*"$`)

// CheckMatcher refuses what is no matcher, and the labels of the counter: without some of its series
// a gap could not be told from a sum that was dropped.
func CheckMatcher(text string) error {
	found := matcherPattern.FindStringSubmatch(text)
	switch {
	case found == nil:
		return fmt.Errorf("--match: %.80q is no matcher of Prometheus: write for example cluster=\"east\"", text)
	case slices.Contains(SeriesLabels, found[1]):
		return fmt.Errorf("--match: select by labels that Prometheus adds, such as cluster, and not by %s: --tenant selects a tenant", found[1])
	}
	return nil
}
