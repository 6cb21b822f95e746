package schedulerconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cardquota.dev/operator/internal/testing/check"
)

// known is a scheduler with Volcano's own actions and plugins, and capacity-card. It refuses action shuffle, and an
// argument overCommitFactor below 1.
func known() Known {
	return Known{
		Actions:        VolcanoActions(),
		Plugins:        append(VolcanoPlugins(), CapacityCard),
		RefusedActions: map[string]string{"shuffle": "it evicts blindly"},
		ValidateArguments: func(arguments map[string]any) error {
			var errs []error
			if factor, set := arguments["overCommitFactor"]; set {
				if n, ok := factor.(int); !ok || n < 1 {
					errs = append(errs, fmt.Errorf("overCommitFactor is %v: write a number not below 1", factor))
				}
			}

			if hash, set := arguments[HashArgument]; set {
				errs = append(errs, fmt.Errorf("%s=%v reached the plugin's rules", HashArgument, hash))
			}
			return errors.Join(errs...)
		},
	}
}

// corpus returns the texts of testdata/valid by file name.
func corpus(t testing.TB) map[string]string {
	files, err := filepath.Glob("testdata/valid/*.yaml")
	check.Must(t, err == nil && len(files) != 0, "no corpus: %v", err)
	texts := map[string]string{}
	for _, file := range files {
		texts[strings.TrimSuffix(filepath.Base(file), ".yaml")] = string(check.Value(os.ReadFile(file))(t))
	}
	return texts
}

// TestValidateAcceptsWorkingConfigurations: Volcano reads each text of testdata/valid as its author means it. The
// texts have many ways to write YAML. Validate accepts them all.
func TestValidateAcceptsWorkingConfigurations(t *testing.T) {
	for t, text := range check.Cases(t, corpus(t)) {
		check.NoError(t, Validate(text, known()))
	}
}

// TestValidateAcceptsAnyArgumentsWithoutRules: the operator writes the configuration and does not contain the plugin,
// which alone has rules for its arguments. So the operator accepts an overCommitFactor of 0, which the plugin
// refuses.
func TestValidateAcceptsAnyArgumentsWithoutRules(t *testing.T) {
	withoutRules := known()
	withoutRules.ValidateArguments = nil
	check.NoError(t, Validate(withArguments("overCommitFactor: 0"), withoutRules))
}

// withPlugins is a text with the given lines as the plugins of its only tier, from line 4 on, indented by the caller.
func withPlugins(lines ...string) string {
	return "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n" + strings.Join(lines, "\n") + "\n"
}

// withArguments is a text with one line of capacity-card arguments, in line 6.
func withArguments(line string) string {
	return withPlugins("  - name: capacity-card", "    arguments:", "      "+line)
}

// withLines is a good text with more lines at its top level, from line 5 on.
func withLines(lines ...string) string {
	return withPlugins("  - name: capacity-card") + strings.Join(lines, "\n") + "\n"
}

// What Render says about a text that Validate refuses, beside a text of its own.
const (
	sameFault = "the first fault that Validate finds"
	mended    = "" // Render replaces what is wrong
)

