package schedulerconf

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parse reads a text that must be exactly one YAML document with a mapping at its top.
func parse(text string) (document *yaml.Node, err error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	document = &yaml.Node{}
	if err := decoder.Decode(document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the text is empty: write actions and tiers")
		}
		return nil, fmt.Errorf("the text is not YAML: %w", err)
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("the text goes on after its first YAML document, where Volcano stops reading: write one document")
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the text is not a mapping: write actions: and tiers: at its top")
	}
	return document, nil
}

// plainErrors refuses, anywhere in the tree, what makes one place of the text depend on
// another or leaves open which of two values counts.
func plainErrors(node *yaml.Node) []error {
	var errs []error
	if node.Kind == yaml.AliasNode {
		return []error{at(node, "alias *%s: write the value out", node.Value)}
	}
	if node.Anchor != "" {
		errs = append(errs, at(node, "anchor &%s: remove it and write values out where they are used", node.Anchor))
	}
	if node.Style&yaml.TaggedStyle != 0 {
		errs = append(errs, at(node, "tag %s: remove it", node.Tag))
	}
	if node.Kind == yaml.MappingNode {
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if line, twice := first[key.Value]; twice {
				errs = append(errs, at(key, "key %q stands twice, first in line %d: remove one", key.Value, line))
				continue
			}
			first[key.Value] = key.Line
		}
	}
	for _, child := range node.Content {
		errs = append(errs, plainErrors(child)...)
	}
	return errs
}

// at makes an error that begins with the line of the node.
func at(node *yaml.Node, format string, values ...any) error {
	return fmt.Errorf("line %d: %w", node.Line, fmt.Errorf(format, values...))
}

// field returns the value of a mapping's key, or nil.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// unset tells whether a value is absent or null; Volcano reads both as not set.
func unset(node *yaml.Node) bool {
	return node == nil || node.ShortTag() == "!!null"
}

// isString tells whether a value is a scalar that YAML reads as text.
func isString(node *yaml.Node) bool {
	return node != nil && node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str"
}
