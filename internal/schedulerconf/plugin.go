package schedulerconf

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
	if err != nil || len(document.Content) == 0 {
		return nil
	}
	root := document.Content[0]
	var warnings []string
	for _, entry := range pluginsOf(root) {
		if nameOf(entry) != CapacityCard {
			warnings = append(warnings, ignored(entry, "plugin")...)
		}
	}
	for _, entry := range items(field(root, "configurations")) {
		warnings = append(warnings, ignored(entry, "action")...)
	}
	return warnings
}

func ignored(entry *yaml.Node, kind string) []string {
	arguments := field(entry, "arguments")
	if unset(arguments) || arguments.Kind != yaml.MappingNode {
		return nil
	}
	var warnings []string
	for i := 0; i+1 < len(arguments.Content); i += 2 {
		key, value := arguments.Content[i], arguments.Content[i+1]
		if !isString(value) {
			continue
		}
		switch bare := (&yaml.Node{Kind: yaml.ScalarNode, Value: value.Value}).ShortTag(); bare {
		case "!!bool", "!!int", "!!float":
			warnings = append(warnings, fmt.Sprintf("line %d: argument %s of %s %s stands in quotes, and Volcano ignores it: write %s: %s",
				value.Line, key.Value, kind, nameOf(entry), key.Value, value.Value))
		}
	}
	return warnings
}
