package output

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// barText returns the characters of a bar: # used, + borrowed, ! above the quota, . free.
func barText(usage Usage, columns int) string {
	var b strings.Builder
	for _, span := range Bar(usage, columns) {
		b.WriteString(span.Text)
	}
	return b.String()
}

// TestABarShowsUsedBorrowedAndFreeCards: a bar of 10 characters is the quota: # is used, + is borrowed, . is free. A
// part that is not empty has at least one character, so that one card of a thousand is seen. Use above the quota ends
// the bar with !.
func TestABarShowsUsedBorrowedAndFreeCards(t *testing.T) {
	for want, usage := range map[string]Usage{
		"..........": {Quota: 8},
		"#.........": {Used: 1, Quota: 1000},
		"#####.....": {Used: 4, Quota: 8},
		"##+++.....": {Used: 4, Borrowed: 2, Quota: 8}, // 4 of 8 used: 5 characters; half of these is borrowed: 2.5, rounded up
		"#########.": {Used: 999, Quota: 1000},
		"##########": {Used: 8, Quota: 8},
		"#########!": {Used: 9, Quota: 8},
		"+++++++++!": {Used: 9, Borrowed: 9, Quota: 0},
	} {
		check.Equal(t, "bar", want, barText(usage, 10))
	}
}

// TestABarIsFullOnlyAtTheQuota: a user must see whether one card is left. For any numbers and width, a bar shows a free
// part (.) exactly below the quota, and ! exactly above it. It shows used cards (#, + or !) exactly if there are some.
// A queue without quota and use has an empty bar. A bar of one character has no place for a free part beside used cards.
func TestABarIsFullOnlyAtTheQuota(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		usage := Usage{Used: rapid.Int64Range(0, 1_000_000).Draw(t, "used"), Quota: rapid.Int64Range(0, 1_000_000).Draw(t, "quota")}
		usage.Borrowed = rapid.Int64Range(0, usage.Used).Draw(t, "borrowed")
		columns := rapid.IntRange(1, 40).Draw(t, "columns")
		bar := barText(usage, columns)
		what := fmt.Sprintf("%+v: %q", usage, bar)
		check.Equal(t, what+": length", columns, len(bar))
		check.Equal(t, what+": above the quota", usage.Used > usage.Quota, strings.Contains(bar, "!"))
		check.Equal(t, what+": used", usage.Used > 0, strings.ContainsAny(bar, "#+!"))

		isFree := usage.Used < usage.Quota || (usage.Used == 0 && usage.Quota == 0)
		check.That(t, columns == 1 || strings.Contains(bar, ".") == isFree, "%s: free is %t", what, isFree)
	})
}

// TestATableFitsATerminal: names of tenants may have any length and any characters. A table breaks long cells into
// lines of at most 80 columns, and has no escape sequence that would control the terminal. A heading is a row of one
// cell.
func TestATableFitsATerminal(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		grid := Grid{Columns: []Column{{Header: "NAME", Shrinks: true}, {Header: "CARD", Shrinks: true}, {Header: "N", Right: true}}}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			name := Text(rapid.String().Draw(t, "name"))
			card := Colored(rapid.StringN(0, 200, -1).Draw(t, "card"), Red)
			grid.AddRow(name, card, Number(rapid.Int64().Draw(t, "n")))
			grid.AddRow(Text(rapid.String().Draw(t, "heading")))
		}

		table := grid.Render(Style{})
		check.That(t, strings.Count(table, "\n") > len(grid.Rows), "fewer lines than a header and each row:\n%s", table)
		for line := range strings.Lines(table) {
			check.That(t, Width(strings.TrimRight(line, "\n")) <= Columns, "%d columns: %q", Width(line), line)
			check.That(t, !strings.Contains(line, "\x1b"), "an escape sequence: %q", line)
		}
	})
}

// TestBreakKeepsEveryCharacter: a name that is longer than its column continues on the next line, so that users can
// copy it. No character but spaces is lost.
func TestBreakKeepsEveryCharacter(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := Clean(rapid.String().Draw(t, "text"))
		columns := rapid.IntRange(2, 20).Draw(t, "columns")
		lines := Break(text, columns)
		for _, line := range lines {
			check.That(t, Width(line) <= columns, "%d columns: %q", Width(line), line)
		}
		check.Equal(t, "text without spaces", strings.ReplaceAll(text, " ", ""), strings.ReplaceAll(strings.Join(lines, ""), " ", ""))
	})
}

// TestAWideTableBreaksNothing: with -o wide each row is one line, whatever the terminal, as scripts need it. The name
// here has 160 characters.
func TestAWideTableBreaksNothing(t *testing.T) {
	grid := Grid{Columns: []Column{{Header: "NAME", Shrinks: true}, {Header: "N", Right: true}}}
	long := strings.Repeat("long", 40)
	grid.AddRow(Text(long), Number(1))
	check.Contains(t, "table", grid.Render(Style{Wide: true}), long+"  1\n")
}

