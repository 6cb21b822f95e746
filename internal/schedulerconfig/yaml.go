package schedulerconfig

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseDocument parses a text that must be exactly one YAML document with a mapping at its top.
func parseDocument(text string) (document *yaml.Node, err error) {
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

// encodeDocument writes a tree and checks that it parses to the same meaning: a bug of the YAML
// writer must not change what tenants may use.
func encodeDocument(document *yaml.Node) (string, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(document), encoder.Close()); err != nil {
		return "", fmt.Errorf("write the text: %w", err)
	}
	if written, err := parseDocument(out.String()); err != nil || !sameMeaning(document, written) {
		return "", errors.New("the text cannot be rewritten without changing its meaning: write it in plain block style")
	}
	return out.String(), nil
}

// sameMeaning compares two trees without positions, styles and comments.
func sameMeaning(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, sameMeaning)
}

// findAmbiguities returns an error for each alias, anchor, tag and repeated key at a node and below it. With
// them, one place of the text would decide about another, or parsers would read it differently.
func findAmbiguities(node *yaml.Node) []error {
	var errs []error
	if node.Kind == yaml.AliasNode {
		return []error{errorAt(node, "alias *%s: write the value out", node.Value)}
	}

	// The operator changes single places of the text. An alias would carry the change to others.
	if node.Anchor != "" {
		errs = append(errs, errorAt(node, "anchor &%s: remove it and write values out where they are used", node.Anchor))
	}
	if node.Style&yaml.TaggedStyle != 0 {
		errs = append(errs, errorAt(node, "tag %s: remove it", node.Tag))
	}

	if node.Kind == yaml.MappingNode {
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if line, twice := first[key.Value]; twice {
				errs = append(errs, errorAt(key, "key %q is repeated, first in line %d: remove one", key.Value, line))
				continue
			}
			first[key.Value] = key.Line
		}
	}

	for _, child := range node.Content {
		errs = append(errs, findAmbiguities(child)...)
	}

	return errs
}

// errorAt returns an error that starts with the line of the node. Nodes that Render added have
// none.
func errorAt(node *yaml.Node, format string, values ...any) error {
	err := fmt.Errorf(format, values...)
	if node.Line == 0 {
		return err
	}
	return fmt.Errorf("line %d: %w", node.Line, err)
}

// fieldValue returns the value of a mapping's key, or nil.
func fieldValue(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// setField sets the value of a key in a mapping.
func setField(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, stringNode(key), value)
}

// stringNode returns a string scalar.
func stringNode(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

// isUnset reports whether a value is absent or null; Volcano treats both as unset.
func isUnset(node *yaml.Node) bool {
	return node == nil || node.ShortTag() == "!!null"
}

// isTrueOrFalse reports whether a value is written as true or false.
func isTrueOrFalse(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && (node.Value == "true" || node.Value == "false") && node.ShortTag() == "!!bool"
}

// isString reports whether a value is a string scalar.
func isString(node *yaml.Node) bool {
	return node != nil && node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str"
}

// mappingsIn returns the entries of a list that are mappings.
func mappingsIn(list *yaml.Node) []*yaml.Node {
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(list.Content), func(n *yaml.Node) bool { return n.Kind != yaml.MappingNode })
}

// pluginEntries returns the plugin entries of all tiers.
func pluginEntries(root *yaml.Node) []*yaml.Node {
	var entries []*yaml.Node
	for _, tier := range mappingsIn(fieldValue(root, "tiers")) {
		entries = append(entries, mappingsIn(fieldValue(tier, "plugins"))...)
	}
	return entries
}

// entryName returns the name of an entry of a plugin or action, "" if it has none.
func entryName(entry *yaml.Node) string {
	if entry.Kind != yaml.MappingNode {
		return ""
	}
	if name := fieldValue(entry, "name"); isString(name) {
		return name.Value
	}
	return ""
}

// findCapacityCard returns the first entry of capacity-card in any tier, or nil.
func findCapacityCard(root *yaml.Node) *yaml.Node {
	for _, entry := range pluginEntries(root) {
		if entryName(entry) == CapacityCard {
			return entry
		}
	}
	return nil
}

// actionNames returns the actions of a text.
func actionNames(root *yaml.Node) []string {
	node := fieldValue(root, "actions")
	if !isString(node) {
		return nil
	}
	actions := strings.Split(node.Value, ",")
	for i, action := range actions {
		actions[i] = strings.TrimSpace(action)
	}
	return actions
}

// Hash returns the hash of a text in the heartbeat: the hexadecimal SHA-256 of its bytes,
// exactly as in the ConfigMap or file.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// WithHash returns the text with its own Hash as argument HashArgument of capacity-card, and
// that hash. Everything else keeps its meaning and order. A text that already carries a hash is
// returned unchanged. The text must have passed Validate: WithHash returns an error without a
// capacity-card entry, or if the result would change its meaning.
func WithHash(text string) (withHash, hash string, err error) {
	document, err := parseDocument(text)
	if err != nil {
		return "", "", err
	}

	entry := findCapacityCard(document.Content[0])
	if entry == nil {
		return "", "", fmt.Errorf("no plugin %s to carry the hash", CapacityCard)
	}

	arguments := fieldValue(entry, "arguments")
	if arguments == nil || arguments.Kind != yaml.MappingNode { // missing, or null: Validate refuses all else
		arguments = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		setField(entry, "arguments", arguments)
	}

	if present := fieldValue(arguments, HashArgument); present != nil {
		if raw, err := hex.DecodeString(present.Value); err != nil || len(raw) != sha256.Size {
			return "", "", errorAt(present, "argument %s is not a SHA-256 in hexadecimal digits", HashArgument)
		}
		return text, present.Value, nil
	}

	hash = Hash(text)
	// Quoted: sixty-four digits with one e among them would read as a number.
	value := stringNode(hash)
	value.Style = yaml.DoubleQuotedStyle
	setField(arguments, HashArgument, value)

	withHash, err = encodeDocument(document)
	return withHash, hash, err
}
