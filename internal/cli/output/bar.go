package output

import "strings"

// Usage is what a bar shows: how much of a quota is used, and how much of that is borrowed.
type Usage struct {
	Used, Borrowed, Quota int64
}

// BarColumns are the columns of a bar beside other columns of a table.
const BarColumns = 10

// Bar returns a cell of so many columns: "#" for used, "+" for borrowed, "." for what is left of the
// quota, and "!" at the end if more is used than the quota. The characters differ, so that the bar
// needs no colors. A bar is full only when the quota is used up, and empty only when nothing is used.
func Bar(usage Usage, columns int) Cell {
	if columns < 1 || (usage.Quota <= 0 && usage.Used <= 0) {
		return Cell{{Text: strings.Repeat(".", max(columns, 0)), Color: Faint}}
	}

	over := usage.Used > usage.Quota // then the last column is "!"
	used := columns
	if !over {
		used = columnsFor(usage.Used, usage.Quota, columns)
	}

	borrowed := 0
	if usage.Borrowed > 0 {
		borrowed = columnsFor(min(usage.Borrowed, usage.Used), usage.Used, used)
	}

	cell := Cell{{Text: strings.Repeat("#", used-borrowed), Color: Green}, {Text: strings.Repeat("+", borrowed), Color: Yellow},
		{Text: strings.Repeat(".", columns-used), Color: Faint}}
	if over {
		cell = Cell{{Text: strings.Repeat("#", max(columns-1-borrowed, 0)), Color: Red},
			{Text: strings.Repeat("+", min(borrowed, columns-1)), Color: Red}, {Text: "!", Color: Red}}
	}

	return cell
}

// columnsFor returns how many of some columns a part of a whole takes, rounded. A part that is not empty takes one
// column, and a part that is not everything leaves one.
func columnsFor(part, whole int64, columns int) int {
	switch {
	case part <= 0 || whole <= 0 || columns <= 0:
		return 0
	case part >= whole:
		return columns
	}
	n := int(float64(part)/float64(whole)*float64(columns) + 0.5)
	return max(min(n, columns-1), 1)
}
