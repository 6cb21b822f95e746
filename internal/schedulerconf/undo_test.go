package schedulerconf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cardquota.dev/operator/internal/testing/check"
)

// simpleText is a text in which a merge changes something of every kind.
const simpleText = `actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  # by weight
  - name: proportion
    arguments:
      x: 1   # kept
  - name: predicates
`

func mustMerge(t *testing.T, text, undo string, want Wanted) (string, string) {
	t.Helper()
	merged, newUndo, err := Merge(text, undo, want)
	check.NoError(t, err)
	return merged, newUndo
}

// TestRemoveAfterEdits edits the merged text by replacing one part of it, and the original by
// what that must come to.
func TestRemoveAfterEdits(t *testing.T) {
	tests := map[string]struct{ edited, by, want, wantBy string }{
		"a comment":                                 {"tiers:", "tiers: # mine", "tiers:", "tiers: # mine"},
		"another switch beside ours":                {"enableReclaimable: false", "enableReclaimable: false\n    enableJobOrder: true", "gang", "gang\n    enableJobOrder: true"},
		"our switch, which stays as it is then":     {"enableReclaimable: false", "enableReclaimable: true", "gang", "gang\n    enableReclaimable: true"},
		"our switch, away":                          {"    enableReclaimable: false\n", "", "", ""},
		"an action behind ours":                     {"cardreclaim", "cardreclaim, preempt", "backfill", "backfill, preempt"},
		"an action before ours":                     {"backfill", "preempt, backfill", "backfill", "preempt, backfill"},
		"our action, away":                          {", cardreclaim", "", "", ""},
		"our argument, gone with the entry":         {"cardUnlimitedCpuMemory: true", "cardUnlimitedCpuMemory: false", "", ""},
		"an argument in our entry, gone with it":    {"cardUnlimitedCpuMemory: true", "nodeOrderWeight: 2", "", ""},
		"the plugin that we removed is back":        {"  - name: predicates", "  - name: proportion\n  - name: predicates", "  # by weight\n  - name: proportion\n    arguments:\n      x: 1   # kept\n", "  - name: proportion\n"},
		"its neighbour is gone":                     {"  - name: predicates", "  - name: binpack", "  - name: predicates", "  - name: binpack"},
		"a plugin before it":                        {"  - name: predicates", "  - name: drf\n  - name: predicates", "  - name: predicates", "  - name: predicates"},
		"the text is written anew without our work": {"*", simpleText, "*", simpleText},
	}
	merged, undo := mustMerge(t, simpleText, "", tide(CardReclaim))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			edited, want := strings.Replace(merged, tc.edited, tc.by, 1), strings.Replace(simpleText, tc.want, tc.wantBy, 1)
			if tc.edited == "*" {
				edited, want = tc.by+"# anew\n", tc.wantBy+"# anew\n"
			}
			if name == "a plugin before it" {
				want = strings.Replace(simpleText, "- plugins:\n  #", "- plugins:\n  - name: drf\n  #", 1)
			}
			restored, err := Remove(edited, undo)
			check.NoError(t, err)
			if name == "its neighbour is gone" {
				want = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: binpack\n  # by weight\n  - name: proportion\n    arguments:\n      x: 1   # kept\n"
			}
			check.Equal(t, "restored", want, restored)
		})
	}
}

func TestMergeCorrectsDrift(t *testing.T) {
	merged, undo := mustMerge(t, simpleText, "", tide(CardReclaim))
	for name, edit := range map[string][2]string{
		"a switch on":              {"enableReclaimable: false", "enableReclaimable: true"},
		"a switch away":            {"    enableReclaimable: false\n", ""},
		"the action away":          {", cardreclaim", ""},
		"the other action":         {"cardreclaim", "reclaim"},
		"an argument away":         {"      cardUnlimitedCpuMemory: true\n", ""},
		"an argument changed":      {"cardUnlimitedCpuMemory: true", "cardUnlimitedCpuMemory: false"},
		"the removed plugin back":  {"  - name: predicates", "  - name: predicates\n  - name: proportion"},
		"overcommit in a new tier": {"- plugins:\n  - name: predicates", "- plugins:\n  - name: overcommit\n- plugins:\n  - name: predicates"},
		"a gate off":               {"capacity-card\n", "capacity-card\n    enablePredicate: false\n"},
	} {
		t.Run(name, func(t *testing.T) {
			drifted := strings.Replace(merged, edit[0], edit[1], 1)
			changes, err := Changes(drifted, undo, tide(CardReclaim))
			check.That(t, err == nil && len(changes) != 0 && len(changes) <= 2, "changes %q, error %v, want one or two", changes, err)
			corrected, newUndo := mustMerge(t, drifted, undo, tide(CardReclaim))
			want := decode(t, merged)
			if name == "a gate off" {
				card(want)["enablePredicate"] = true
			}
			check.Equal(t, "not corrected", want, decode(t, corrected))
			again, undoAgain := mustMerge(t, corrected, newUndo, tide(CardReclaim))
			check.That(t, again == corrected && undoAgain == newUndo, "a second merge changes it again")
		})
	}
}