// TestValidateRefusesTextsThatVolcanoMisreads: Volcano ignores what it does not know in its configuration, or
// exits. Both would leave quotas without enforcement, and the author would not notice. So Validate refuses a
// text in which a word has no effect. It names all faults in their order, each with its line and what to write.
// Helper withPlugins writes its lines from line 4 on, withLines from line 5 on, withArguments line 6. Render,
// which makes the configuration from such a text, refuses it too, unless the fault is in what it replaces:
// shuffle, capacity, proportion, capacity-card. Such rows have "mended", and their rendering is not tested
// here. Rows with "sameFault" want the first fault from Render too. In all other rows Render has a message of
// its own. The scheduler of this test refuses action shuffle, and an overCommitFactor below 1.
func TestValidateRefusesTextsThatVolcanoMisreads(t *testing.T) {
	const card = "  - name: capacity-card"

	for t, tc := range check.Cases(t, map[string]struct {
		text   string
		want   []string // one per fault, in order, each a part of its message
		render string   // what Render says
	}{
		"an empty text": {
			"",
			[]string{"the text is empty"}, sameFault,
		},
		"blanks only": {
			" \n\n",
			[]string{"the text is empty"}, sameFault,
		},
		"comments only": {
			"# later\n",
			[]string{"the text is empty"}, sameFault,
		},
		"broken YAML": {
			"actions: \"allocate\ntiers: []\n",
			[]string{"the text is not YAML: yaml: line"}, sameFault,
		},
		"a tab as indentation": {
			"actions: a\ntiers:\n\t- plugins: []\n",
			[]string{"the text is not YAML: yaml: line 3"}, sameFault,
		},
		"a list at the top": {
			"- actions\n",
			[]string{"the text is not a mapping"}, sameFault,
		},
		"a word at the top": {
			"allocate\n",
			[]string{"the text is not a mapping"}, sameFault,
		},
		"null at the top": {
			"null\n",
			[]string{"the text is not a mapping"}, sameFault,
		},
		"a second document": {
			withLines("---", "actions: preempt"),
			[]string{"goes on after its first YAML document"}, sameFault,
		},
		"an empty second document": {
			withLines("---"),
			[]string{"goes on after its first YAML document"}, sameFault,
		},
		"a second document that is open": {
			withLines("---", "\"open"),
			[]string{"the text is not YAML: yaml: line"}, sameFault,
		},
		"a duplicate key at the top": {
			withLines("actions: allocate"),
			[]string{`line 5: key "actions" is repeated, first in line 1`}, sameFault,
		},
		"a duplicate key in arguments": {
			withPlugins(card, "    arguments:", "      overCommitFactor: 1", "      overCommitFactor: 2"),
			[]string{`line 7: key "overCommitFactor" is repeated, first in line 6`}, sameFault,
		},
		"a duplicate switch": {
			withPlugins(card, "    enableJobOrder: true", "    enableJobOrder: false"),
			[]string{`line 6: key "enableJobOrder" is repeated`}, sameFault,
		},
		"an anchor": {
			withPlugins("  - &card", "    name: capacity-card"),
			[]string{"line 4: anchor &card: remove it"}, sameFault,
		},
		"an anchor and its alias": {
			withPlugins("  - &g {name: gang}", "  - *g", card),
			[]string{"line 4: anchor &g", "line 5: alias *g: write the value out"}, sameFault,
		},
		"a merge key": {
			withPlugins(card, "    <<: {enableJobOrder: true}"),
			[]string{`line 5: unknown key "<<" in plugin capacity-card`}, mended,
		},
		"a tag": {
			"actions: !!str allocate\ntiers: []\n",
			[]string{"line 1: tag !!str: remove it"}, sameFault,
		},
		"an unknown key at the top": {
			withLines("tier: []"),
			[]string{`line 5: unknown key "tier" in the text: known are `}, sameFault,
		},
		"an unknown key that is near to none": {
			withLines("xyzxyzxyz: 1"),
			[]string{"known are actions, tiers, configurations, metrics"}, sameFault,
		},
		"a key that is a list": {
			withLines("? [a]", ": 1"),
			[]string{"line 5: a key of the text is not a word"}, sameFault,
		},
		"actions are missing": {
			"tiers:\n- plugins:\n  - name: capacity-card\n",
			[]string{"line 1: actions is missing: write for example"}, sameFault,
		},
		"actions are null": {
			"actions:\ntiers:\n- plugins:\n  - name: capacity-card\n",
			[]string{"actions is missing"}, sameFault,
		},
		"actions are blank": {
			"actions: \" \"\ntiers:\n- plugins:\n  - name: capacity-card\n",
			[]string{"line 1: actions is empty"}, "actions has a comma without an action",
		},
		"actions are a list": {
			"actions: [enqueue, allocate]\ntiers:\n- plugins:\n  - name: capacity-card\n",
			[]string{"line 1: actions is not one text"}, sameFault,
		},
		"actions are a number": {
			"actions: 7\ntiers:\n- plugins:\n  - name: capacity-card\n",
			[]string{"actions is not one text"}, sameFault,
		},
		"a misspelt action": {
			strings.Replace(withPlugins(card), "allocate", "alocate", 1),
			[]string{`line 1: unknown action "alocate": known are `}, sameFault,
		},
		"an action of another scheduler": {
			strings.Replace(withPlugins(card), "backfill", "gangreclaim", 1),
			[]string{`unknown action "gangreclaim": known are enqueue, allocate`}, `unknown action "gangreclaim"`,
		},
		"an action that must not run": {
			strings.Replace(withPlugins(card), "backfill", "shuffle", 1),
			[]string{`action "shuffle" is not allowed: it evicts blindly`}, mended,
		},
		"an action in capitals": {
			strings.Replace(withPlugins(card), "backfill", "Backfill", 1),
			[]string{`unknown action "Backfill": known are `}, sameFault,
		},
		"two misspelt actions": {
			strings.Replace(withPlugins(card), "enqueue, allocate", "enqeue, alocate", 1),
			[]string{`"enqeue"`, `"alocate"`}, sameFault,
		},
		"actions with two commas side by side": {
			strings.Replace(withPlugins(card), "enqueue,", "enqueue,,", 1),
			[]string{"actions has a comma without an action"}, sameFault,
		},
		"actions that end with a comma": {
			strings.Replace(withPlugins(card), "backfill", "backfill,", 1),
			[]string{"actions has a comma without an action"}, sameFault,
		},
		"tiers are missing": {
			"actions: allocate\n",
			[]string{"plugin capacity-card is missing, so no card quota would be enforced"}, "line 1: tiers is missing or empty",
		},
		"tiers are a mapping": {
			"actions: allocate\ntiers: {plugins: []}\n",
			[]string{"line 2: tiers is not a list", "capacity-card is missing"}, sameFault,
		},
		"a tier that is a word": {
			"actions: allocate\ntiers:\n- gang\n",
			[]string{"line 3: an entry of tiers is not a mapping: write - plugins", "capacity-card is missing"}, sameFault,
		},
		"a tier without plugins": {
			"actions: allocate\ntiers:\n- {}\n- plugins:\n  - name: capacity-card\n",
			[]string{"line 3: a tier without plugins"}, sameFault,
		},
		"a tier with an empty list of plugins": {
			"actions: allocate\ntiers:\n- plugins: []\n- plugins:\n  - name: capacity-card\n",
			[]string{"line 3: a tier without plugins"}, sameFault,
		},
		"an unknown key in a tier": {
			"actions: allocate\ntiers:\n- plugin:\n  - name: capacity-card\n",
			[]string{`line 3: unknown key "plugin" in a tier: known are `, "a tier without plugins", "capacity-card is missing"},
			"a tier without plugins",
		},
		"plugins are a mapping": {
			"actions: allocate\ntiers:\n- plugins: {name: capacity-card}\n",
			[]string{"line 3: plugins is not a list", "capacity-card is missing"}, sameFault,
		},
		"a plugin that is a word": {
			withPlugins("  - gang", card),
			[]string{"line 4: an entry of plugins is not a mapping: write - name"}, sameFault,
		},
		"a plugin without name": {
			withPlugins("  - enableJobOrder: true", card),
			[]string{"line 4: a plugin without a name"}, sameFault,
		},
		"a plugin named by a number": {
			withPlugins("  - name: 4", card),
			[]string{"line 4: a plugin without a name"}, sameFault,
		},
		"a misspelt plugin": {
			withPlugins("  - name: nodeordr", card),
			[]string{`line 4: unknown plugin "nodeordr": known are `}, sameFault,
		},
		"an unknown plugin": {
			withPlugins("  - name: zzzzzzzzzzzz", card),
			[]string{`unknown plugin "zzzzzzzzzzzz": known are binpack`}, sameFault,
		},
		"capacity-card misspelt": {
			withPlugins("  - name: capacitycard"),
			[]string{`line 4: unknown plugin "capacitycard": known are `, "capacity-card is missing"}, sameFault,
		},
		"the stock configuration, with proportion and without capacity-card": {
			withPlugins("  - name: gang", "  - name: proportion"),
			[]string{"line 5: plugin proportion accounts for the same queues", "capacity-card is missing"}, mended,
		},
		"plugin capacity beside capacity-card": {
			withPlugins(card, "  - name: capacity"),
			[]string{"line 5: plugin capacity accounts for the same queues as capacity-card"}, mended,
		},
		"plugin proportion beside capacity-card": {
			withPlugins(card, "  - name: proportion"),
			[]string{"line 5: plugin proportion accounts"}, mended,
		},
		"capacity-card twice in a tier": {
			withPlugins(card, card),
			[]string{"line 5: plugin capacity-card is repeated, first in line 4: remove one"}, mended,
		},
		"capacity-card in two tiers": {
			withPlugins(card, "- plugins:", card),
			[]string{"line 6: plugin capacity-card is repeated, first in line 4"}, mended,
		},
		"gang twice": {
			withPlugins("  - name: gang", card, "  - name: gang"),
			[]string{"line 6: plugin gang is repeated"}, sameFault,
		},
		"a switch that begins with enabled, where Volcano has enableReclaimable": {
			withPlugins(card, "    enabledReclaimable: true"),
			[]string{`line 5: unknown key "enabledReclaimable" in plugin capacity-card: known are `}, mended,
		},
		"a switch that begins with enable, where Volcano has enabledAllocatable": {
			withPlugins(card, "    enableAllocatable: true"),
			[]string{`line 5: unknown key "enableAllocatable" in plugin capacity-card: known are `}, mended,
		},
		"a switch with enable, where Volcano has EnabledClusterOrder": {
			withPlugins("  - name: drf", "    enableClusterOrder: true", card),
			[]string{`line 5: unknown key "enableClusterOrder" in plugin drf: known are `}, sameFault,
		},
		"argument instead of arguments": {
			withPlugins(card, "    argument: {}"),
			[]string{`line 5: unknown key "argument" in plugin capacity-card: known are `}, mended,
		},
		"an argument that is not below arguments": {
			withPlugins(card, "    overCommitFactor: 2"),
			[]string{`line 5: unknown key "overCommitFactor" in plugin capacity-card`}, mended,
		},
		"a switch that is yes, a text in YAML 1.2": {
			withPlugins("  - name: gang", "    enableJobOrder: yes", card),
			[]string{"line 5: enableJobOrder of plugin gang is not a switch: write true or false"}, sameFault,
		},
		"a switch in quotes": {
			withPlugins("  - name: gang", "    enableJobOrder: \"false\"", card),
			[]string{"line 5: enableJobOrder of plugin gang is not a switch"}, sameFault,
		},
		"a switch that is a number": {
			withPlugins("  - name: gang", "    enableJobOrder: 0", card),
			[]string{"is not a switch"}, sameFault,
		},
		"a switch that is a list": {
			withPlugins("  - name: gang", "    enableJobOrder: [true]", card),
			[]string{"is not a switch"}, sameFault,
		},
		"the hook that checks quota before a pod is allocated is off": {
			withPlugins(card, "    enabledAllocatable: false"),
			[]string{"line 5: enabledAllocatable: false would let pods exceed their quota"}, mended,
		},
		"the hook that checks quota on each node is off": {
			withPlugins(card, "    enablePredicate: false"),
			[]string{"line 5: enablePredicate: false would let pods exceed their quota"}, mended,
		},
		"a hierarchy as a switch, which capacity-card does not read": {
			withPlugins(card, "    enableHierarchy: true"),
			[]string{"line 5: enableHierarchy has no effect at capacity-card: write queueHierarchy: Tree below its arguments"}, mended,
		},
		"arguments are a list": {
			withPlugins(card, "    arguments: [overCommitFactor]"),
			[]string{"line 5: arguments is not a mapping"}, mended,
		},
		"arguments of gang that are a word": {
			withPlugins("  - name: gang", "    arguments: none", card),
			[]string{"line 5: arguments is not a mapping"}, sameFault,
		},
		"an argument key that is a number": {
			withPlugins(card, "    arguments:", "      1: 2"),
			[]string{`line 6: argument key "1" is not a word`}, mended,
		},
		"an argument that the plugin refuses": {
			withArguments("overCommitFactor: 0"),
			[]string{"line 6: arguments of capacity-card: overCommitFactor is 0"}, mended,
		},
		"a hash that the author has written": {
			withArguments("configHash: abc"),
			[]string{"line 6: argument configHash is written by the scheduler itself"}, mended,
		},
		"configurations are a mapping": {
			withLines("configurations: {name: enqueue}"),
			[]string{"line 5: configurations is not a list"}, sameFault,
		},
		"a configuration that is a word": {
			withLines("configurations: [enqueue]"),
			[]string{"line 5: an entry of configurations is not a mapping: write - name"}, sameFault,
		},
		"a configuration without name": {
			withLines("configurations:", "- arguments: {}"),
			[]string{"line 6: an entry of configurations without a name"}, sameFault,
		},
		"a configuration of a plugin": {
			withLines("configurations:", "- name: gang"),
			[]string{`line 6: unknown action "gang" in configurations`}, sameFault,
		},
		"an unknown key in a configuration": {
			withLines("configurations:", "- name: enqueue", "  argument: {}"),
			[]string{`line 7: unknown key "argument" in an entry of configurations: known are `}, sameFault,
		},
		"a configuration whose arguments are a number": {
			withLines("configurations:", "- name: enqueue", "  arguments: 3"),
			[]string{"line 7: arguments is not a mapping"}, sameFault,
		},
		"metrics are a word": {
			withLines("metrics: prometheus"),
			[]string{"line 5: metrics is not a mapping"}, sameFault,
		},
		"an unknown metrics key": {
			withLines("metrics:", "  addr: a"),
			[]string{`line 6: unknown key "addr" in metrics: known are type, address`}, sameFault,
		},
		"a metrics value that is a list": {
			withLines("metrics:", "  type: [prometheus]"),
			[]string{`line 6: metrics "type" is not a text`}, sameFault,
		},
		"faults on every level": {
			"action: allocate\ntiers:\n- plugins:\n  - name: gangg\n    enableJobOder: true\n",
			[]string{`"action"`, "actions is missing", `"enableJobOder"`, `"gangg"`, "capacity-card is missing"}, sameFault,
		},
	}) {
		switch tc.render {
		case mended:
		case sameFault:
			assertRenderRefuses(t, tc.text, tc.want[0])
		default:
			assertRenderRefuses(t, tc.text, tc.render)
		}

		err := Validate(tc.text, known())
		check.Must(t, err != nil, "accepted:\n%s", tc.text)

		faults := strings.Split(err.Error(), "\n")
		check.Must(t, len(faults) == len(tc.want), "got %d faults, want %d:\n%v", len(faults), len(tc.want), err)
		for i, want := range tc.want {
			check.Contains(t, fmt.Sprintf("fault %d", i), faults[i], want)
		}
	}
}
