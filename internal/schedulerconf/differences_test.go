package schedulerconf

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

func TestChanges(t *testing.T) {
	merged, undo := mustMerge(t, simpleText, "", tide("reclaim"))
	for t, tc := range check.Cases(t, map[string]struct {
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
	}) {
		changes, err := Changes(tc.text, tc.undo, tc.want)
		check.NoError(t, err)
		check.Equal(t, "changes", tc.changes, changes)
	}
}
