package schedulerconf

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// pluginsOf returns the list of plugins of a tier, or nil.
func pluginsOf(tier *yaml.Node) *yaml.Node {
	if tier.Kind != yaml.MappingNode {
		return nil
	}
	list := field(tier, "plugins")
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	return list
}

// entriesOf returns the entries of a tier.
func entriesOf(tier *yaml.Node) []*yaml.Node {
	list := pluginsOf(tier)
	if list == nil {
		return nil
	}
	return list.Content
}

func last(entries []*yaml.Node) *yaml.Node { return entries[len(entries)-1] }

// nameOf returns the name of a plugin entry, or "".
func nameOf(entry *yaml.Node) string {
	if entry.Kind != yaml.MappingNode {
		return ""
	}
	if name := field(entry, "name"); isString(name) {
		return name.Value
	}
	return ""
}

// holds tells whether a plugin stands in a tier.
func holds(tier *yaml.Node, plugin string) bool {
	return plugin != "" && slices.ContainsFunc(entriesOf(tier), func(entry *yaml.Node) bool { return nameOf(entry) == plugin })
}

// plugins returns the entries of all tiers.
func (e *editor) plugins() []*yaml.Node {
	var entries []*yaml.Node
	for _, tier := range items(field(e.root, "tiers")) {
		entries = append(entries, items(pluginsOf(tier))...)
	}
	return entries
}

// find returns the list in which a plugin stands, and its index; nil if it does not.
func (e *editor) find(plugin string) (*yaml.Node, int) {
	for _, tier := range items(field(e.root, "tiers")) {
		if holds(tier, plugin) {
			list := pluginsOf(tier)
			return list, slices.IndexFunc(list.Content, func(entry *yaml.Node) bool { return nameOf(entry) == plugin })
		}
	}
	return nil, 0
}

// raw returns an entry of a list as it stands in the text, with its comments, moved to the
// left margin.
func (e *editor) raw(list *yaml.Node, index int) string {
	entry := list.Content[index]
	b := e.restored[entry]
	if b == nil {
		b = e.layout[list]
	}
	if b == nil || b.inline || b.of(entry) == nil {
		return encode(entry)
	}
	return outdented(e.present(b, b.of(entry), []*yaml.Node{entry}), b.column)
}

// word is a plain text in the tree.
func word(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

// bare is a copy of a node without its own comments.
func bare(node *yaml.Node) *yaml.Node {
	c := *node
	c.HeadComment, c.LineComment, c.FootComment = "", "", ""
	return &c
}

// valueOf returns a node's value as JSON, or "" if it has none there.
func valueOf(node *yaml.Node) string {
	var value any
	if node.Decode(&value) != nil {
		return ""
	}
	text, err := asJSON(value)
	if err != nil {
		return ""
	}
	return text
}
