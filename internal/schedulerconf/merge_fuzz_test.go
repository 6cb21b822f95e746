package schedulerconf

import (
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// FuzzMerge looks for texts that Merge alters beyond what is wanted, cannot restore, or breaks
// on.
func FuzzMerge(f *testing.F) {
	texts, _ := goldens(f)
	for _, text := range texts {
		for mode := range uint8(3) {
			f.Add(text, mode)
		}
	}
	for _, text := range []string{
		"? actions\n: allocate\n? tiers\n: - plugins:\n    - name: gang\n", "tiers: [{plugins: [{name: gang}]}]\nactions: allocate\n...\n",
		"--- # d\nactions: |\n  allocate\ntiers:\n-\n  plugins:\n  -\n    name: gang\n", "actions: \"allo\\\n  cate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: capacity-card\n    arguments: {\n      # c\n    }\n",
		"actions: allocate\r tiers:\n", "\ufeffactions: allocate\ntiers:\n- plugins:\n  - {name: proportion}\n", "actions: allocate\ntiers:\n- plugins:\n  - name: drf\n    arguments: {a: {? b : c}}\n",
	} {
		f.Add(text, uint8(1))
	}
	f.Fuzz(func(t *testing.T, text string, mode uint8) {
		want := tide([]string{CardReclaim, "reclaim", ""}[mode%3])
		merged, undo, err := Merge(text, "", want)
		if err != nil {
			check.Must(t, merged == "" && undo == "", "a text came out with the error %v:\n%s", err, merged)
			return
		}
		assertMerge(t, text, "", merged, undo, want)
		assertRemovedAfterEdit(t, text, merged, undo)
	})
}

// FuzzRemove looks for texts and records that break Remove and Merge.
func FuzzRemove(f *testing.F) {
	texts, wanted := goldens(f)
	for name, text := range texts {
		merged, undo, err := Merge(text, "", wanted[name])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(merged+"# edited\n", undo)
		f.Add(text, undo)
		f.Add(text, strings.ReplaceAll(undo, `"before":"- name`, `"before":"- nome`)) // by somebody else's hand
	}
	f.Add("tiers:\n- plugins: []\nactions: x\n", `{"changes":[{"kind":"tier","before":"- plugins: [{name: a}]","tier":-9,"next":"b"},{"kind":"removed","plugin":"x","before":"- name: x","tier":7},{"kind":"made","plugin":"x"}]}`)
	f.Fuzz(func(t *testing.T, text, undo string) {
		restored, err := Remove(text, undo)
		check.Must(t, err == nil || restored == "", "a text came out with the error %v:\n%s", err, restored)
		merged, newUndo, err := Merge(text, undo, tide(CardReclaim))
		if err != nil {
			return
		}
		if err := Validate(merged, Shipped()); err != nil {
			t.Fatalf("not valid: %v\n%s", err, merged)
		}
		if again, undoAgain, err := Merge(merged, newUndo, tide(CardReclaim)); err != nil || again != merged || undoAgain != newUndo {
			t.Fatalf("merged again: error %v\n%s\n%s\n%s", err, merged, again, undoAgain)
		}
	})
}
