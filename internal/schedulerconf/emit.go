package schedulerconf

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func (b *block) start() int { return b.children[0].start }
func (b *block) end() int   { return b.children[len(b.children)-1].end }

// of returns the child of a key or entry, or nil.
func (b *block) of(node *yaml.Node) *child {
	for i := range b.children {
		if b.children[i].node == node {
			return &b.children[i]
		}
	}
	return nil
}

// block returns the block of a collection that can still be written line by line, or nil.
func (e *editor) block(node *yaml.Node) *block {
	b := e.layout[node]
	if b == nil || len(node.Content) == 0 || (b.inline && node.Content[0] != b.children[0].node) {
		return nil
	}
	return b
}

// members returns the keys with their values, or the entries, of a collection.
func members(node *yaml.Node) [][]*yaml.Node {
	if node.Kind == yaml.MappingNode {
		return slices.Collect(slices.Chunk(node.Content, 2))
	}
	return slices.Collect(slices.Chunk(node.Content, 1))
}

// collection writes the children of a block: those of the text in their places, each followed
// by the new ones that stand behind it now.
func (e *editor) collection(b *block, node *yaml.Node) string {
	var out strings.Builder
	now := members(node)
	write := func(text string) {
		if out.Len() > 0 && text != "" && !strings.HasSuffix(out.String(), "\n") {
			out.WriteString(e.lineEnd)
		}
		out.WriteString(text)
	}
	fresh := func() {
		for len(now) > 0 && b.of(now[0][0]) == nil {
			write(e.lines(e.flush(now[0]), b.column))
			now = now[1:]
		}
	}
	fresh()
	for i := range b.children {
		c := &b.children[i]
		if len(now) > 0 && now[0][0] == c.node {
			write(e.present(b, c, now[0]))
			now = now[1:]
			fresh()
		}
		if i+1 < len(b.children) {
			write(b.source.text[c.end:b.children[i+1].start])
		}
	}
	return out.String()
}

// present writes a child that stands in the text.
func (e *editor) present(b *block, c *child, nodes []*yaml.Node) string {
	text, value := b.source.text, nodes[len(nodes)-1]
	if !e.isChanged(value) {
		return text[c.start:c.end]
	}
	if begin, token := e.token(b, value); token != "" {
		return text[c.start:begin] + quoted(value.Style, value.Value) + text[begin+len(token):c.end]
	}
	if inner := e.block(value); inner != nil {
		return text[c.start:inner.start()] + e.collection(inner, value) + text[inner.end():c.end]
	}
	written := e.lines(encodeAlone(nodes), b.column)
	if b.inline && c == &b.children[0] {
		written = strings.TrimLeft(written, " ")
	}
	head := text[c.start:c.body]
	if from := strings.LastIndex(head, "\n") + 1; blank(head[from:]) {
		head = head[:from]
	}
	return head + written + text[c.tail:c.end]
}

// encodeAlone writes a child anew, without the comments above and below it, which are copied.
func encodeAlone(nodes []*yaml.Node) string {
	first := nodes[0]
	head, foot := first.HeadComment, first.FootComment
	defer func() { first.HeadComment, first.FootComment = head, foot }()
	first.HeadComment, first.FootComment = "", ""
	return encode(nodes...)
}

// token returns a changed scalar as it stands in the text, and where; or "" if it is not
// written there in one piece, or the new value cannot be written in the same way.
func (e *editor) token(b *block, node *yaml.Node) (int, string) {
	old, ok := e.old[node]
	if !ok || !simple(old.Value) || !simple(node.Value) {
		return 0, ""
	}
	begin, token := b.source.offset(old.Line, old.Column), quoted(old.Style, old.Value)
	if begin < 0 || !strings.HasPrefix(b.source.text[begin:], token) {
		return 0, ""
	}
	return begin, token
}

// simple tells whether a value is written alike with and without quotes.
func simple(value string) bool {
	return value != "" && !strings.ContainsFunc(value, func(r rune) bool {
		return r > '~' || r < ' ' || strings.ContainsRune(`"'\#:{}[]&*!|>%@`+"`", r)
	})
}

func quoted(style yaml.Style, value string) string {
	switch {
	case style&yaml.DoubleQuotedStyle != 0:
		return `"` + value + `"`
	case style&yaml.SingleQuotedStyle != 0:
		return "'" + value + "'"
	}
	return value
}

// flush writes a child at the left margin, as it stood where it was taken from, if anywhere.
func (e *editor) flush(nodes []*yaml.Node) string {
	if b := e.restored[nodes[0]]; b != nil {
		return e.present(b, b.of(nodes[0]), nodes)
	}
	return encode(nodes...)
}

// lines indents a text and ends its lines as the others end.
func (e *editor) lines(text string, column int) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if !blank(line) {
			out.WriteString(strings.Repeat(" ", column))
		}
		out.WriteString(line + e.lineEnd)
	}
	return out.String()
}

// outdented moves a text to the left by a number of blanks, as far as its lines have them.
func outdented(text string, column int) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(line[min(column, indentOf(line)):])
	}
	return out.String()
}
