package schedulerconf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChanges(t *testing.T) {
	merged, undo := mustMerge(t, simpleText, "", tide("reclaim"))
	tests := map[string]struct {
		text, undo string
		want       Wanted
		changes    []string
	}{
		"nothing": {merged, undo, tide("reclaim"), nil},
		"all that a merge does": {simpleText, "", tide("reclaim"), []string{
			"action reclaim is missing", "plugin gang: enableReclaimable must be false", "plugin gang: enableJobStarving must be false",
			"plugin capacity-card is missing", "plugin proportion must not be there",
		}},
		"another action, other arguments": {merged, undo, Wanted{Reclaim: CardReclaim, Arguments: map[string]any{"cardUnlimitedCpuMemory": false, "unmanagedQueues": "Ignore"}}, []string{
			"action cardreclaim is missing", "action reclaim must not be there", "plugin gang: enableJobStarving must not be set",
			"plugin capacity-card: argument cardUnlimitedCpuMemory must be false", `plugin capacity-card: argument unmanagedQueues must be "Ignore"`,
			"plugin capacity-card: argument serviceTypes must not be set",
		}},
		"reclaim before allocate": {strings.Replace(plugins("  - name: capacity-card"), "allocate", "reclaim, allocate", 1), "", Wanted{Reclaim: "reclaim"}, []string{
			"actions must be enqueue, allocate, backfill, reclaim",
		}},
		"a long value": {plugins("  - name: capacity-card", "    arguments: {}"), "", Wanted{Arguments: map[string]any{"x": strings.Repeat("y", 200)}}, []string{
			`plugin capacity-card: argument x must be "` + strings.Repeat("y", 116) + "…",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			changes, err := Changes(tc.text, tc.undo, tc.want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.changes, changes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
