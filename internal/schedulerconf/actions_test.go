package schedulerconf

import (
	"strings"
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

func TestWantedPreempt(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		value, before string
		wanted        bool
		want          string
	}{
		"added at the end":                 {"allocate, backfill, cardreclaim", "allocate, backfill", true, "allocate, backfill, cardreclaim, preempt"},
		"there already":                    {"allocate, preempt, backfill", "allocate, preempt, backfill", true, "allocate, preempt, backfill"},
		"before allocate":                  {"preempt, allocate, backfill", "preempt, allocate, backfill", true, "allocate, backfill, preempt"},
		"before and behind allocate":       {"preempt, allocate, preempt", "preempt, allocate, preempt", true, "allocate, preempt"},
		"between two allocates":            {"allocate, preempt, allocate", "allocate, preempt, allocate", true, "allocate, allocate, preempt"},
		"not wanted, not there":            {"allocate,  backfill", "allocate,  backfill", false, "allocate,  backfill"},
		"not wanted, written by others":    {"allocate, preempt", "allocate, preempt", false, "allocate, preempt"},
		"not wanted, written for a policy": {"allocate, cardreclaim, preempt", "allocate", false, "allocate, cardreclaim"},
		"without blanks":                   {"enqueue,allocate", "enqueue,allocate", true, "enqueue,allocate,preempt"},
	}) {
		got := wantedPreempt(tc.value, tc.before, tc.wanted)
		check.Equal(t, "got", tc.want, got)
		check.Equal(t, "again", tc.want, wantedPreempt(got, tc.before, tc.wanted))
	}
}

// TestPreemptComesAndGoesWithThePolicy: it goes only where the policy has brought it.
func TestPreemptComesAndGoesWithThePolicy(t *testing.T) {
	for t, byHand := range check.Cases(t, map[string]bool{"brought by the policy": false, "written by hand": true}) {
		text := plugins("  - name: priority", "  - name: gang")
		if byHand {
			text = strings.Replace(text, "allocate", "allocate, preempt", 1)
		}
		on, undo := mustMerge(t, text, "", Wanted{Reclaim: CardReclaim, Preempt: true})
		check.That(t, strings.Contains(on, "preempt") && strings.Count(on, "enablePreemptable: false") == 2 && strings.Contains(on, "enableJobStarving: false"), "switched on:\n%s", on)
		off, undo := mustMerge(t, on, undo, Wanted{Reclaim: CardReclaim})
		check.That(t, strings.Contains(off, "preempt") == byHand && (strings.Count(off, "enablePreemptable: false") == 2) == byHand && !strings.Contains(off, "enableJobStarving"), "switched off:\n%s", off)
		restored, err := Remove(off, undo)
		check.NoError(t, err)
		check.Equal(t, "restored", text, restored)
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
		"preempt was moved":             {"preempt, a, b", "a, b, preempt", "a, b, preempt, d", "preempt, a, b, d"},
		"moved, and moved by others":    {"reclaim, a, b", "a, b, reclaim", "a, reclaim, b, d", "a, reclaim, b, d"},
		"the others changed their form": {"a, b", "a, b, c", "b,a,c", "b,a"},
	}) {
		check.Equal(t, "got", tc.want, undoneActions(tc.now, tc.before, tc.after))
	}
}
