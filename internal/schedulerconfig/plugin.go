package schedulerconfig

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

func (v *validation) plugin(entry *yaml.Node) {
	name := field(entry, "name")
	if !isString(name) || name.Value == "" {
		v.fault(entry, "a plugin without a name: write - name: followed by a plugin, for example gang")
		return
	}
	v.keys(entry, "plugin "+name.Value, pluginKeys)
	v.switches(entry, name.Value)
	v.arguments(entry)
	switch line, twice := v.seen[name.Value]; {
	case twice:
		// Volcano would open the plugin twice in every session and count every event twice.
		v.fault(name, "plugin %s stands twice, first in line %d: remove one", name.Value, line)
		return
	case !slices.Contains(v.known.Plugins, name.Value):
		v.fault(name, "unknown plugin %q: %s", name.Value, listed(v.known.Plugins))
	case slices.Contains(exclusive, name.Value):
		v.fault(name, "plugin %s accounts for the same queues as %s by other rules: remove it", name.Value, CapacityCard)
	}
	v.seen[name.Value] = name.Line
}

// switches demands true or false. Words such as yes or on are booleans to Volcano's parser
// and texts to others, so they are not accepted.
func (v *validation) switches(entry *yaml.Node, plugin string) {
	for _, name := range Switches() {
		value := field(entry, name)
		if unset(value) {
			continue
		}
		if value.Kind != yaml.ScalarNode || (value.Value != "true" && value.Value != "false") || value.ShortTag() != "!!bool" {
			v.fault(value, "%s of plugin %s is not a switch: write true or false", name, plugin)
			continue
		}
		if plugin == CapacityCard && value.Value == "false" && slices.Contains(gates, name) {
			v.fault(value, "%s: false would let pods past their quota: remove it from %s", name, CapacityCard)
		}
	}
}

// arguments demands a mapping whose keys are words.
func (v *validation) arguments(entry *yaml.Node) {
	arguments := field(entry, "arguments")
	if unset(arguments) {
		return
	}
	if arguments.Kind != yaml.MappingNode {
		v.fault(arguments, "arguments is not a mapping: write one key: value per line below it")
		return
	}
	for i := 0; i < len(arguments.Content); i += 2 {
		if key := arguments.Content[i]; !isString(key) {
			v.fault(key, "argument key %q is not a word: put it in quotes or remove it", key.Value)
		}
	}
}

// capacityCard checks that the plugin is there and lets it judge its own arguments.
func (v *validation) capacityCard(root *yaml.Node) {
	if _, present := v.seen[CapacityCard]; !present {
		v.fault(root, "plugin %s is missing, so no card quota would be enforced: add - name: %s to a tier", CapacityCard, CapacityCard)
		return
	}
	arguments := field(findCard(root), "arguments")
	if unset(arguments) || arguments.Kind != yaml.MappingNode {
		return
	}
	if hash := field(arguments, HashArgument); hash != nil {
		v.fault(hash, "argument %s is written by the scheduler itself: remove it", HashArgument)
	}
	values := map[string]any{}
	if err := arguments.Decode(&values); err != nil {
		v.fault(arguments, "arguments of %s: %w", CapacityCard, err)
		return
	}
	delete(values, HashArgument)
	if v.known.Arguments == nil {
		return
	}
	if err := v.known.Arguments(values); err != nil {
		v.fault(arguments, "arguments of %s: %w", CapacityCard, err)
	}
}

// Warnings tells what of a valid text Volcano ignores in silence: of its own arguments
// those that are a flag or a number in quotes. Capacity-card takes them as meant.
func Warnings(text string) []string {
	document, err := parse(text)
	if err != nil {
		return nil
	}
	root := document.Content[0]
	plugins := slices.DeleteFunc(pluginsOf(root), func(entry *yaml.Node) bool { return nameOf(entry) == CapacityCard })
	return append(ignored(plugins, "plugin"), ignored(items(field(root, "configurations")), "action")...)
}

