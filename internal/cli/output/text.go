package output

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Columns is the width of everything that is not wide.
const Columns = 80

// Clean returns a text on one line that cannot control a terminal. Tenants write names and
// messages, and an escape sequence in one of them must not reach an administrator's terminal.
func Clean(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// Width returns how many columns of a terminal a text takes: two for a wide character, none for a
// combining mark.
func Width(text string) int {
	columns := 0
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

// runeWidth returns how many columns of a terminal a character takes.
func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// Break breaks a text into lines of at most so many columns: behind a space, behind one of the
// marks that names are made of if that makes the line twice as long, or anywhere. All lines are
// indented as the first one. They contain the whole text, so that no name is cut off.
func Break(text string, columns int) []string {
	var lines []string

	// A deep indent on a narrow terminal would leave a word a line.
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	if Width(indent) > columns/2 {
		indent = ""
	}

	for Width(text) > columns {
		end := findBreak(text, len(indent), columns)
		lines = append(lines, strings.TrimRight(text[:end], " "))
		text = indent + strings.TrimLeft(text[end:], " ")
	}

	if strings.TrimLeft(text, " ") != "" || len(lines) == 0 {
		lines = append(lines, text)
	}

	return lines
}

// findBreak returns where the first line of a text ends, behind at least one rune after the indent: at the last
// space that fits, behind the last mark if that makes the line twice as long, and without both where the line is full.
// indent is in bytes.
func findBreak(text string, indent, columns int) int {
	var space, mark, used int // the last place for either break, 0 for none, and the columns until now
	for i, r := range text {
		used += runeWidth(r)
		switch {
		// The line is full. One space more does not count, because it is trimmed.
		case i > indent && used > columns && (r != ' ' || used > columns+1):
			if best := max(space, mark); 2*(space-indent) < best-indent { // a line up to the space would be less than half as long
				space = best
			}
			if space == 0 {
				space = i
			}
			return space
		case i > indent && r == ' ':
			space = i
		case i > indent && strings.ContainsRune("/-,", r):
			mark = i + 1
		}
	}

	return len(text)
}

// Wrap breaks a text into lines of at most so many columns, between words. A word that is longer
// has a line of its own, so that it can be copied. Scripts without spaces break anywhere.
func Wrap(text string, columns int) []string {
	var lines []string
	line := ""
	for _, word := range breakWide(strings.Fields(text), columns) {
		switch {
		case line == "":
			line = word
		case Width(line)+1+Width(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}

	if line != "" {
		lines = append(lines, line)
	}

	return lines
}

// breakWide breaks words that are longer than a line and have characters of another width than one column, as
// scripts without spaces have.
func breakWide(words []string, columns int) []string {
	var all []string
	for _, word := range words {
		if Width(word) <= columns || Width(word) == utf8.RuneCountInString(word) {
			all = append(all, word)
			continue
		}

		begin := 0
		used := 0
		for at, r := range word {
			used += runeWidth(r)
			if used > columns && at > begin {
				all = append(all, word[begin:at])
				begin = at
				used = runeWidth(r)
			}
		}
		all = append(all, word[begin:])
	}

	return all
}

// Indent wraps a text to Columns and puts a prefix before each line. The first line has another
// one of the same width.
func Indent(text, first, prefix string) string {
	var b strings.Builder
	for _, line := range Wrap(text, Columns-Width(prefix)) {
		b.WriteString(first + line + "\n")
		first = prefix
	}
	return b.String()
}

// Notes returns notes as they stand below a table, each as a paragraph, "" for none.
func Notes(notes []string) string {
	text := ""
	for i, note := range notes {
		if i == 0 {
			text = "\n"
		}
		text += Indent(Clean(note), "", "")
	}
	return text
}
