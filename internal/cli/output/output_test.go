package output

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

func barText(share Share, columns int) string {
	var b strings.Builder
	for _, span := range Bar(share, columns) {
		b.WriteString(span.Text)
	}
	return b.String()
}

func TestBars(t *testing.T) {
	for want, share := range map[string]Share{
		"..........": {Quota: 8},
		"#.........": {Used: 1, Quota: 1000},
		"#####.....": {Used: 4, Quota: 8},
		"##+++.....": {Used: 4, Borrowed: 2, Quota: 8},
		"#########.": {Used: 999, Quota: 1000},
		"##########": {Used: 8, Quota: 8},
		"#########!": {Used: 9, Quota: 8},
		"+++++++++!": {Used: 9, Borrowed: 9, Quota: 0},
	} {
		check.Equal(t, "bar", want, barText(share, 10))
	}
}

func TestABarIsFullOnlyAtTheQuota(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		share := Share{Used: rapid.Int64Range(0, 1_000_000).Draw(t, "used"), Quota: rapid.Int64Range(0, 1_000_000).Draw(t, "quota")}
		share.Borrowed = rapid.Int64Range(0, share.Used).Draw(t, "borrowed")
		columns := rapid.IntRange(1, 40).Draw(t, "columns")
		bar := barText(share, columns)
		check.That(t, len(bar) == columns, "%+v in %d columns: %q", share, columns, bar)
		if columns > 1 {
			check.That(t, strings.Contains(bar, ".") == (share.Used < share.Quota || (share.Used == 0 && share.Quota == 0)), "%+v: %q", share, bar)
		}

		check.That(t, strings.Contains(bar, "!") == (share.Used > share.Quota), "%+v: %q", share, bar)
		if share.Used > 0 {
			check.That(t, strings.ContainsAny(bar, "#+!"), "%+v: %q", share, bar)
		}
	})
}

func TestATableFitsATerminal(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		grid := Grid{Columns: []Column{{Header: "NAME", Shrinks: true}, {Header: "CARD", Shrinks: true}, {Header: "N", Right: true}}}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			grid.AddRow(Text(rapid.String().Draw(t, "name")), Colored(rapid.StringN(0, 200, -1).Draw(t, "card"), Red), Number(rapid.Int64().Draw(t, "n")))
			grid.AddRow(Text(rapid.String().Draw(t, "heading")))
		}

		var table bytes.Buffer
		check.NoError(t, grid.Write(&table, Style{}))
		check.That(t, strings.Count(table.String(), "\n") > len(grid.Rows), "a line for each row:\n%s", table.String())
		for line := range strings.Lines(table.String()) {
			check.That(t, Width(strings.TrimRight(line, "\n")) <= Columns, "%d columns: %q", Width(line), line)
			check.That(t, !strings.Contains(line, "\x1b"), "an escape sequence: %q", line)
		}
	})
}

func TestNoTextIsCutOff(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := Clean(rapid.String().Draw(t, "text"))
		columns := rapid.IntRange(2, 20).Draw(t, "columns")
		lines := Break(text, columns)
		for _, line := range lines {
			check.That(t, Width(line) <= columns, "%d columns: %q", Width(line), line)
		}
		check.Equal(t, "text", strings.ReplaceAll(text, " ", ""), strings.ReplaceAll(strings.Join(lines, ""), " ", ""))
	})
}

func TestAWideTableBreaksNothing(t *testing.T) {
	grid := Grid{Columns: []Column{{Header: "NAME", Shrinks: true}, {Header: "N", Right: true}}}
	long := strings.Repeat("long", 40)
	grid.AddRow(Text(long), Number(1))
	var table bytes.Buffer
	check.NoError(t, grid.Write(&table, Style{Wide: true}))
	check.Contains(t, "table", table.String(), long+"  1\n")
}

func TestColorsAreOnTerminalsOnly(t *testing.T) {
	grid := Grid{Columns: []Column{{Header: "NAME"}}}
	grid.AddRow(Colored("held", Red))
	for color, want := range map[bool]string{false: "NAME\nheld\n", true: "\x1b[1mNAME\x1b[0m\n\x1b[31mheld\x1b[0m\n"} {
		var table bytes.Buffer
		check.NoError(t, grid.Write(&table, Style{Color: color}))
		check.Equal(t, "table", want, table.String())
	}
}

func TestTextsOfAnyScript(t *testing.T) {
	for text, columns := range map[string]int{"abc": 3, "显卡": 4, "e\u0301": 1, "ﾊ": 1, "": 0} {
		check.Equal(t, "width of "+text, columns, Width(text))
	}

	check.Equal(t, "clean", "a b ?[2J ? 显卡", Clean("a\n\tb \x1b[2J \u202e 显卡"))
	check.Equal(t, "invalid", "a?b", Clean("a\xffb"))
	check.Equal(t, "at a mark", []string{"NVIDIA-", "H200/", "mig-1g"}, Break("NVIDIA-H200/mig-1g", 7))
	check.Equal(t, "between words", []string{"ab cd", "efg"}, Break("ab cd efg", 5))
	check.Equal(t, "anywhere", []string{"显卡", "配额"}, Break("显卡配额", 5))
	check.Equal(t, "indented", []string{"  ab-", "  cd"}, Break("  ab-cd", 5))
	check.Equal(t, "wide runes in one column", []string{"显", "卡"}, Break("显卡", 1))
	check.Equal(t, "short enough", []string{"abc"}, Break("abc", 3))
	check.Equal(t, "wrapped", []string{"a bb", "cccccc", "d"}, Wrap("a  bb cccccc\nd", 4))
	check.Equal(t, "without spaces", []string{"a", "配额", "已用", "完"}, Wrap("a 配额已用完", 4))
	check.Equal(t, "too narrow", []string{"配", "额"}, Wrap("配额", 1))
	check.Equal(t, "words", "a, b or c", JoinWords([]string{"a", "b", "c"}, "or"))
	check.Equal(t, "one word", "a", JoinWords([]string{"a"}, "or"))
}

// TestATableIsAsWideAsTheTerminal: a name breaks only where the terminal is too narrow for it.
func TestATableIsAsWideAsTheTerminal(t *testing.T) {
	grid := Grid{Columns: []Column{{Header: "NAME", Shrinks: true}, {Header: "CARD", Shrinks: true}, {Header: "N", Right: true}}}
	name := strings.Repeat("n", 90)
	grid.AddRow(Text(name), Text("NVIDIA-H200/mig-3g.71gb-mixed"), Number(1))
	grid.AddRow(Text("a heading " + name))
	for columns, most := range map[int]int{0: Columns, 160: 160, 60: 60, 10: 40} {
		var table bytes.Buffer
		check.NoError(t, grid.Write(&table, Style{Columns: columns}))
		for line := range strings.Lines(table.String()) {
			check.That(t, Width(strings.TrimRight(line, "\n")) <= most, "%d columns: %q", columns, line)
		}

		if columns == 160 {
			check.Contains(t, "table", table.String(), name+"  NVIDIA-H200/mig-3g.71gb-mixed  1\n")
		}
	}
}
