package schedulerconfig

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestRenderRefusesTextsItCannotBuildOn: with these bases the scheduler would not work as their author or the
// policy means it, so nothing is rendered. More such texts are in TestValidateRefusesTextsThatVolcanoMisreads.
// The overlay, which is what the policy adds, is that of the default policy, with action cardreclaim. Helper
// withPlugins writes its lines from line 4 of the text on.
func TestRenderRefusesTextsItCannotBuildOn(t *testing.T) {
	const wantHierarchy = "plugin capacity has enableHierarchy: true, and with queueHierarchy: Flat the CPU and memory limits of parent queues would " +
		"no longer hold. Set queueHierarchy: Tree in the policy"
	gang := withPlugins("  - name: gang") // its first line has the actions enqueue, allocate, backfill

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"a NUL byte":                     {"actions: \"a\x00\"\n", "the text is not YAML"},
		"bytes that are not UTF-8":       {"actions: \"\xff\"\n", "the text is not YAML"},
		"lists 11,000 levels deep":       {"actions: allocate\nx: " + strings.Repeat("[", 11000) + strings.Repeat("]", 11000), "the text is not YAML"},
		"tiers are null":                 {"actions: allocate\ntiers:\n", "tiers is missing or empty"},
		"tiers are an empty list":        {"actions: allocate\ntiers: []\n", "tiers is missing or empty"},
		"the second tier has no plugins": {"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins: []\n", "line 5: a tier without plugins"},
		"the first tier has no plugins":  {"actions: allocate\ntiers:\n- plugins:\n", "a tier without plugins"},
		"a misspelt switch behind proportion, which is replaced": {
			withPlugins("  - name: proportion", "  - name: gang", "    enableJobOder: true"), `line 6: unknown key "enableJobOder" in plugin gang`,
		},
		"a switch in quotes": {
			withPlugins("  - name: gang", "    enableReclaimable: \"false\""), "line 5: enableReclaimable of plugin gang is not a switch",
		},
		"arguments that are a word": {withPlugins("  - name: gang", "    arguments: none"), "line 5: arguments is not a mapping"},
		"a hierarchy of queues in plugin capacity": {
			withPlugins("  - name: gang", "  - name: capacity", "    enableHierarchy: true"), wantHierarchy,
		},
		"a hierarchy that is yes, which only Volcano takes for true": {
			withPlugins("  - name: gang", "  - name: capacity", "    enableHierarchy: yes"), wantHierarchy,
		},
		"action allocate is missing": {strings.Replace(gang, "allocate, ", "", 1), "line 1: cardreclaim has no allocate before it"},
		"preempt before allocate":    {strings.Replace(gang, "allocate", "preempt, allocate", 1), "line 1: preempt has no allocate before it"},
		"preempt between two allocates": {
			strings.Replace(gang, "backfill", "preempt, allocate", 1), "line 1: allocate comes after an action that evicts",
		},
		"a plugin that Volcano does not have": {
			withPlugins("  - name: gang", "  - name: rack-power"), `line 5: unknown plugin "rack-power": known are binpack, capacity`,
		},
	}) {
		assertRenderRefuses(t, tc.text, tc.want)
	}
}

// assertRenderRefuses wants Render to refuse a text for the default policy, and to return no part of it.
func assertRenderRefuses(t *testing.T, text, want string) {
	rendered, replaced, err := Render(text, header, defaultOverlay(CardReclaim))
	check.Says(t, err, want)
	check.Equal(t, "rendered text", "", rendered)
	check.Equal(t, "what was replaced", nil, replaced)
}

// TestRenderRefusesOverlaysItCannotWrite: the overlay is what a policy adds to a base. Preempt is no action
// that reclaims cards, configHash belongs to the scheduler, and YAML has no text that is not UTF-8.
func TestRenderRefusesOverlaysItCannotWrite(t *testing.T) {
	for want, overlay := range map[string]Overlay{
		`"preempt" is no action that takes cards back: known are reclaim, cardreclaim`: {Reclaim: "preempt"},
		"argument configHash is written by the scheduler itself":                       {Arguments: map[string]any{HashArgument: "x"}},
		"tag !!binary: remove it": {Arguments: map[string]any{"x": "\xff"}},
	} {
		_, _, err := Render(withPlugins("  - name: gang"), header, overlay)
		check.Says(t, err, want)
	}
}
