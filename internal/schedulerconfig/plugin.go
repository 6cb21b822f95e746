package schedulerconfig

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// checkPlugin checks one entry of a tier: its name, keys, switches, and that its arguments are a mapping.
func (v *validator) checkPlugin(entry *yaml.Node) {
	name := fieldValue(entry, "name")
	if !isString(name) || name.Value == "" {
		v.addFault(entry, "a plugin without a name: write - name: followed by a plugin, for example gang")
		return
	}

	v.checkKeys(entry, "plugin "+name.Value, pluginKeys)
	v.checkSwitches(entry, name.Value)
	v.checkArguments(entry)
	switch line, twice := v.pluginLines[name.Value]; {
	case twice:
		// Volcano would open the plugin twice in every session and count every event twice.
		v.addFault(name, "plugin %s is repeated, first in line %d: remove one", name.Value, line)
		return
	case !slices.Contains(v.known.Plugins, name.Value):
		v.addFault(name, "unknown plugin %q: %s", name.Value, listKnown(v.known.Plugins))
	case slices.Contains(incompatiblePlugins, name.Value):
		v.addFault(name, "plugin %s accounts for the same queues as %s by other rules: remove it", name.Value, CapacityCard)
	}
	v.pluginLines[name.Value] = name.Line
}

// checkSwitches requires that each switch of a plugin is true or false. Words such as yes or on are booleans
// to Volcano's parser and strings to others. Of capacity-card it refuses two more: a switch that is off
// although quotas need it, and the switch for a hierarchy, which is an argument there.
func (v *validator) checkSwitches(entry *yaml.Node, plugin string) {
	for _, name := range Switches() {
		value := fieldValue(entry, name)
		if isUnset(value) {
			continue
		}
		if !isTrueOrFalse(value) {
			v.addFault(value, "%s of plugin %s is not a switch: write true or false", name, plugin)
			continue
		}

		if plugin == CapacityCard && value.Value == "false" && slices.Contains(mandatorySwitches, name) {
			v.addFault(value, "%s: false would let pods exceed their quota: remove it from %s", name, CapacityCard)
		}
		if plugin == CapacityCard && value.Value == "true" && name == switchHierarchy {
			v.addFault(value, "%s has no effect at %s: write queueHierarchy: Tree below its arguments", name, CapacityCard)
		}
	}
}

// checkArguments requires a mapping with string keys.
func (v *validator) checkArguments(entry *yaml.Node) {
	arguments := fieldValue(entry, "arguments")
	if isUnset(arguments) {
		return
	}
	if arguments.Kind != yaml.MappingNode {
		v.addFault(arguments, "arguments is not a mapping: write one key: value per line below it")
		return
	}

	for i := 0; i < len(arguments.Content); i += 2 {
		if key := arguments.Content[i]; !isString(key) {
			v.addFault(key, "argument key %q is not a word: put it in quotes or remove it", key.Value)
		}
	}
}

// checkCapacityCard requires the plugin, refuses a hash that its author wrote, and lets the plugin check its other
// arguments.
func (v *validator) checkCapacityCard(root *yaml.Node) {
	if _, present := v.pluginLines[CapacityCard]; !present {
		v.addFault(root, "plugin %s is missing, so no card quota would be enforced: add - name: %s to a tier", CapacityCard, CapacityCard)
		return
	}
	arguments := fieldValue(findCapacityCard(root), "arguments")
	if isUnset(arguments) || arguments.Kind != yaml.MappingNode { // checkArguments refuses what is no mapping
		return
	}

	if hash := fieldValue(arguments, HashArgument); hash != nil {
		v.addFault(hash, "argument %s is written by the scheduler itself: remove it", HashArgument)
	}

	values := map[string]any{}
	if err := arguments.Decode(&values); err != nil {
		v.addFault(arguments, "arguments of %s: %w", CapacityCard, err)
		return
	}

	delete(values, HashArgument)
	if v.known.ValidateArguments == nil { // only programs with the plugin can check them
		return
	}

	if err := v.known.ValidateArguments(values); err != nil {
		v.addFault(arguments, "arguments of %s: %w", CapacityCard, err)
	}
}

// Warnings returns what Volcano silently ignores in a valid configuration: arguments of its own
// plugins and actions that are a boolean or number in quotes. Capacity-card accepts those.
func Warnings(text string) []string {
	document, err := parseDocument(text)
	if err != nil {
		return nil
	}
	root := document.Content[0]
	plugins := slices.DeleteFunc(pluginEntries(root), func(entry *yaml.Node) bool { return entryName(entry) == CapacityCard })
	return append(ignoredArguments(plugins, "plugin"), ignoredArguments(mappingsIn(fieldValue(root, "configurations")), "action")...)
}

// ignoredArguments returns a warning for each argument of some entries that is a number or a switch in
// quotes. kind is what the entries configure: a plugin or an action.
func ignoredArguments(entries []*yaml.Node, kind string) []string {
	var warnings []string
	for _, entry := range entries {
		arguments := fieldValue(entry, "arguments")
		if isUnset(arguments) || arguments.Kind != yaml.MappingNode {
			continue
		}

		for i := 0; i+1 < len(arguments.Content); i += 2 {
			key := arguments.Content[i].Value
			value := arguments.Content[i+1]
			// Volcano reads numbers and switches by their type, so it ignores a quoted one. unquoted is the
			// type that the value would have without quotes.
			unquoted := (&yaml.Node{Kind: yaml.ScalarNode, Value: value.Value}).ShortTag()
			if isString(value) && slices.Contains([]string{"!!bool", "!!int", "!!float"}, unquoted) {
				warnings = append(warnings, fmt.Sprintf("line %d: argument %s of %s %s is quoted, and Volcano ignores it: write %s: %s",
					value.Line, key, kind, entryName(entry), key, value.Value))
			}
		}
	}

	return warnings
}

