package schedulerconf

import (
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
	switch line, twice := v.plugins[name.Value]; {
	case twice:
		// Volcano would open the plugin twice in every session and count every event twice.
		v.fault(name, "plugin %s stands twice, first in line %d: remove one", name.Value, line)
		return
	case !slices.Contains(v.known.Plugins, name.Value):
		v.fault(name, "unknown plugin %q: %s", name.Value, hint(name.Value, v.known.Plugins))
	case slices.Contains(exclusive, name.Value):
		v.fault(name, "plugin %s accounts for the same queues as %s by other rules: remove it", name.Value, CapacityCard)
	}
	v.plugins[name.Value] = name.Line
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
	if _, present := v.plugins[CapacityCard]; !present {
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

// findCard returns the first entry of capacity-card in any tier, or nil.
func findCard(root *yaml.Node) *yaml.Node {
	for _, tier := range items(field(root, "tiers")) {
		for _, entry := range items(field(tier, "plugins")) {
			if name := field(entry, "name"); entry.Kind == yaml.MappingNode && isString(name) && name.Value == CapacityCard {
				return entry
			}
		}
	}
	return nil
}

// items returns the entries of a list that are mappings.
func items(list *yaml.Node) []*yaml.Node {
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(list.Content), func(n *yaml.Node) bool { return n.Kind != yaml.MappingNode })
}
