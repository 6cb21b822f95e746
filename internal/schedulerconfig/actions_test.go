package schedulerconfig

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

func TestActions(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		base, reclaim string
		preempt       bool
		want          string
	}{
		"added at the end":                     {"enqueue, allocate, backfill", CardReclaim, false, "enqueue, allocate, backfill, cardreclaim"},
		"there already":                        {"enqueue, allocate, cardreclaim, backfill", CardReclaim, false, "enqueue, allocate, cardreclaim, backfill"},
		"in the place of the other":            {"enqueue, allocate, reclaim, backfill", CardReclaim, false, "enqueue, allocate, cardreclaim, backfill"},
		"and back":                             {"enqueue, allocate, cardreclaim, backfill", "reclaim", false, "enqueue, allocate, reclaim, backfill"},
		"both there":                           {"allocate, reclaim, cardreclaim", CardReclaim, false, "allocate, cardreclaim"},
		"both there, the other one first":      {"allocate, cardreclaim, reclaim", CardReclaim, false, "allocate, cardreclaim"},
		"before allocate":                      {"enqueue, reclaim, allocate, backfill", "reclaim", false, "enqueue, allocate, backfill, reclaim"},
		"the other one before allocate":        {"enqueue, reclaim, allocate, backfill", CardReclaim, false, "enqueue, allocate, backfill, cardreclaim"},
		"twice":                                {"reclaim, allocate, reclaim, reclaim", "reclaim", false, "allocate, reclaim"},
		"between two allocates":                {"allocate, reclaim, allocate", "reclaim", false, "allocate, allocate, reclaim"},
		"none wanted":                          {"allocate, reclaim, preempt, cardreclaim", "", false, "allocate, preempt"},
		"none wanted, none there":              {"allocate,  backfill", "", false, "allocate, backfill"},
		"shuffle goes":                         {"allocate, shuffle, reclaim", "reclaim", false, "allocate, reclaim"},
		"one action":                           {"allocate", CardReclaim, false, "allocate, cardreclaim"},
		"unknown actions stay for the verdict": {"alocate, x", CardReclaim, false, "alocate, x, cardreclaim"},
		"preempt at the end":                   {"allocate, backfill", CardReclaim, true, "allocate, backfill, cardreclaim, preempt"},
		"preempt there already":                {"allocate, preempt, backfill", "", true, "allocate, preempt, backfill"},
		"preempt before allocate":              {"preempt, allocate, backfill", "", true, "allocate, backfill, preempt"},
		"preempt before and behind allocate":   {"preempt, allocate, preempt", "", true, "allocate, preempt"},
		"preempt between two allocates":        {"allocate, preempt, allocate", "", true, "allocate, allocate, preempt"},
		"preempt of the base":                  {"allocate, preempt", "", false, "allocate, preempt"},
	}) {
		got := func(base string) string {
			root := &renderer{overlay: Overlay{Reclaim: tc.reclaim, Preempt: tc.preempt}}
			root.root = check.Value(parseDocument("actions: " + base))(t).Content[0]
			root.setActions(fieldValue(root.root, "actions"))
			return strings.Join(actionNames(root.root), ", ")
		}

		check.Equal(t, "got", tc.want, got(tc.base))
		check.Equal(t, "again", tc.want, got(tc.want))
	}
}