// TestColorsAreOnTerminalsOnly: an output with colors has a bold header (1m) and a red cell (31m). In a file, which
// has no colors, both are plain text.
func TestColorsAreOnTerminalsOnly(t *testing.T) {
	grid := Grid{Columns: []Column{{Header: "NAME"}}}
	grid.AddRow(Colored("held", Red))
	for color, want := range map[bool]string{false: "NAME\nheld\n", true: "\x1b[1mNAME\x1b[0m\n\x1b[31mheld\x1b[0m\n"} {
		check.Equal(t, "table", want, grid.Render(Style{Color: color}))
	}
}

// TestWidthCountsTheColumnsOfATerminal: a terminal shows a Chinese character in two columns, a halfwidth Japanese one in
// one, and an accent that is a character of its own in none.
func TestWidthCountsTheColumnsOfATerminal(t *testing.T) {
	for text, columns := range map[string]int{"abc": 3, "显卡": 4, "e\u0301": 1, "ﾊ": 1, "": 0} {
		check.Equal(t, "width of "+text, columns, Width(text))
	}
}

// TestCleanLeavesNoCharacterThatControlsATerminal: texts of tenants reach the terminal of an administrator. Line ends
// and tabs become spaces. Escape sequences, a change of the direction of writing (U+202E) and invalid bytes become ?.
func TestCleanLeavesNoCharacterThatControlsATerminal(t *testing.T) {
	check.Equal(t, "text with control characters", "a b ?[2J ? 显卡", Clean("a\n\tb \x1b[2J \u202e 显卡"))
	check.Equal(t, "text that is not UTF-8", "a?b", Clean("a\xffb"))
}

// TestWhereTextsAreBroken: Break breaks a cell after a space or a mark such as - and /, and inside a word only where
// nothing else fits. Wrap breaks sentences at spaces and line ends, and lets a Latin word be longer than the line.
// A Chinese word that does not fit begins a new line. If it is longer than a line, Wrap breaks it between any two
// characters, which have two columns each.
func TestWhereTextsAreBroken(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		text    string
		columns int
		split   func(text string, columns int) []string
		want    []string
	}{
		"a cell that fits":                                 {"abc", 3, Break, []string{"abc"}},
		"a cell between words":                             {"ab cd efg", 5, Break, []string{"ab cd", "efg"}},
		"a cell after marks":                               {"NVIDIA-H200/mig-1g", 7, Break, []string{"NVIDIA-", "H200/", "mig-1g"}},
		"a cell that is indented: so is each line":         {"  ab-cd", 5, Break, []string{"  ab-", "  cd"}},
		"a cell without spaces and marks":                  {"显卡配额", 5, Break, []string{"显卡", "配额"}},
		"a cell of one column for wide runes":              {"显卡", 1, Break, []string{"显", "卡"}},
		"a word of six columns, two spaces and a line end": {"a  bb cccccc\nd", 4, Wrap, []string{"a bb", "cccccc", "d"}},
		"a Chinese word that does not fit behind a":        {"a 配额已用完", 4, Wrap, []string{"a", "配额", "已用", "完"}},
		"a sentence in one column of wide runes":           {"配额", 1, Wrap, []string{"配", "额"}},
	}) {
		check.Equal(t, "lines", tc.want, tc.split(tc.text, tc.columns))
	}
}

// TestJoinWordsWritesAnAlternative: JoinWords lists words for a sentence, as in "write table, wide or json".
func TestJoinWordsWritesAnAlternative(t *testing.T) {
	check.Equal(t, "three words", "a, b or c", JoinWords([]string{"a", "b", "c"}, "or"))
	check.Equal(t, "one word", "a", JoinWords([]string{"a"}, "or"))
}

// TestATableIsAsWideAsTheTerminal: 0 columns are an unknown terminal, which counts as one of 80, and 40 is the least.
// The name of 90 characters breaks where the terminal is too narrow for it, and stays whole in 160 columns.
func TestATableIsAsWideAsTheTerminal(t *testing.T) {
	grid := Grid{Columns: []Column{{Header: "NAME", Shrinks: true}, {Header: "CARD", Shrinks: true}, {Header: "N", Right: true}}}
	name := strings.Repeat("n", 90)
	grid.AddRow(Text(name), Text("NVIDIA-H200/mig-3g.71gb-mixed"), Number(1))
	grid.AddRow(Text("a heading " + name))
	for columns, mostColumns := range map[int]int{0: 80, 160: 160, 60: 60, 10: 40} {
		table := grid.Render(Style{Columns: columns})
		for line := range strings.Lines(table) {
			check.That(t, Width(strings.TrimRight(line, "\n")) <= mostColumns, "%d columns: %q", columns, line)
		}

		if columns == 160 {
			check.Contains(t, "table", table, name+"  NVIDIA-H200/mig-3g.71gb-mixed  1\n")
		}
	}
}
