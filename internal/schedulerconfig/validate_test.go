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

// known is a scheduler with Volcano's own names, capacity-card, and one argument rule.
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

func TestValidateAcceptsCorpus(t *testing.T) {
	for name, text := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			err := Validate(text, known())
			check.That(t, err == nil, "refused: %v", err)
		})
	}
}

func TestValidateAcceptsAnyArgumentsWithoutRules(t *testing.T) {
	k := known()
	k.ValidateArguments = nil
	err := Validate(withArguments("overCommitFactor: 0"), k)
	check.That(t, err == nil, "refused: %v", err)
}

// plugins is a text with the given lines as its second tier, indented by the caller.
func plugins(lines ...string) string {
	return "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n" + strings.Join(lines, "\n") + "\n"
}

// withArguments is a text with one line of capacity-card arguments, in line 6.
func withArguments(line string) string {
	return plugins("  - name: capacity-card", "    arguments:", "      "+line)
}

// top is a good text with more lines at its top level, from line 5 on.
func top(lines ...string) string {
	return plugins("  - name: capacity-card") + strings.Join(lines, "\n") + "\n"
}

func TestValidateRefuses(t *testing.T) {
	card := "  - name: capacity-card"
	// Render finds the same first, but for what it mends ("") or finds before. What stands at
	// capacity-card counts for nothing there.
	others := map[string]string{
		"the_stock_configuration": "", "capacity_beside_it": "", "proportion_beside_it": "", "an_action_that_must_not_run": "",
		"the_allocatable_gate_off": "", "a_hierarchy_as_a_switch": "", "the_predicate_gate_off": "", "an_argument_the_plugin_refuses": "",
		"enable_for_enabled": "", "enabled_for_enable": "", "an_argument_key_that_is_a_number": "", "a_hash_of_the_author": "", "a_merge_key": "",
		"arguments_as_a_list": "", "capacity-card_twice": "", "capacity-card_twice_in_tiers": "", "argument_for_arguments": "", "an_argument_beside_its_level": "",
		"no_tiers": "line 1: tiers is missing or empty", "an_unknown_key_in_a_tier": "a tier without plugins",
		"an_action_of_another_scheduler": `unknown action "gangreclaim"`, "empty_actions": "actions has a comma without an action",
	}

	for t, tc := range check.Cases(t, map[string]struct {
		text string
		want []string // one per fault, in order, each a part of its message
	}{
		"an empty text":                      {"", []string{"the text is empty"}},
		"blanks only":                        {" \n\n", []string{"the text is empty"}},
		"comments only":                      {"# later\n", []string{"the text is empty"}},
		"broken YAML":                        {"actions: \"allocate\ntiers: []\n", []string{"the text is not YAML: yaml: line"}},
		"a tab as indentation":               {"actions: a\ntiers:\n\t- plugins: []\n", []string{"the text is not YAML: yaml: line 3"}},
		"a list at the top":                  {"- actions\n", []string{"the text is not a mapping"}},
		"a word at the top":                  {"allocate\n", []string{"the text is not a mapping"}},
		"null at the top":                    {"null\n", []string{"the text is not a mapping"}},
		"a second document":                  {top("---", "actions: preempt"), []string{"goes on after its first YAML document"}},
		"an empty second document":           {top("---"), []string{"goes on after its first YAML document"}},
		"a second document that is open":     {top("---", "\"open"), []string{"the text is not YAML: yaml: line"}},
		"a duplicate key at the top":         {top("actions: allocate"), []string{`line 5: key "actions" is repeated, first in line 1`}},
		"a duplicate key in arguments":       {plugins(card, "    arguments:", "      overCommitFactor: 1", "      overCommitFactor: 2"), []string{`line 7: key "overCommitFactor" is repeated, first in line 6`}},
		"a duplicate switch":                 {plugins(card, "    enableJobOrder: true", "    enableJobOrder: false"), []string{`line 6: key "enableJobOrder" is repeated`}},
		"an anchor":                          {plugins("  - &card", "    name: capacity-card"), []string{"line 4: anchor &card: remove it"}},
		"an anchor and its alias":            {plugins("  - &g {name: gang}", "  - *g", card), []string{"line 4: anchor &g", "line 5: alias *g: write the value out"}},
		"a merge key":                        {plugins(card, "    <<: {enableJobOrder: true}"), []string{`line 5: unknown key "<<" in plugin capacity-card`}},
		"a tag":                              {"actions: !!str allocate\ntiers: []\n", []string{"line 1: tag !!str: remove it"}},
		"an unknown key at the top":          {top("tier: []"), []string{`line 5: unknown key "tier" in the text: known are `}},
		"an unknown key far from any":        {top("xyzxyzxyz: 1"), []string{"known are actions, tiers, configurations, metrics"}},
		"a key that is a list":               {top("? [a]", ": 1"), []string{"line 5: a key of the text is not a word"}},
		"no actions":                         {"tiers:\n- plugins:\n  - name: capacity-card\n", []string{"line 1: actions is missing: write for example"}},
		"null actions":                       {"actions:\ntiers:\n- plugins:\n  - name: capacity-card\n", []string{"actions is missing"}},
		"empty actions":                      {"actions: \" \"\ntiers:\n- plugins:\n  - name: capacity-card\n", []string{"line 1: actions is empty"}},
		"actions as a list":                  {"actions: [enqueue, allocate]\ntiers:\n- plugins:\n  - name: capacity-card\n", []string{"line 1: actions is not one text"}},
		"a number as action":                 {"actions: 7\ntiers:\n- plugins:\n  - name: capacity-card\n", []string{"actions is not one text"}},
		"a misspelt action":                  {strings.Replace(plugins(card), "allocate", "alocate", 1), []string{`line 1: unknown action "alocate": known are `}},
		"an action of another scheduler":     {strings.Replace(plugins(card), "backfill", "gangreclaim", 1), []string{`unknown action "gangreclaim": known are enqueue, allocate`}},
		"an action that must not run":        {strings.Replace(plugins(card), "backfill", "shuffle", 1), []string{`action "shuffle" is not allowed: it evicts blindly`}},
		"an action in capitals":              {strings.Replace(plugins(card), "backfill", "Backfill", 1), []string{`unknown action "Backfill": known are `}},
		"two misspelt actions":               {strings.Replace(plugins(card), "enqueue, allocate", "enqeue, alocate", 1), []string{`"enqeue"`, `"alocate"`}},
		"a comma too many":                   {strings.Replace(plugins(card), "enqueue,", "enqueue,,", 1), []string{"actions has a comma without an action"}},
		"a comma at the end":                 {strings.Replace(plugins(card), "backfill", "backfill,", 1), []string{"actions has a comma without an action"}},
		"no tiers":                           {"actions: allocate\n", []string{"plugin capacity-card is missing, so no card quota would be enforced"}},
		"tiers as a mapping":                 {"actions: allocate\ntiers: {plugins: []}\n", []string{"line 2: tiers is not a list", "capacity-card is missing"}},
		"a tier that is a word":              {"actions: allocate\ntiers:\n- gang\n", []string{"line 3: an entry of tiers is not a mapping: write - plugins", "capacity-card is missing"}},
		"a tier without plugins":             {"actions: allocate\ntiers:\n- {}\n- plugins:\n  - name: capacity-card\n", []string{"line 3: a tier without plugins"}},
		"a tier with an empty list":          {"actions: allocate\ntiers:\n- plugins: []\n- plugins:\n  - name: capacity-card\n", []string{"line 3: a tier without plugins"}},
		"an unknown key in a tier":           {"actions: allocate\ntiers:\n- plugin:\n  - name: capacity-card\n", []string{`line 3: unknown key "plugin" in a tier: known are `, "a tier without plugins", "capacity-card is missing"}},
		"plugins as a mapping":               {"actions: allocate\ntiers:\n- plugins: {name: capacity-card}\n", []string{"line 3: plugins is not a list", "capacity-card is missing"}},
		"a plugin that is a word":            {plugins("  - gang", card), []string{"line 4: an entry of plugins is not a mapping: write - name"}},
		"a plugin without name":              {plugins("  - enableJobOrder: true", card), []string{"line 4: a plugin without a name"}},
		"a plugin named by a number":         {plugins("  - name: 4", card), []string{"line 4: a plugin without a name"}},
		"a misspelt plugin":                  {plugins("  - name: nodeordr", card), []string{`line 4: unknown plugin "nodeordr": known are `}},
		"an unknown plugin":                  {plugins("  - name: zzzzzzzzzzzz", card), []string{`unknown plugin "zzzzzzzzzzzz": known are binpack`}},
		"capacity-card misspelt":             {plugins("  - name: capacitycard"), []string{`known are `, "capacity-card is missing"}},
		"the stock configuration":            {plugins("  - name: gang", "  - name: proportion"), []string{"line 5: plugin proportion accounts for the same queues", "capacity-card is missing"}},
		"capacity beside it":                 {plugins(card, "  - name: capacity"), []string{"line 5: plugin capacity accounts for the same queues as capacity-card"}},
		"proportion beside it":               {plugins(card, "  - name: proportion"), []string{"line 5: plugin proportion accounts"}},
		"capacity-card twice":                {plugins(card, card), []string{"line 5: plugin capacity-card is repeated, first in line 4: remove one"}},
		"capacity-card twice in tiers":       {plugins(card, "- plugins:", card), []string{"line 6: plugin capacity-card is repeated, first in line 4"}},
		"another plugin twice":               {plugins("  - name: gang", card, "  - name: gang"), []string{"line 6: plugin gang is repeated"}},
		"enabled for enable":                 {plugins(card, "    enabledReclaimable: true"), []string{`line 5: unknown key "enabledReclaimable" in plugin capacity-card: known are `}},
		"enable for enabled":                 {plugins(card, "    enableAllocatable: true"), []string{`known are `}},
		"enable for the capital letter":      {plugins("  - name: drf", "    enableClusterOrder: true", card), []string{`line 5: unknown key "enableClusterOrder" in plugin drf: known are `}},
		"argument for arguments":             {plugins(card, "    argument: {}"), []string{`known are `}},
		"an argument beside its level":       {plugins(card, "    overCommitFactor: 2"), []string{`line 5: unknown key "overCommitFactor" in plugin capacity-card`}},
		"a switch that says yes":             {plugins("  - name: gang", "    enableJobOrder: yes", card), []string{"line 5: enableJobOrder of plugin gang is not a switch: write true or false"}},
		"a switch in quotes":                 {plugins("  - name: gang", "    enableJobOrder: \"false\"", card), []string{"line 5: enableJobOrder of plugin gang is not a switch"}},
		"a switch that is a number":          {plugins("  - name: gang", "    enableJobOrder: 0", card), []string{"is not a switch"}},
		"a switch that is a list":            {plugins("  - name: gang", "    enableJobOrder: [true]", card), []string{"is not a switch"}},
		"the allocatable gate off":           {plugins(card, "    enabledAllocatable: false"), []string{"line 5: enabledAllocatable: false would let pods exceed their quota"}},
		"the predicate gate off":             {plugins(card, "    enablePredicate: false"), []string{"line 5: enablePredicate: false would let pods exceed their quota"}},
		"a hierarchy as a switch":            {plugins(card, "    enableHierarchy: true"), []string{"line 5: enableHierarchy has no effect at capacity-card: write queueHierarchy: Tree below its arguments"}},
		"arguments as a list":                {plugins(card, "    arguments: [overCommitFactor]"), []string{"line 5: arguments is not a mapping"}},
		"arguments of another as a word":     {plugins("  - name: gang", "    arguments: none", card), []string{"line 5: arguments is not a mapping"}},
		"an argument key that is a number":   {plugins(card, "    arguments:", "      1: 2"), []string{`line 6: argument key "1" is not a word`}},
		"an argument the plugin refuses":     {withArguments("overCommitFactor: 0"), []string{"line 6: arguments of capacity-card: overCommitFactor is 0"}},
		"a hash of the author":               {withArguments("configHash: abc"), []string{"line 6: argument configHash is written by the scheduler itself"}},
		"configurations as a mapping":        {top("configurations: {name: enqueue}"), []string{"line 5: configurations is not a list"}},
		"a configuration that is a word":     {top("configurations: [enqueue]"), []string{"line 5: an entry of configurations is not a mapping: write - name"}},
		"a configuration without name":       {top("configurations:", "- arguments: {}"), []string{"line 6: an entry of configurations without a name"}},
		"a configuration of a plugin":        {top("configurations:", "- name: gang"), []string{`line 6: unknown action "gang" in configurations`}},
		"an unknown key in a configuration":  {top("configurations:", "- name: enqueue", "  argument: {}"), []string{`line 7: unknown key "argument" in an entry of configurations: known are `}},
		"a configuration's arguments a word": {top("configurations:", "- name: enqueue", "  arguments: 3"), []string{"line 7: arguments is not a mapping"}},
		"metrics as a word":                  {top("metrics: prometheus"), []string{"line 5: metrics is not a mapping"}},
		"an unknown metrics key":             {top("metrics:", "  addr: a"), []string{`line 6: unknown key "addr" in metrics: known are type, address`}},
		"a metrics value that is a list":     {top("metrics:", "  type: [prometheus]"), []string{`line 6: metrics "type" is not a text`}},
		"faults on every level": {"action: allocate\ntiers:\n- plugins:\n  - name: gangg\n    enableJobOder: true\n",
			[]string{`"action"`, "actions is missing", `"enableJobOder"`, `"gangg"`, "capacity-card is missing"}},
	}) {
		first, other := others[strings.TrimPrefix(t.Name(), "TestValidateRefuses/")]
		if !other {
			first = tc.want[0]
		}
		if first != "" {
			renderRefuses(t, tc.text, first)
		}

		err := Validate(tc.text, known())
		check.Must(t, err != nil, "accepted:\n%s", tc.text)

		got := strings.Split(err.Error(), "\n")
		check.Must(t, len(got) == len(tc.want), "got %d faults, want %d:\n%v", len(got), len(tc.want), err)
		for i, want := range tc.want {
			check.That(t, strings.Contains(got[i], want), "fault %d is\n  %s\nwant\n  …%s…", i, got[i], want)
		}
	}
}
