package output

import (
	"fmt"
	"strings"
)

// Color is the color of a text on a terminal.
type Color string

// The colors, as SGR parameters.
const (
	Plain  Color = ""
	Bold   Color = "1"
	Faint  Color = "2"
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
)

// Style is how a terminal shows texts.
type Style struct {
	// Color reports whether colors are shown.
	Color bool
	// Wide reports whether lines may be longer than Columns.
	Wide bool
	// Columns is the width of the terminal, 0 where there is none.
	Columns int
	// NoHeaders reports whether tables have no headers.
	NoHeaders bool
}

// leastColumns is what a table takes at least, also on a narrower terminal.
const leastColumns = 40

// tableColumns returns how many columns a table has at most: those of the terminal, otherwise Columns.
func (s Style) tableColumns() int {
	if s.Columns == 0 {
		return Columns
	}
	return max(s.Columns, leastColumns)
}

// Paint returns a text in a color.
func (s Style) Paint(text string, color Color) string {
	if !s.Color || color == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(color) + "m" + text + "\x1b[0m"
}

// Column is one column of a table.
type Column struct {
	Header string
	// Right aligns the column to the right, as numbers are.
	Right bool
	// Shrinks reports whether the column may be narrower than its texts, so that a table fits.
	// Such a text continues on the next line. The other columns must fit.
	Shrinks bool
}

// Span is a piece of a cell in one color.
type Span struct {
	Text  string
	Color Color
}

// Cell is the content of one cell.
type Cell []Span

// Text returns a cell without colors.
func Text(text string) Cell { return Cell{{Text: Clean(text)}} }

// Number returns a cell with a number.
func Number(n int64) Cell { return Cell{{Text: fmt.Sprint(n)}} }

// Indented returns a cell whose text is moved to the right, by two columns for each level.
func Indented(level int, text string) Cell {
	return Cell{{Text: strings.Repeat("  ", level) + Clean(text)}}
}

// Colored returns a cell in one color.
func Colored(text string, color Color) Cell { return Cell{{Text: Clean(text), Color: color}} }

func (c Cell) width() int { return Width(c.text()) }

// text returns the text of a cell.
func (c Cell) text() string {
	var all strings.Builder
	for _, span := range c {
		all.WriteString(span.Text)
	}
	return all.String()
}

// breakInto returns a cell as lines of at most so many columns. A cell that is too long loses its
// colors but the first.
func (c Cell) breakInto(columns int) []Cell {
	if c.width() <= columns {
		return []Cell{c}
	}
	var lines []Cell
	for _, line := range Break(c.text(), columns) {
		lines = append(lines, Cell{{Text: line, Color: c[0].Color}})
	}
	return lines
}

// Grid is a table. A row with fewer cells than columns is a heading: its last cell may extend
// over the columns behind it.
type Grid struct {
	Columns []Column
	Rows    [][]Cell
}

// AddRow adds a row.
func (g *Grid) AddRow(cells ...Cell) { g.Rows = append(g.Rows, cells) }

// columnGap is how many columns of the terminal are between two columns of a table.
const columnGap = 2

// leastWidths are the least widths of columns that shrink. The second counts only if the first does not
// make a table fit, for texts in it are hard to read.
var leastWidths = []int{12, 4}

// Render returns the table as text. Without style.Wide its lines are at most as wide as the terminal, or
// Columns where there is none, as long as the columns that do not shrink leave room.
func (g *Grid) Render(style Style) string {
	widths := g.columnWidths(style)
	var b strings.Builder

	header := make([]Cell, len(g.Columns))
	for i, column := range g.Columns {
		header[i] = Cell{{Text: column.Header, Color: Bold}}
	}

	if !style.NoHeaders {
		g.writeRow(&b, style, widths, header)
	}

	for _, row := range g.Rows {
		g.writeRow(&b, style, widths, row)
	}

	return b.String()
}

// columnWidths returns the widths of all columns. It takes what is too much from the widest
// columns that shrink.
func (g *Grid) columnWidths(style Style) []int {
	widths := make([]int, len(g.Columns))
	for i, column := range g.Columns {
		widths[i] = Width(column.Header)
		for _, row := range g.Rows {
			if len(row) == len(g.Columns) { // a heading has fewer cells, and extends over columns
				widths[i] = max(widths[i], row[i].width())
			}
		}
	}

	if style.Wide {
		return widths
	}

	excess := columnGap*(len(widths)-1) - style.tableColumns()
	for _, columns := range widths {
		excess += columns
	}

	// First all columns stay readable, at the first of leastWidths. Only if that is not enough they get
	// narrower still.
	for _, least := range leastWidths {
		for excess > 0 && g.narrowWidest(widths, least) {
			excess--
		}
	}

	return widths
}

// narrowWidest makes the widest column of those that shrink narrower by one, if it is wider than the least width.
// It reports whether there is such a column.
func (g *Grid) narrowWidest(widths []int, least int) bool {
	widest := -1
	for i, column := range g.Columns {
		if column.Shrinks && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	if widest >= 0 {
		widths[widest]--
	}
	return widest >= 0
}

// writeRow writes a row: first it breaks each cell into lines of its width, then it writes line by line. The row has
// as many lines as its longest cell.
func (g *Grid) writeRow(b *strings.Builder, style Style, widths []int, row []Cell) {
	cells := make([][]Cell, len(row))
	height := 1 // in lines
	used := 0   // columns of the terminal before the cell
	for i, cell := range row {
		width := widths[i]
		if g.isHeading(row, i) {
			width = style.tableColumns() - used
			if style.Wide {
				width = cell.width()
			}
		}

		cells[i] = cell.breakInto(width)
		height = max(height, len(cells[i]))
		used += widths[i] + columnGap
	}

	for n := range height {
		var line strings.Builder
		for i, lines := range cells {
			var cell Cell
			if n < len(lines) {
				cell = lines[n]
			}

			pad := strings.Repeat(" ", max(0, widths[i]-cell.width()))
			if g.Columns[i].Right && !g.isHeading(row, i) {
				line.WriteString(pad)
				pad = ""
			}

			for _, span := range cell {
				line.WriteString(style.Paint(span.Text, span.Color))
			}
			line.WriteString(pad + strings.Repeat(" ", columnGap))
		}

		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}

// isHeading reports whether a cell of a row may extend over the columns behind it.
func (g *Grid) isHeading(row []Cell, i int) bool {
	return len(row) < len(g.Columns) && i == len(row)-1
}
