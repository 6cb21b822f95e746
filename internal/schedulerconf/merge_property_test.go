package schedulerconf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// wanteds draws what policies want.
func wanteds() *rapid.Generator[Wanted] {
	return rapid.Custom(func(t *rapid.T) Wanted {
		want := Wanted{Reclaim: rapid.SampledFrom([]string{CardReclaim, "reclaim", ""}).Draw(t, "reclaim"), Preempt: rapid.Bool().Draw(t, "preempt"), Plugins: []string{"rack-power"}}
		arguments := map[string][]any{
			"cardUnlimitedCpuMemory": {true, false},
			"overCommitFactor":       {1, 1.5},
			"unmanagedQueues":        {"Ignore", "on", "1e3", "# x", ""},
			"serviceTypes":           {map[string]any{}, map[string]any{"a": map[string]any{"reclaimFrom": []string{"b"}}, "b": map[string]any{"reclaimable": true}}},
			"list":                   {[]string{}, []string{"no", "12:30"}},
		}
		for _, key := range slices.Sorted(maps.Keys(arguments)) { // in one order, so that a failure can be played again
			values := arguments[key]
			if i := rapid.IntRange(0, 2*len(values)).Draw(t, key); i < len(values) {
				if want.Arguments == nil {
					want.Arguments = map[string]any{}
				}
				want.Arguments[key] = values[i]
			}
		}
		return want
	})
}

func TestMergeIsExactOnAnyText(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text, want := configurations().Draw(t, "text"), wanteds().Draw(t, "wanted")
		merged, undo, err := Merge(text, "", want)
		check.Must(t, err == nil, "%v in\n%s", err, text)
		assertMerge(t, text, "", merged, undo, want)
		assertRemovedAfterEdit(t, text, merged, undo)
		assertCommentsKept(t, text, merged, undo)
	})
}

// assertCommentsKept looks for each comment in the merged text, once, or in what was taken out.
func assertCommentsKept(t check.T, text, merged, undo string) {
	r, err := readRecord(undo)
	check.Must(t, err == nil, "%v", err)
	taken := ""
	for _, c := range r.changes() {
		taken += c.Before + "\n"
	}
	for i := 1; strings.Contains(text, fmt.Sprintf("c%d;", i)); i++ {
		comment := fmt.Sprintf("c%d;", i)
		n := strings.Count(merged, comment)
		check.Must(t, n <= 1 && (n != 0 || strings.Contains(taken, comment)),
			"comment %s stands %d times\nfrom\n%s\nto\n%s", comment, n, text, merged)
	}
}

func TestRemoveIsExactAfterManyMerges(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := configurations().Draw(t, "text")
		merged, undo := text, ""
		for _, want := range rapid.SliceOfN(wanteds(), 1, 5).Draw(t, "wanted") {
			before := merged
			var err error
			merged, undo, err = Merge(before, undo, want)
			check.Must(t, err == nil, "%v in\n%s", err, before)
			assertMerge(t, text, "", merged, undo, want)
		}
		if restored, err := Remove(merged, undo); err != nil || restored != text {
			t.Fatalf("error %v\n%s", err, cmp.Diff(text, restored))
		}
	})
}

// edits are changes that others make, to a text with our changes and to one without alike.
var edits = map[string]func(value map[string]any){
	"a new section":        func(v map[string]any) { v["metrics"] = map[string]any{"type": "none"} },
	"an action before all": func(v map[string]any) { v["actions"] = "elect, " + v["actions"].(string) },
	"an action after all":  func(v map[string]any) { v["actions"] = v["actions"].(string) + ", elect" },
	"a plugin in the last tier": func(v map[string]any) {
		tiers := v["tiers"].([]any)
		last := tiers[len(tiers)-1].(map[string]any)
		last["plugins"] = append(last["plugins"].([]any), map[string]any{"name": "sla", "arguments": map[string]any{"x": 1}})
	},
	"a tier at the end": func(v map[string]any) {
		v["tiers"] = append(v["tiers"].([]any), map[string]any{"plugins": []any{map[string]any{"name": "usage"}}})
	},
	"another switch of every plugin": func(v map[string]any) { eachPlugin(v, func(p map[string]any) { p["enableQueueOrder"] = true }) },
	"arguments of gang": func(v map[string]any) {
		eachPlugin(v, func(p map[string]any) {
			if p["name"] == "gang" {
				p["arguments"] = map[string]any{"y": []any{1, "2"}}
			}
		})
	},
}

func eachPlugin(value map[string]any, do func(map[string]any)) {
	for _, tier := range value["tiers"].([]any) {
		for _, plugin := range tier.(map[string]any)["plugins"].([]any) {
			if p := plugin.(map[string]any); p["name"] != CapacityCard && !isOutsider(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{word("name"), word(p["name"].(string))}}) {
				do(p)
			}
		}
	}
}

// TestEditsOfOthersStay edits the merged text and writes it anew, so that nothing of its form
// is left, and compares what Remove makes of it with the same edits of the original.
func TestEditsOfOthersStay(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text, want := configurations().Draw(t, "text"), wanteds().Draw(t, "wanted")
		merged, undo, err := Merge(text, "", want)
		check.Must(t, err == nil, "%v in\n%s", err, text)
		original, now := decode(t, text), decode(t, merged)
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"a new section", "an action before all", "an action after all", "a plugin in the last tier", "a tier at the end", "another switch of every plugin", "arguments of gang",
		}), 1, 7, rapid.ID).Draw(t, "edits") {
			edits[name](original)
			edits[name](now)
		}
		written, err := yaml.Marshal(now)
		check.NoError(t, err)
		restored, err := Remove(string(written), undo)
		check.Must(t, err == nil, "%v in\n%s", err, written)
		diff := cmp.Diff(shape(original), shape(decode(t, restored)))
		check.Must(t, diff == "", "(-original with edits +removed):\n%s\noriginal\n%s\nmerged\n%s\nedited\n%s", diff, text, merged, written)
	})
}

// shape leaves out what edits beside ours leave open: the place of what comes back among the
// new, and how often an action that stood several times comes back.
func shape(value map[string]any) map[string]any {
	plugins := map[string]any{}
	for _, tier := range value["tiers"].([]any) {
		for _, plugin := range tier.(map[string]any)["plugins"].([]any) {
			plugins[plugin.(map[string]any)["name"].(string)] = plugin
		}
	}
	value["tiers"] = plugins
	value["actions"] = slices.Compact(slices.Sorted(slices.Values(splitActions(value["actions"].(string)))))
	return value
}
