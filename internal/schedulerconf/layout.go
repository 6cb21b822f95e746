package schedulerconf

import (
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// source is a text and where its lines begin.
type source struct {
	text  string
	lines []int // offset of each line's first byte, and the text's length at the end
}

func newSource(text string) *source {
	s := &source{text: text, lines: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' && i+1 < len(text) {
			s.lines = append(s.lines, i+1)
		}
	}
	s.lines = append(s.lines, len(text))
	return s
}

// line returns a line, counted from zero, with its line end.
func (s *source) line(n int) string { return s.text[s.lines[n]:s.lines[n+1]] }

// lineAt returns the number of the line in which an offset lies.
func (s *source) lineAt(offset int) int {
	n, _ := slices.BinarySearch(s.lines[:len(s.lines)-1], offset+1)
	return n - 1
}

// offset returns the byte at which a node begins, or -1 if the text has no such place. A
// node's column counts characters.
func (s *source) offset(line, column int) int {
	if line < 1 || line >= len(s.lines) {
		return -1
	}
	at := s.lines[line-1]
	for range column - 1 {
		_, size := utf8.DecodeRuneInString(s.text[at:s.lines[line]])
		if size == 0 {
			return -1
		}
		at += size
	}
	return at
}

func blank(line string) bool     { return strings.TrimSpace(line) == "" }
func isComment(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " \t"), "#") }
func indentOf(line string) int   { return len(line) - len(strings.TrimLeft(line, " ")) }

// isDisabled tells whether a comment is an entry that somebody has switched off. It is not
// about the entry below.
func isDisabled(line string) bool {
	return strings.HasPrefix(strings.TrimLeft(line, " \t#"), "- ")
}

// block says where the children of a block mapping or block sequence stand in a text, so that
// those which are not changed can be copied with every blank and comment.
type block struct {
	source   *source
	children []child
	column   int  // blanks before each key or dash
	inline   bool // the first child begins behind a dash
}

// child is the place of one key with its value, or of one entry of a list. Lines between the
// end of one child and the start of the next, such as blank ones, belong to neither.
type child struct {
	node  *yaml.Node // the key, or the entry
	start int        // the comments directly above it
	body  int        // its key or dash
	tail  int        // behind the line with its last character
	end   int        // behind the comments below it that are indented deeper than it
}

// measure finds the blocks of a document. A collection that is written in flow style, or in a
// way that cannot be taken apart by lines, is left out.
func measure(s *source, document *yaml.Node) map[*yaml.Node]*block {
	layout := map[*yaml.Node]*block{}
	if strings.ContainsAny(strings.ReplaceAll(s.text, "\r\n", "\n"), "\r\u0085\u2028\u2029\ufeff") {
		return layout // YAML counts lines in another way there
	}
	measureNode(layout, s, document.Content[0], 0, len(s.text))
	return layout
}

// measureNode measures a node whose comments begin at from and whose last line ends before until.
func measureNode(layout map[*yaml.Node]*block, s *source, node *yaml.Node, from, until int) {
	if node.Style&yaml.FlowStyle != 0 || len(node.Content) == 0 {
		return
	}
	b := &block{source: s}
	step := 1
	if node.Kind == yaml.MappingNode {
		step = 2
	}
	for i := 0; i < len(node.Content); i += step {
		if !b.begin(node, node.Content[i]) {
			return
		}
	}
	b.finish(from, until)
	layout[node] = b
	for i, c := range b.children {
		value := node.Content[i*step+step-1]
		measureNode(layout, s, value, s.lines[s.lineAt(c.body)+1], c.end)
	}
}

// begin notes where a child begins: alone on its line, save that the first may stand behind
// the dash of an entry.
func (b *block) begin(parent, node *yaml.Node) bool {
	column := node.Column
	if parent.Kind == yaml.SequenceNode {
		column = parent.Column
	}
	body := b.source.offset(node.Line, column)
	if body < 0 || body >= len(b.source.text) || (parent.Kind == yaml.SequenceNode && b.source.text[body] != '-') {
		return false
	}
	before := b.source.text[b.source.lines[node.Line-1]:body]
	if len(b.children) == 0 {
		b.column, b.inline = len(before), !blank(before)
		if strings.Trim(before, " -") != "" {
			return false
		}
	} else if !blank(before) || len(before) != b.column || body <= b.children[len(b.children)-1].body {
		return false
	}
	b.children = append(b.children, child{node: node, start: body, body: body})
	return true
}

// finish finds the ends of the children and the comments that belong to them.
func (b *block) finish(from, until int) {
	s := b.source
	for i := range b.children {
		c := &b.children[i]
		first := s.lineAt(c.body)
		if i > 0 || !b.inline {
			c.start = s.lines[first]
			for n := first - 1; n >= 0 && s.lines[n] >= from && isComment(s.line(n)) && !isDisabled(s.line(n)); n-- {
				c.start = s.lines[n]
			}
		}
		window := until
		if i+1 < len(b.children) {
			window = s.lines[s.lineAt(b.children[i+1].body)]
		}
		last := s.lineAt(max(c.body, window-1))
		for last > first && (blank(s.line(last)) || isComment(s.line(last))) {
			last--
		}
		c.tail, c.end = s.lines[last+1], s.lines[last+1]
		for n := last + 1; s.lines[n] < window && isComment(s.line(n)) && indentOf(s.line(n)) > b.column; n++ {
			c.end = s.lines[n+1]
		}
		from = c.end
	}
}