// victimSelectingPlugins are the plugins of Volcano v1.14.1 that select victims (they call
// AddPreemptableFn or AddReclaimableFn). A custom plugin may do so as well.
var victimSelectingPlugins = map[string][]string{
	switchPreemptable: {"priority", "gang", "conformance", "drf", "pdb", "cdp", "tdm", "extender"},
	switchReclaimable: {"gang", "conformance", "drf", "pdb", "cdp", "extender"},
}

// requiredSwitches are the switches of capacity-card that an evicting action needs, the one
// that selects victims first.
var requiredSwitches = map[string][]string{
	Preempt:     {switchPreemptable},
	"reclaim":   {switchReclaimable, switchPreemptive},
	CardReclaim: {switchReclaimable, switchPreemptive},
}

const (
	switchPreemptable = "enablePreemptable"
	switchReclaimable = "enableReclaimable"
	switchPreemptive  = "enablePreemptive"
	switchHierarchy   = "enableHierarchy"
)

// checkEvictions refuses a configuration that would evict pods without capacity-card's consent.
//
// Volcano intersects the victims of all plugins in a tier. If none remain it asks the next
// tier, and if none remain after two of three plugins it takes those of the third
// (Session.Reclaimable and Session.Preemptable). If another plugin removes some victims,
// Volcano evicts the rest, although that frees too little quota. So only capacity-card may
// select victims. Evicted cards are reserved for the preemptor, so allocate must run before.
//
// cardreclaim asks no other plugin for victims. The same rules apply to it, so that a
// configuration of flat queues stays valid when reclaim replaces it. In a tree reclaim is refused:
// it takes pod by pod, and cannot keep what each level deserves.
func (v *validator) checkEvictions(root *yaml.Node) {
	node := fieldValue(root, "actions")
	actions := actionNames(root)
	if slices.Contains(actions, "reclaim") && slices.Contains(actions, CardReclaim) {
		v.addFault(node, "reclaim and %s would both take cards back, each without regard for what the other has freed: remove one of them", CardReclaim)
	}

	if slices.Contains(actions, "reclaim") && isTree(findCapacityCard(root)) {
		v.addFault(node, "reclaim knows no tree of queues, and %s has queueHierarchy: Tree: write %s instead, which takes back by all rules of the tree", CapacityCard, CardReclaim)
	}

	for _, action := range []string{Preempt, "reclaim", CardReclaim} {
		if at := slices.Index(actions, action); at >= 0 {
			if !slices.Contains(actions[:at], "allocate") {
				v.addFault(node, "%s has no allocate before it, so pods would be evicted although cards are free: write allocate first", action)
			}
			v.checkVictims(root, action)
		}
	}

	for i, action := range actions {
		if action == "allocate" && slices.ContainsFunc(actions[:i], func(before string) bool { return requiredSwitches[before] != nil }) {
			v.addFault(node, "allocate comes after an action that evicts, and would give away cards that are reserved for others: write it once, before")
		}
	}
}

// isTree reports whether the arguments of capacity-card, which may be nil, say that queues form a
// tree.
func isTree(capacityCard *yaml.Node) bool {
	if capacityCard == nil {
		return false
	}
	arguments := fieldValue(capacityCard, "arguments")
	if isUnset(arguments) || arguments.Kind != yaml.MappingNode {
		return false
	}
	hierarchy := fieldValue(arguments, ArgumentQueueHierarchy)
	return hierarchy != nil && hierarchy.Value == "Tree"
}

// checkVictims refuses an action if a capacity-card switch that it needs is off, or if another
// plugin selects its victims.
func (v *validator) checkVictims(root *yaml.Node, action string) {
	if capacityCard := findCapacityCard(root); capacityCard != nil {
		for _, name := range requiredSwitches[action] {
			if value := fieldValue(capacityCard, name); value != nil && value.Value == "false" {
				v.addFault(value, "%s: false of %s lets %s evict without checking card quota: remove it, or %s from actions", name, CapacityCard, action, action)
			}
		}
	}

	selection := requiredSwitches[action][0] // the switch by which plugins select victims
	for _, entry := range pluginEntries(root) {
		if off := fieldValue(entry, selection); selectsVictims(entryName(entry), selection) && (off == nil || off.Value != "false") {
			v.addFault(entry, "plugin %s would choose victims of %s beside %s: write %s: false", entryName(entry), action, CapacityCard, selection)
		}
	}
}

// selectsVictims reports whether a plugin beside capacity-card selects victims unless the
// switch is off.
func selectsVictims(plugin, switchName string) bool {
	if plugin == "" || plugin == CapacityCard {
		return false
	}
	return slices.Contains(victimSelectingPlugins[switchName], plugin) || !slices.Contains(VolcanoPlugins(), plugin)
}
