package schedulerconf

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Warnings tells what of a valid text Volcano ignores in silence: of its own arguments
// those that are a flag or a number in quotes. Capacity-card takes them as meant.
func Warnings(text string) []string {
	document, err := parse(text)
	if err != nil || len(document.Content) == 0 {
		return nil
	}
	root := document.Content[0]
	var warnings []string
	for _, tier := range items(field(root, "tiers")) {
		for _, entry := range items(field(tier, "plugins")) {
			if nameOf(entry) != CapacityCard {
				warnings = append(warnings, ignored(entry, "plugin")...)
			}
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
