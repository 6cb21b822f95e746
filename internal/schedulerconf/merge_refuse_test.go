package schedulerconf

import (
	"math"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// TestMergeRefuses has what TestValidateRefuses, which asks Merge as well, has not.
func TestMergeRefuses(t *testing.T) {
	long := "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n#" + strings.Repeat("x", longestText)
	deep := "actions: allocate\nx: " + strings.Repeat("[", 11000) + strings.Repeat("]", 11000)
	quotes := "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: proportion\n#" + strings.Repeat("\"", longestText-100) + "\n"
	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"a NUL":                            {"actions: \"a\x00\"\n", "the text is not YAML"},
		"bytes that are no characters":     {"actions: \"\xff\"\n", "the text is not YAML"},
		"too long":                         {long, "at most 65536 can be kept"},
		"a long record":                    {quotes, "at most 131072 fit into an annotation"},
		"too deep":                         {deep, "the text is not YAML"},
		"null tiers":                       {"actions: allocate\ntiers:\n", "tiers is missing or empty"},
		"no tier":                          {"actions: allocate\ntiers: []\n", "tiers is missing or empty"},
		"an empty tier":                    {"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins: []\n", "line 5: a tier without plugins"},
		"a first tier that is empty":       {"actions: allocate\ntiers:\n- plugins:\n", "a tier without plugins"},
		"a misspelt switch":                {plugins("  - name: proportion", "  - name: gang", "    enableJobOder: true"), `line 6: unknown key "enableJobOder" in plugin gang`},
		"a switch in quotes":               {plugins("  - name: gang", "    enableReclaimable: \"false\""), "line 5: enableReclaimable of plugin gang is not a switch"},
		"arguments that are a word":        {plugins("  - name: capacity-card", "    arguments: none"), "line 5: arguments is not a mapping"},
		"capacity with a hierarchy":        {plugins("  - name: gang", "  - name: capacity", "    enableHierarchy: true"), "plugin capacity has enableHierarchy: true, and card quotas do not support a hierarchy of queues"},
		"no allocate":                      {strings.Replace(plugins("  - name: gang"), "allocate, ", "", 1), "line 1: cardreclaim has no allocate before it"},
		"preempt before allocate":          {strings.Replace(plugins("  - name: gang"), "allocate", "preempt, allocate", 1), "line 1: preempt has no allocate before it"},
		"an action that evicts in between": {strings.Replace(plugins("  - name: gang"), "backfill", "preempt, allocate", 1), "line 1: allocate stands after an action that evicts"},
	}) {
		mergeRefuses(t, tc.text, tc.want)
	}
}

// mergeRefuses wants Merge and Changes to refuse a text.
func mergeRefuses(t *testing.T, text, want string) {
	t.Helper()
	merged, undo, err := Merge(text, "", tide(CardReclaim))
	check.Says(t, err, want)
	check.Equal(t, "a text came out", "", merged+undo)
	changes, err := Changes(text, "", tide(CardReclaim))
	check.That(t, err != nil && changes == nil, "changes %q, error %v", changes, err)
}

func TestMergeRefusesWhatCannotBeWanted(t *testing.T) {
	text := plugins("  - name: gang")
	for t, tc := range check.Cases(t, map[string]struct {
		want  Wanted
		error string
	}{
		"an action of another kind":       {Wanted{Reclaim: "preempt"}, `"preempt" is no action that takes cards back: known are reclaim and cardreclaim`},
		"a hash":                          {Wanted{Arguments: map[string]any{HashArgument: "x"}}, "argument configHash is written by the scheduler itself"},
		"a value without a form":          {Wanted{Arguments: map[string]any{"x": math.NaN()}}, "x of capacity-card cannot be written"},
		"a value that is a function":      {Wanted{Arguments: map[string]any{"x": func() {}}}, "x of capacity-card cannot be written"},
		"a text that is no characters":    {Wanted{Arguments: map[string]any{"x": "\xff"}}, "cannot be changed without changing what else it means"},
		"a plugin of nobody is not known": {Wanted{Plugins: []string{"y"}, Arguments: map[string]any{"1": 1}}, ""},
	}) {
		_, _, err := Merge(text, "", tc.want)
		check.Says(t, err, tc.error)
	}
}

func TestRecordsThatCannotBeRead(t *testing.T) {
	text := plugins("  - name: gang")
	for t, undo := range check.Cases(t, map[string]string{
		"not JSON": "{", "a word": `"x"`, "another key": `{"hash":"","originl":""}`, "two": `{} {}`, "a wrong type": `{"changes":[{"tier":"x"}]}`,
	}) {
		if _, _, err := Merge(text, undo, tide(CardReclaim)); err == nil || !strings.Contains(err.Error(), "remove it, then the text as it stands counts as the original") {
			t.Errorf("merge: %v", err)
		}
		if restored, err := Remove(text, undo); err == nil || restored != "" {
			t.Errorf("remove: %q, %v", restored, err)
		}
	}
}

func TestRemoveRefusesATextThatCannotBeRead(t *testing.T) {
	_, undo, err := Merge(plugins("  - name: gang"), "", tide(CardReclaim))
	check.NoError(t, err)
	for _, text := range []string{"", "\"", "- a", "a: &a b", "a: 1\na: 2"} {
		restored, err := Remove(text, undo)
		check.That(t, err != nil && restored == "", "%q became %q, error %v", text, restored, err)
	}
}
