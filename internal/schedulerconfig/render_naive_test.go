package schedulerconfig

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cardquota.dev/operator/internal/testing/check"
)

// assertRendered checks what Render made of a base, with the plain decoder and the rules written
// down a second time, not with the code under test:
//
//  1. The text is valid for the scheduler, and begins with the header.
//  2. Actions: reclaim, cardreclaim and shuffle are replaced by the wanted one behind the last allocate, and a wanted
//     preempt is there too. The others stay in their order.
//  3. Capacity-card, with the wanted arguments, stands in the first tier before predicates. The plugins that it
//     replaces are gone, and other plugins have off the switches by which they would choose victims. All else means
//     the same as in the base.
//  4. What was replaced is exactly what the base had and the text has not.
//  5. Rendering the text again changes nothing.
func assertRendered(t check.T, base, rendered string, replaced []string, want Overlay) {
	err := Validate(rendered, Shipped()) // rule 1
	check.Must(t, err == nil, "not valid: %v\n%s", err, rendered)
	check.Must(t, strings.HasPrefix(rendered, "# "+strings.ReplaceAll(header, "\n", "\n# ")+"\n"), "no comment above:\n%s", rendered)

	before := decode(t, base) // rules 2 and 3
	after := decode(t, rendered)
	assertActions(t, before["actions"].(string), after["actions"].(string), want)
	diff := cmp.Diff(expected(t, base, after["actions"].(string), want), after)
	check.Must(t, diff == "", "meaning (-want +got):\n%s\nfrom\n%s\nto\n%s", diff, base, rendered)

	assertNamed(t, before, after, replaced) // rules 4 and 5
	again, _, err := Render(rendered, header, want)
	check.Must(t, err == nil && again == rendered, "rendered again: error %v\n%s", err, cmp.Diff(rendered, again))
}

// assertNamed looks for everything of a base that is not in what was rendered among what is
// named as replaced, and the other way round.
func assertNamed(t check.T, before, after map[string]any, replaced []string) {
	lost := map[string]bool{}
	now := pluginsByName(after)
	for name, plugin := range pluginsByName(before) {
		if name == "capacity" && plugin["enableHierarchy"] == true {
			lost["plugin capacity with enableHierarchy"] = true
			continue
		}
		if now[name] == nil || name == CapacityCard {
			lost["plugin "+name] = true
			continue
		}

		for key, value := range plugin {
			if value != nil && toJSON(value) != toJSON(now[name][key]) {
				lost[key+": true of plugin "+name] = value == true
			}
		}
	}

	for _, action := range splitActions(before["actions"].(string)) {
		if action == CardReclaim || !slices.Contains(splitActions(after["actions"].(string)), action) {
			lost["action "+action] = true
		}
	}

	check.Must(t, cmp.Equal(slices.Sorted(maps.Keys(lost)), replaced, cmpopts.EquateEmpty()), "named as replaced are %q, lost is %v", replaced, lost)
}

func pluginsByName(text map[string]any) map[string]map[string]any {
	plugins := map[string]map[string]any{}
	for _, tier := range text["tiers"].([]any) {
		for _, plugin := range tier.(map[string]any)["plugins"].([]any) {
			plugins[plugin.(map[string]any)["name"].(string)] = plugin.(map[string]any)
		}
	}
	return plugins
}

func splitActions(value string) []string {
	actions := strings.Split(value, ",")
	for i, action := range actions {
		actions[i] = strings.TrimSpace(action)
	}
	return actions
}

func assertActions(t check.T, before, after string, want Overlay) {
	was := splitActions(before)
	now := splitActions(after)
	behindAllocate := func(action string) {
		i := slices.Index(now, action)
		check.Must(t, i < 0 || (slices.Contains(now[:i], "allocate") && !slices.Contains(now[i:], "allocate")),
			"actions %q became %q: allocate is not before %s", before, after, action)
	}

	if want.Preempt {
		check.Must(t, slices.Contains(now, "preempt"), "actions %q became %q, want preempt", before, after)
		behindAllocate("preempt")
		isPreempt := func(a string) bool { return a == "preempt" }
		was = slices.DeleteFunc(was, isPreempt)
		now = slices.DeleteFunc(now, isPreempt)
	}

	isReclaim := func(a string) bool { return a == "reclaim" || a == "cardreclaim" || a == "shuffle" }
	others := slices.DeleteFunc(slices.Clone(was), isReclaim)
	check.Must(t, slices.Equal(others, slices.DeleteFunc(slices.Clone(now), isReclaim)), "actions %q became %q: others changed", before, after)

	reclaim := want.Reclaim
	check.Must(t, len(now)-len(others) <= 1 && (reclaim != "") == (len(now) > len(others)) && (reclaim == "" || slices.Contains(now, reclaim)),
		"actions %q became %q, want exactly %q", before, after, reclaim)

	i := slices.Index(now, reclaim)
	check.Must(t, i < 0 || !slices.Contains(now[i:], "allocate"), "actions %q became %q: allocate behind %s", before, after, reclaim)
}

// expected applies the rules to a decoded base.
func expected(t check.T, base, actions string, want Overlay) map[string]any {
	value := decode(t, base)
	value["actions"] = actions
	kept := []any{}
	for i, tier := range value["tiers"].([]any) {
		plugins := slices.DeleteFunc(tier.(map[string]any)["plugins"].([]any), func(p any) bool {
			return slices.Contains([]any{"capacity", "proportion", "overcommit", CapacityCard}, p.(map[string]any)["name"])
		})
		for _, p := range plugins {
			expectedSwitches(p.(map[string]any), strings.Contains(actions, "preempt"), want)
		}

		if i == 0 {
			at := slices.IndexFunc(plugins, func(p any) bool { return p.(map[string]any)["name"] == "predicates" })
			if at < 0 {
				at = len(plugins)
			}

			card := map[string]any{"name": CapacityCard}
			if len(want.Arguments) > 0 {
				card["arguments"] = decode(t, "x: "+toJSON(want.Arguments))["x"]
			}
			plugins = slices.Insert(plugins, at, any(card))
		}

		tier.(map[string]any)["plugins"] = plugins
		if len(plugins) > 0 {
			kept = append(kept, tier)
		}
	}

	value["tiers"] = kept
	return value
}

func expectedSwitches(plugin map[string]any, preempt bool, want Overlay) {
	reclaim := want.Reclaim
	switch plugin["name"] {
	case "priority", "tdm":
		if preempt {
			plugin["enablePreemptable"] = false
		}
	case "gang", "conformance", "drf", "pdb", "cdp", "extender":
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
