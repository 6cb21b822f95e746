package card

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The keys of an entry of the plugin's argument "cards".
const (
	argumentResource     = "resource"
	argumentModel        = "model"
	argumentModelLabel   = "modelLabel"
	argumentMemoryLabel  = "memoryLabel"
	argumentNodeSelector = "nodeSelector"
)

// Argument returns mappings as the argument "cards" of the plugin.
func (m Mappings) Argument() []any {
	out := make([]any, len(m))
	for i, mapping := range m {
		entry := map[string]any{}
		for key, value := range map[string]string{
			argumentResource: string(mapping.Resource), argumentModel: mapping.Model,
			argumentModelLabel: mapping.ModelLabel, argumentMemoryLabel: mapping.MemoryLabel,
		} {
			if value != "" {
				entry[key] = value
			}
		}

		if len(mapping.NodeSelector) > 0 {
			labels := make(map[string]any, len(mapping.NodeSelector))
			for key, value := range mapping.NodeSelector {
				labels[key] = value
			}
			entry[argumentNodeSelector] = labels
		}
		out[i] = entry
	}

	return out
}

// ParseMappings parses the argument "cards" of the plugin: a list of mappings.
func ParseMappings(value any) (Mappings, error) {
	entries, ok := value.([]any)
	if !ok {
		return nil, errors.New("write a list of entries, for example - {resource: amd.com/gpu, modelLabel: amd.com/gpu.product-name}")
	}

	mappings := make(Mappings, len(entries))
	for i, entry := range entries {
		var err error
		mappings[i], err = parseMapping(entry)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}

	if err := mappings.Validate(); err != nil {
		return nil, err
	}

	return mappings, nil
}

// parseMapping parses one entry of the list. It refuses unknown keys: a misspelt one would change nothing.
func parseMapping(value any) (Mapping, error) {
	var m Mapping
	fields, err := parseFields(value)
	if err != nil {
		return m, fmt.Errorf("write resource, and modelLabel or model: %w", err)
	}

	var resource string
	texts := map[string]*string{
		argumentResource: &resource, argumentModel: &m.Model, argumentModelLabel: &m.ModelLabel, argumentMemoryLabel: &m.MemoryLabel,
	}

	for _, key := range slices.Sorted(maps.Keys(fields)) {
		into, known := texts[key]
		switch {
		case key == argumentNodeSelector:
			m.NodeSelector, err = parseSelector(fields[key])
			if err != nil {
				return m, err
			}
		case !known:
			return m, fmt.Errorf("unknown key %s: write %s", quoteText(key), "memoryLabel, model, modelLabel, nodeSelector or resource")
		default:
			text, isText := fields[key].(string)
			if !isText {
				return m, fmt.Errorf("%s: write a text, in quotes if it looks like a number or a switch", key)
			}
			*into = text
		}
	}

	m.Resource = corev1.ResourceName(resource)
	return m, nil
}

// parseSelector parses the nodeSelector of an entry. One without a value selects all nodes.
func parseSelector(value any) (map[string]string, error) {
	if value == nil {
		return nil, nil
	}
	fields, err := parseFields(value)
	if err != nil {
		return nil, fmt.Errorf("%s: write labels and values: %w", argumentNodeSelector, err)
	}

	labels := make(map[string]string, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		text, isText := fields[key].(string)
		if !isText {
			return nil, fmt.Errorf("%s: write the value of %s in quotes", argumentNodeSelector, quoteText(key))
		}
		labels[key] = text
	}

	return labels, nil
}

// parseFields reads a mapping of YAML. Volcano's library returns keys of any type.
func parseFields(value any) (map[string]any, error) {
	switch fields := value.(type) {
	case map[string]any:
		return fields, nil
	case map[any]any:
		named := make(map[string]any, len(fields))
		for key, field := range fields {
			name, ok := key.(string)
			if !ok {
				return nil, fmt.Errorf("key %s is not a word", quoteText(fmt.Sprint(key)))
			}
			named[name] = field
		}

		return named, nil
	}
	return nil, errors.New("it is not a mapping")
}
