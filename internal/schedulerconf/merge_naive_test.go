package schedulerconf

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"cardquota.dev/operator/internal/testing/check"
)

// assertMerge checks a merge of a text that carries the record undo of earlier ones, with the
// plain decoder and the rules written down anew, not with the code under test.
func assertMerge(t check.T, original, earlier, merged, undo string, want Wanted) {
	if err := Validate(merged, want.known()); err != nil {
		t.Fatalf("not valid: %v\n%s", err, merged)
	}
	after := decode(t, merged)
	assertActions(t, decode(t, original)["actions"].(string), after["actions"].(string), want)
	diff := cmp.Diff(expected(t, original, after["actions"].(string), want), after)
	check.Must(t, diff == "", "meaning (-want +got):\n%s\nfrom\n%s\nto\n%s", diff, original, merged)
	if again, undoAgain, err := Merge(merged, undo, want); err != nil || again != merged || undoAgain != undo {
		t.Fatalf("merged again: error %v\n%s\nrecord\n%s\nbefore\n%s", err, cmp.Diff(merged, again), undoAgain, undo)
	}
	if changes, err := Changes(merged, undo, want); err != nil || len(changes) > 0 {
		t.Fatalf("still to change: %q, error %v", changes, err)
	}
	if earlier != "" {
		return
	}
	if restored, err := Remove(merged, undo); err != nil || restored != original {
		t.Fatalf("removed: error %v\n%s", err, cmp.Diff(original, restored))
	}
}

func assertActions(t check.T, before, after string, want Wanted) {
	was, now := splitActions(before), splitActions(after)
	behindAllocate := func(action string) {
		i := slices.Index(now, action)
		check.Must(t, i < 0 || slices.Contains(now[:i], "allocate") && !slices.Contains(now[i:], "allocate"), "actions %q became %q: allocate is not before %s", before, after, action)
	}
	if want.Preempt {
		check.Must(t, slices.Contains(now, "preempt"), "actions %q became %q, want preempt", before, after)
		behindAllocate("preempt")
		keep := func(a string) bool { return a == "preempt" }
		was, now = slices.DeleteFunc(was, keep), slices.DeleteFunc(now, keep)
	}
	tide := func(a string) bool { return a == "reclaim" || a == "cardreclaim" || a == "shuffle" }
	others := slices.DeleteFunc(slices.Clone(was), tide)
	got := slices.DeleteFunc(slices.Clone(now), tide)
	check.Must(t, slices.Equal(others, got), "actions %q became %q: others changed", before, after)
	reclaim := want.Reclaim
	check.Must(t, len(now)-len(others) <= 1 && (reclaim != "") == (len(now) > len(others)) && (reclaim == "" || slices.Contains(now, reclaim)),
		"actions %q became %q, want exactly %q", before, after, reclaim)
	i := slices.Index(now, reclaim)
	check.Must(t, i < 0 || !slices.Contains(now[i:], "allocate"), "actions %q became %q: allocate behind %s", before, after, reclaim)
}

// expected applies the rules of the merge to a decoded text.
func expected(t check.T, text, actions string, want Wanted) map[string]any {
	value := decode(t, text)
	value["actions"] = actions
	tiers := value["tiers"].([]any)
	if card(value) == nil {
		first := tiers[0].(map[string]any)
		plugins := first["plugins"].([]any)
		at := slices.IndexFunc(plugins, func(p any) bool { return p.(map[string]any)["name"] == "predicates" })
		if at < 0 {
			at = len(plugins)
		}
		first["plugins"] = slices.Insert(plugins, at, any(map[string]any{"name": CapacityCard}))
	}
	kept := []any{}
	for _, tier := range tiers {
		plugins := slices.DeleteFunc(tier.(map[string]any)["plugins"].([]any), func(p any) bool {
			return slices.Contains([]any{"capacity", "proportion", "overcommit"}, p.(map[string]any)["name"])
		})
		for _, p := range plugins {
			expectedSwitches(p.(map[string]any), strings.Contains(actions, "preempt"), want)
		}
		if tier.(map[string]any)["plugins"] = plugins; len(plugins) > 0 {
			kept = append(kept, tier)
		}
	}
	value["tiers"] = kept
	arguments, _ := card(value)["arguments"].(map[string]any)
	if arguments == nil && len(want.Arguments) > 0 {
		arguments = map[string]any{}
		card(value)["arguments"] = arguments
	}
	for key, wanted := range want.Arguments {
		if !sameJSON(arguments[key], wanted) {
			arguments[key] = decode(t, "x: "+toJSON(wanted))["x"]
		}
	}
	return value
}

func expectedSwitches(plugin map[string]any, preempt bool, want Wanted) {
	reclaim := want.Reclaim
	if plugin["name"] == CapacityCard {
		for key, wanted := range map[string]bool{
			"enabledAllocatable": true, "enablePredicate": true, "enablePreemptable": preempt,
			"enableReclaimable": reclaim != "", "enablePreemptive": reclaim != "",
		} {
			if wanted && plugin[key] == false {
				plugin[key] = true
			}
		}
		return
	}
	switch plugin["name"] {
	case "priority", "tdm":
		if preempt {
			plugin["enablePreemptable"] = false
		}
	case "gang", "conformance", "drf", "pdb", "cdp", "extender", "rack-power", "rack-cooling":
		plugin["enableReclaimable"] = false
		if preempt {
			plugin["enablePreemptable"] = false
		}
	}
	if plugin["name"] == "gang" && (reclaim == "reclaim" || want.Preempt) {
		plugin["enableJobStarving"] = false
	}
}

func toJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func sameJSON(a, b any) bool { return toJSON(a) == toJSON(b) }
