package schedulerconfig

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestRenderRefuses has what TestValidateRefuses, which asks Render as well, has not.
func TestRenderRefuses(t *testing.T) {
	deep := "actions: allocate\nx: " + strings.Repeat("[", 11000) + strings.Repeat("]", 11000)

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"a NUL":                            {"actions: \"a\x00\"\n", "the text is not YAML"},
		"bytes that are no characters":     {"actions: \"\xff\"\n", "the text is not YAML"},
		"too deep":                         {deep, "the text is not YAML"},
		"null tiers":                       {"actions: allocate\ntiers:\n", "tiers is missing or empty"},
		"no tier":                          {"actions: allocate\ntiers: []\n", "tiers is missing or empty"},
		"an empty tier":                    {"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins: []\n", "line 5: a tier without plugins"},
		"a first tier that is empty":       {"actions: allocate\ntiers:\n- plugins:\n", "a tier without plugins"},
		"a misspelt switch":                {plugins("  - name: proportion", "  - name: gang", "    enableJobOder: true"), `line 6: unknown key "enableJobOder" in plugin gang`},
		"a switch in quotes":               {plugins("  - name: gang", "    enableReclaimable: \"false\""), "line 5: enableReclaimable of plugin gang is not a switch"},
		"arguments that are a word":        {plugins("  - name: gang", "    arguments: none"), "line 5: arguments is not a mapping"},
		"a hierarchy that Volcano reads":   {plugins("  - name: gang", "  - name: capacity", "    enableHierarchy: yes"), "plugin capacity has enableHierarchy: true, and with queueHierarchy: Flat the CPU and memory limits of parent queues would no longer hold. Set queueHierarchy: Tree in the policy"},
		"capacity with a hierarchy":        {plugins("  - name: gang", "  - name: capacity", "    enableHierarchy: true"), "plugin capacity has enableHierarchy: true, and with queueHierarchy: Flat the CPU and memory limits of parent queues would no longer hold. Set queueHierarchy: Tree in the policy"},
		"no allocate":                      {strings.Replace(plugins("  - name: gang"), "allocate, ", "", 1), "line 1: cardreclaim has no allocate before it"},
		"preempt before allocate":          {strings.Replace(plugins("  - name: gang"), "allocate", "preempt, allocate", 1), "line 1: preempt has no allocate before it"},
		"a plugin of a vendor":             {plugins("  - name: gang", "  - name: rack-power"), `line 5: unknown plugin "rack-power": known are binpack, capacity`},
		"an action that evicts in between": {strings.Replace(plugins("  - name: gang"), "backfill", "preempt, allocate", 1), "line 1: allocate comes after an action that evicts"},
	}) {
		renderRefuses(t, tc.text, tc.want)
	}
}

// renderRefuses wants Render to refuse a text.
func renderRefuses(t *testing.T, text, want string) {
	rendered, replaced, err := Render(text, header, tide(CardReclaim))
	check.Says(t, err, want)
	check.That(t, rendered == "" && replaced == nil, "a text came out: %q, replaced %q", rendered, replaced)
}

func TestRenderRefusesWhatCannotBeWanted(t *testing.T) {
	text := plugins("  - name: gang")

	for t, tc := range check.Cases(t, map[string]struct {
		want  Overlay
		error string
	}{
		"an action of another kind":    {Overlay{Reclaim: "preempt"}, `"preempt" is no action that takes cards back: known are reclaim, cardreclaim`},
		"a hash":                       {Overlay{Arguments: map[string]any{HashArgument: "x"}}, "argument configHash is written by the scheduler itself"},
		"a text that is no characters": {Overlay{Arguments: map[string]any{"x": "\xff"}}, "tag !!binary: remove it"},
	}) {
		_, _, err := Render(text, header, tc.want)
		check.Says(t, err, tc.error)
	}
}
