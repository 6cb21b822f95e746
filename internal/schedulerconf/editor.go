package schedulerconf

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// editor changes a text through its node tree and writes it with every line that was not
// touched as it was: blanks, comments, quotes, line ends.
type editor struct {
	source   *source
	document *yaml.Node
	root     *yaml.Node
	layout   map[*yaml.Node]*block
	// changed are the nodes that have another value or other children than in the text.
	changed map[*yaml.Node]bool
	// old are the scalars that were changed, as they stand in the text.
	old map[*yaml.Node]yaml.Node
	// restored are entries that are put back, with the text they come from.
	restored map[*yaml.Node]*block
	lineEnd  string
}

// edit reads a text. It refuses what cannot be changed in one place without meaning something
// else in another.
func edit(text string) (*editor, error) {
	if len(text) > longestText {
		return nil, fmt.Errorf("the text has %d bytes, at most %d can be kept for its restoration: shorten it", len(text), longestText)
	}
	document, err := parse(text)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(plainErrors(document)...); err != nil {
		return nil, err
	}
	e := &editor{
		source: newSource(text), document: document, root: document.Content[0], lineEnd: "\n",
		changed: map[*yaml.Node]bool{}, old: map[*yaml.Node]yaml.Node{}, restored: map[*yaml.Node]*block{},
	}
	e.layout = measure(e.source, document)
	if strings.HasSuffix(e.source.line(0), "\r\n") {
		e.lineEnd = "\r\n"
	}
	return e, nil
}

// text writes the changed tree, and makes sure that it reads as it was meant.
func (e *editor) text() (string, error) {
	if !e.isChanged(e.root) {
		return e.source.text, nil
	}
	if b := e.block(e.root); b != nil {
		text := b.source.text[:b.start()] + e.collection(b, e.root) + b.source.text[b.end():]
		if e.reads(text) {
			return text, nil
		}
	}
	text, err := render(e.document)
	if err != nil {
		return "", err
	}
	if !e.reads(text) {
		return "", errors.New("the text cannot be changed without changing what else it means: write it in plain block style")
	}
	return text, nil
}

func (e *editor) reads(text string) bool {
	document, err := parse(text)
	return err == nil && sameMeaning(e.document, document) && len(plainErrors(document)) == 0
}

// setActions gives actions another value; quotes and comments stay.
func (e *editor) setActions(node *yaml.Node, value string) {
	if value == node.Value {
		return
	}
	style := node.Style &^ (yaml.LiteralStyle | yaml.FoldedStyle)
	if style != node.Style {
		style |= yaml.DoubleQuotedStyle
	}
	e.replace(node, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Style: style})
}

// replace puts another value in the place of a node, which keeps its comments.
func (e *editor) replace(node, value *yaml.Node) {
	if node.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode || node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		delete(e.old, node)
		delete(e.layout, node)
	} else if _, again := e.old[node]; !again && !e.changed[node] {
		e.old[node] = *node
	}
	node.Kind, node.Tag, node.Value, node.Style, node.Content = value.Kind, value.Tag, value.Value, value.Style, value.Content
	standIn(node, node.Line)
	e.changed[node] = true
}

// insert puts a key with its value, or an entry, at an index of a collection's nodes.
func (e *editor) insert(into *yaml.Node, index int, nodes ...*yaml.Node) {
	content := make([]*yaml.Node, 0, len(into.Content)+len(nodes))
	into.Content = append(append(append(content, into.Content[:index]...), nodes...), into.Content[index:]...)
	standIn(into, into.Line)
	e.changed[into] = true
}

// remove takes nodes out of a collection.
func (e *editor) remove(from *yaml.Node, index, count int) {
	content := make([]*yaml.Node, 0, len(from.Content))
	from.Content = append(append(content, from.Content[:index]...), from.Content[index+count:]...)
	e.changed[from] = true
}

// standIn gives what is new in a node the line of its place, for faults that are found in it.
func standIn(node *yaml.Node, line int) {
	if node.Line == 0 {
		node.Line = line
	}
	for _, c := range node.Content {
		standIn(c, node.Line)
	}
}

// isChanged tells whether anything in a node is new.
func (e *editor) isChanged(node *yaml.Node) bool {
	if e.changed[node] {
		return true
	}
	for _, c := range node.Content {
		if e.isChanged(c) {
			return true
		}
	}
	return false
}

// encode writes one key with its value, or one entry of a list, at the left margin.
func encode(nodes ...*yaml.Node) string {
	parent := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: nodes}
	if len(nodes) == 2 {
		parent.Kind, parent.Tag = yaml.MappingNode, "!!map"
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if encoder.Encode(parent) != nil || encoder.Close() != nil {
		return "" // what is missing is seen when the text is read again
	}
	return out.String()
}
