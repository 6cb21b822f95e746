package schedulerconf

import (
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

func TestWantedActions(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ value, reclaim, want string }{
		"added at the end":                     {"enqueue, allocate, backfill", CardReclaim, "enqueue, allocate, backfill, cardreclaim"},
		"there already":                        {"enqueue, allocate, cardreclaim, backfill", CardReclaim, "enqueue, allocate, cardreclaim, backfill"},
		"in the place of the other":            {"enqueue, allocate, reclaim, backfill", CardReclaim, "enqueue, allocate, cardreclaim, backfill"},
		"and back":                             {"enqueue, allocate, cardreclaim, backfill", "reclaim", "enqueue, allocate, reclaim, backfill"},
		"both there":                           {"allocate, reclaim, cardreclaim", CardReclaim, "allocate, cardreclaim"},
		"both there, the other one first":      {"allocate, cardreclaim, reclaim", CardReclaim, "allocate, cardreclaim"},
		"before allocate":                      {"enqueue, reclaim, allocate, backfill", "reclaim", "enqueue, allocate, backfill, reclaim"},
		"the other one before allocate":        {"enqueue, reclaim, allocate, backfill", CardReclaim, "enqueue, allocate, backfill, cardreclaim"},
		"twice":                                {"reclaim, allocate, reclaim, reclaim", "reclaim", "allocate, reclaim"},
		"between two allocates":                {"allocate, reclaim, allocate", "reclaim", "allocate, allocate, reclaim"},
		"none wanted":                          {"allocate, reclaim, preempt, cardreclaim", "", "allocate, preempt"},
		"none wanted, none there":              {"allocate,  backfill", "", "allocate,  backfill"},
		"shuffle goes":                         {"allocate, shuffle, reclaim", "reclaim", "allocate, reclaim"},
		"without blanks":                       {"enqueue,allocate", CardReclaim, "enqueue,allocate,cardreclaim"},
		"one action":                           {"allocate", CardReclaim, "allocate, cardreclaim"},
		"unknown actions stay for the verdict": {"alocate, x", CardReclaim, "alocate, x, cardreclaim"},
	}) {
		check.Equal(t, "got", tc.want, wantedActions(tc.value, tc.reclaim))
		check.Equal(t, "again", tc.want, wantedActions(tc.want, tc.reclaim))
	}
}

func TestUndoneActions(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ before, after, now, want string }{
		"untouched":                     {"a,  b", "a, b, c", "a, b, c", "a,  b"},
		"only the blanks changed":       {"a, b", "a, b, c", "a,b,c", "a, b"},
		"another was added":             {"a, b", "a, b, c", "a, x, b, c", "a, x, b"},
		"ours was removed":              {"a, b", "a, b, c", "a, b", "a, b"},
		"one was replaced":              {"a, b, c", "a, x, c", "a, x, c, d", "a, b, c, d"},
		"the removed one is back":       {"a, b, c", "a, c", "b, a, c", "b, a, c"},
		"the neighbour is gone":         {"a, b, c", "a, c", "c, d", "b, c, d"},
		"moved, and another was added":  {"reclaim, a, b", "a, b, reclaim", "a, b, reclaim, d", "reclaim, a, b, d"},
		"moved, and moved by others":    {"reclaim, a, b", "a, b, reclaim", "a, reclaim, b, d", "a, reclaim, b, d"},
		"the others changed their form": {"a, b", "a, b, c", "b,a,c", "b,a"},
	}) {
		check.Equal(t, "got", tc.want, undoneActions(tc.now, tc.before, tc.after))
	}
}
