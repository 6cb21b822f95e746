package schedulerconfig

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestRenderPlacesTheEvictingActions: Volcano runs the actions of a session in the order in which the text
// lists them. An action that evicts must stand behind allocate: before it, it would evict although cards are
// free. So Render keeps the action that the policy wants where the base has it behind the last allocate. If the
// base has the other one of reclaim and cardreclaim there, Render replaces it. Else it appends the wanted
// action. It removes each reclaim and cardreclaim that the policy does not want, but leaves preempt. The wanted
// actions are in Overlay: Reclaim names cardreclaim, reclaim or none, and Preempt adds preempt. Render removes
// shuffle, which evicts pods within their quota. Rendering the result again changes nothing.
func TestRenderPlacesTheEvictingActions(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		base    string
		overlay Overlay
		want    string
	}{
		"cardreclaim: appended": {
			"enqueue, allocate, backfill", Overlay{Reclaim: CardReclaim}, "enqueue, allocate, backfill, cardreclaim",
		},
		"cardreclaim: kept before backfill": {
			"enqueue, allocate, cardreclaim, backfill", Overlay{Reclaim: CardReclaim}, "enqueue, allocate, cardreclaim, backfill",
		},
		"cardreclaim: in the place of reclaim": {
			"enqueue, allocate, reclaim, backfill", Overlay{Reclaim: CardReclaim}, "enqueue, allocate, cardreclaim, backfill",
		},
		"cardreclaim: in the place of reclaim, and its own is removed": {
			"allocate, reclaim, cardreclaim", Overlay{Reclaim: CardReclaim}, "allocate, cardreclaim",
		},
		"cardreclaim: kept, and reclaim behind it is removed": {
			"allocate, cardreclaim, reclaim", Overlay{Reclaim: CardReclaim}, "allocate, cardreclaim",
		},
		"cardreclaim: appended for a reclaim before allocate": {
			"enqueue, reclaim, allocate, backfill", Overlay{Reclaim: CardReclaim}, "enqueue, allocate, backfill, cardreclaim",
		},
		"cardreclaim: appended to allocate alone": {"allocate", Overlay{Reclaim: CardReclaim}, "allocate, cardreclaim"},
		"cardreclaim: unknown actions stay, and are refused later": {
			"alocate, x", Overlay{Reclaim: CardReclaim}, "alocate, x, cardreclaim",
		},
		"reclaim: in the place of cardreclaim": {
			"enqueue, allocate, cardreclaim, backfill", Overlay{Reclaim: "reclaim"}, "enqueue, allocate, reclaim, backfill",
		},
		"reclaim: moved from before allocate to the end": {
			"enqueue, reclaim, allocate, backfill", Overlay{Reclaim: "reclaim"}, "enqueue, allocate, backfill, reclaim",
		},
		"reclaim: once instead of three times":      {"reclaim, allocate, reclaim, reclaim", Overlay{Reclaim: "reclaim"}, "allocate, reclaim"},
		"reclaim: moved behind the last allocate":   {"allocate, reclaim, allocate", Overlay{Reclaim: "reclaim"}, "allocate, allocate, reclaim"},
		"reclaim: shuffle is removed":               {"allocate, shuffle, reclaim", Overlay{Reclaim: "reclaim"}, "allocate, reclaim"},
		"no reclaim action: both are removed":       {"allocate, reclaim, preempt, cardreclaim", Overlay{}, "allocate, preempt"},
		"no reclaim action: blanks do not matter":   {"allocate,  backfill", Overlay{}, "allocate, backfill"},
		"no preempt wanted: that of the base stays": {"allocate, preempt", Overlay{}, "allocate, preempt"},
		"preempt and cardreclaim: appended": {
			"allocate, backfill", Overlay{Reclaim: CardReclaim, Preempt: true}, "allocate, backfill, cardreclaim, preempt",
		},
		"preempt: kept before backfill": {"allocate, preempt, backfill", Overlay{Preempt: true}, "allocate, preempt, backfill"},
		"preempt: moved from before allocate to the end": {
			"preempt, allocate, backfill", Overlay{Preempt: true}, "allocate, backfill, preempt",
		},
		"preempt: the one behind allocate is kept": {"preempt, allocate, preempt", Overlay{Preempt: true}, "allocate, preempt"},
		"preempt: moved behind the last allocate":  {"allocate, preempt, allocate", Overlay{Preempt: true}, "allocate, allocate, preempt"},
	}) {
		place := func(actions string) string {
			r := &renderer{overlay: tc.overlay}
			r.root = check.Value(parseDocument("actions: " + actions))(t).Content[0]
			r.setActions(fieldValue(r.root, "actions"))
			return strings.Join(actionNames(r.root), ", ")
		}

		check.Equal(t, "actions", tc.want, place(tc.base))
		check.Equal(t, "actions, rendered again", tc.want, place(tc.want))
	}
}