func ignored(entries []*yaml.Node, kind string) []string {
	var warnings []string
	for _, entry := range entries {
		arguments := field(entry, "arguments")
		if unset(arguments) || arguments.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(arguments.Content); i += 2 {
			key, value := arguments.Content[i].Value, arguments.Content[i+1]
			plain := (&yaml.Node{Kind: yaml.ScalarNode, Value: value.Value}).ShortTag()
			if isString(value) && slices.Contains([]string{"!!bool", "!!int", "!!float"}, plain) {
				warnings = append(warnings, fmt.Sprintf("line %d: argument %s of %s %s stands in quotes, and Volcano ignores it: write %s: %s",
					value.Line, key, kind, nameOf(entry), key, value.Value))
			}
		}
	}
	return warnings
}

// choosers are the plugins of Volcano v1.14.1 that choose victims (they call
// AddPreemptableFn or AddReclaimableFn). A plugin that is none of Volcano's may
// do so as well.
var choosers = map[string][]string{
	switchPreemptable: {"priority", "gang", "conformance", "drf", "pdb", "cdp", "tdm", "extender"},
	switchReclaimable: {"gang", "conformance", "drf", "pdb", "cdp", "extender"},
}

// hooks are the switches of capacity-card that an action which evicts needs, the
// one that chooses victims first.
var hooks = map[string][]string{
	Preempt:     {switchPreemptable},
	"reclaim":   {switchReclaimable, switchPreemptive},
	CardReclaim: {switchReclaimable, switchPreemptive},
}

const (
	switchPreemptable = "enablePreemptable"
	switchReclaimable = "enableReclaimable"
	switchPreemptive  = "enablePreemptive"
)

// evictions refuses a text under which pods would be evicted past capacity-card.
//
// Volcano asks the plugins of one tier and takes what all of them allow; when
// that is nothing it asks the next tier, and when it is nothing after two of
// three plugins it takes the word of the third (Session.Reclaimable and
// Session.Preemptable). And victims that another plugin has cut down are evicted
// although the rest no longer makes room in the quota. So only capacity-card may
// choose victims. Evicted cards are promised to the one they were taken for, so
// allocate must have had its turn.
//
// cardreclaim asks no other plugin for victims. The same is demanded of it, so that a text
// stays good when reclaim takes its place.
func (v *validation) evictions(root *yaml.Node) {
	node, actions := field(root, "actions"), actionsOf(root)
	if slices.Contains(actions, "reclaim") && slices.Contains(actions, CardReclaim) {
		v.fault(node, "reclaim and %s would both take cards back, each without regard for what the other has freed: remove one of them", CardReclaim)
	}
	for _, action := range []string{Preempt, "reclaim", CardReclaim} {
		if at := slices.Index(actions, action); at >= 0 {
			if !slices.Contains(actions[:at], "allocate") {
				v.fault(node, "%s has no allocate before it, so pods would be evicted although cards are free: write allocate first", action)
			}
			v.victims(root, action)
		}
	}
	for i, action := range actions {
		if action == "allocate" && slices.ContainsFunc(actions[:i], func(before string) bool { return hooks[before] != nil }) {
			v.fault(node, "allocate stands after an action that evicts, and would hand out cards that are promised to others: write it once, before")
		}
	}
}

// victims refuses an action whose hooks of capacity-card are switched off, or for which
// another plugin chooses victims.
func (v *validation) victims(root *yaml.Node, action string) {
	if card := findCard(root); card != nil {
		for _, name := range hooks[action] {
			if value := field(card, name); value != nil && value.Value == "false" {
				v.fault(value, "%s: false of %s lets %s evict without asking about card quota: remove it, or %s from actions", name, CapacityCard, action, action)
			}
		}
	}
	choice := hooks[action][0]
	for _, entry := range pluginsOf(root) {
		if off := field(entry, choice); chooses(nameOf(entry), choice) && (off == nil || off.Value != "false") {
			v.fault(entry, "plugin %s would choose victims of %s beside %s: write %s: false", nameOf(entry), action, CapacityCard, choice)
		}
	}
}

// chooses reports whether a plugin beside capacity-card chooses victims unless the switch is off.
func chooses(plugin, name string) bool {
	if plugin == "" || plugin == CapacityCard {
		return false
	}
	return slices.Contains(choosers[name], plugin) || !slices.Contains(VolcanoPlugins(), plugin)
}