func TestMergeLeavesEditsThatHarmNothing(t *testing.T) {
	merged, undo := mustMerge(t, simpleText, "", tide(CardReclaim))
	for t, edit := range check.Cases(t, map[string][2]string{
		"a comment in our entry":       {"arguments:\n      card", "arguments: # by the operator\n      card"},
		"another argument beside ours": {"      cardUnl", "      nodeOrderWeight: 2\n      cardUnl"},
		"our action moved":             {"backfill, cardreclaim", "cardreclaim, backfill"},
		"another plugin":               {"  - name: predicates", "  - name: predicates\n  - name: nodeorder"},
		"the order of keys":            {"- name: gang\n    enableReclaimable: false", "- enableReclaimable: false\n    name: gang"},
	}) {
		edited := strings.Replace(merged, edit[0], edit[1], 1)
		check.Must(t, edited != merged, "nothing was edited")
		again, newUndo := mustMerge(t, edited, undo, tide(CardReclaim))
		check.Equal(t, "changed", edited, again)
		_, last := mustMerge(t, again, newUndo, tide(CardReclaim))
		check.That(t, last == newUndo, "the record changes once more")
	}
}

// TestUpgradeOfVolcano puts the text of another version in the place of the merged one, as Helm
// does: what was removed from the old text has no place in the new one.
func TestUpgradeOfVolcano(t *testing.T) {
	texts, _ := goldens(t)
	for _, from := range []string{"helm_1_3", "helm_1_8", "helm_ci_1_14", "built_in_1_14"} {
		for _, to := range []string{"helm_1_10", "helm_1_14", "helm_ci_1_14", "helm_1_3"} {
			t.Run(from+" to "+to, func(t *testing.T) {
				_, undo := mustMerge(t, texts[from], "", tide(CardReclaim))
				if restored, err := Remove(texts[to], undo); err != nil || restored != texts[to] {
					t.Errorf("removed: error %v\n%s", err, cmp.Diff(texts[to], restored))
				}
				merged, newUndo := mustMerge(t, texts[to], undo, tide(CardReclaim))
				fresh, freshUndo := mustMerge(t, texts[to], "", tide(CardReclaim))
				if merged != fresh || newUndo != freshUndo {
					t.Errorf("merged as if it were the old text:\n%s\n%s", cmp.Diff(fresh, merged), cmp.Diff(freshUndo, newUndo))
				}
			})
		}
	}
}

func TestEntryThatOthersMovedStaysThere(t *testing.T) {
	merged, undo := mustMerge(t, simpleText, "", Wanted{Reclaim: CardReclaim})
	moved := strings.Replace(merged, "  - name: capacity-card\n", "", 1) + "  - name: capacity-card\n    arguments: {nodeOrderWeight: 2}\n"
	again, newUndo := mustMerge(t, moved, undo, Wanted{Reclaim: CardReclaim})
	check.Equal(t, "changed", moved, again)
	switched, newUndo := mustMerge(t, again, newUndo, Wanted{Reclaim: "reclaim"})
	want := strings.Replace(strings.Replace(moved, "cardreclaim", "reclaim", 1), "enableReclaimable: false", "enableReclaimable: false\n    enableJobStarving: false", 1)
	check.Equal(t, "switched", want, switched)
	restored, err := Remove(switched, newUndo)
	check.That(t, err == nil && restored == simpleText, "removed: error %v\n%s", err, restored)
}

// TestGangStarvesOnlyForReclaim: the switch follows the action, unless it was written by hand.
func TestGangStarvesOnlyForReclaim(t *testing.T) {
	starving := func(text string) bool { return strings.Contains(text, "enableJobStarving: false") }
	text, undo := mustMerge(t, simpleText, "", tide("reclaim"))
	check.That(t, starving(text), "reclaim without it")
	text, undo = mustMerge(t, text, undo, tide(CardReclaim))
	check.That(t, !starving(text), "cardreclaim with it")
	text, _ = mustMerge(t, text, undo, tide("reclaim"))
	check.That(t, starving(text), "reclaim again, without it")
	hand := strings.Replace(simpleText, "gang\n", "gang\n    enableJobStarving: false\n", 1)
	text, undo = mustMerge(t, hand, "", tide("reclaim"))
	text, _ = mustMerge(t, text, undo, tide(CardReclaim))
	check.That(t, starving(text), "what was written by hand is gone")
}

func TestArgumentsThatAreNoLongerWantedGoBack(t *testing.T) {
	text := plugins("  - name: capacity-card", "    arguments:", "      nodeOrderWeight: 3   # mine", "      overCommitFactor: 1.0", "  - name: gang")
	merged, undo := mustMerge(t, text, "", Wanted{Arguments: map[string]any{"nodeOrderWeight": 2, "overCommitFactor": 1, "cardUnlimitedCpuMemory": true}})
	want := strings.Replace(strings.Replace(text, "Weight: 3", "Weight: 2", 1), "1.0\n", "1.0\n      cardUnlimitedCpuMemory: true\n", 1) + "    enableReclaimable: false\n"
	check.Equal(t, "merged", want, merged)
	merged, _ = mustMerge(t, merged, undo, Wanted{})
	check.Equal(t, "without them", text+"    enableReclaimable: false\n", merged)
}
