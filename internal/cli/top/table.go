package top

import (
	"cmp"
	"slices"
	"strings"

	"cardquota.dev/operator/internal/cli/output"
)

// wideBarColumns are the columns of a bar in a wide terminal.
const wideBarColumns = 20

// Render returns the list as a table. A CardQuota has a line of its own, and below it a line for each
// card. In a tree they are indented by level, else below a line with their tenant. While quotas are only observed, what
// Enforce would change follows.
func (l List) Render(style output.Style) string {
	grid := output.Grid{Columns: l.columns(style)}
	last := ""
	for _, usage := range l.Items {
		indent := 1
		group := cmp.Or(usage.Tenant, "namespace "+usage.Namespace) // a LocalCardQuota has no tenant
		switch {
		case l.Tree:
			indent = usage.Level
		case group != last:
			grid.AddRow(output.Colored(group, output.Bold))
			last = group
		}

		grid.AddRow(l.heading(usage, indent, style))
		for _, card := range usage.Cards {
			grid.AddRow(l.cells(usage, card, indent+1, style)...)
		}
	}

	return grid.Render(style) + l.renderForecast(style)
}

// columns returns the columns of the table. cells has those of one line in the same order.
func (l List) columns(style output.Style) []output.Column {
	columns := []output.Column{{Header: "CARDQUOTA, CARD", Shrinks: true}, {Header: "QUOTA", Right: true}, {Header: "USED", Right: true}}
	if l.hasBorrowed() {
		columns = append(columns, output.Column{Header: "BORROWED", Right: true})
	}
	columns = append(columns, output.Column{Header: "PENDING", Right: true}, output.Column{Header: "FREE", Right: true})
	if style.Wide {
		columns = append(columns, output.Column{Header: "DESERVED", Right: true}, output.Column{Header: "PHYSICAL", Right: true})
	}
	return append(columns, output.Column{Header: "USAGE"})
}

// hasBorrowed reports whether the table needs a column of borrowed cards.
func (l List) hasBorrowed() bool {
	return l.Tree || slices.ContainsFunc(l.Items, func(usage Usage) bool {
		return slices.ContainsFunc(usage.Cards, func(card Card) bool { return card.Borrowed > 0 })
	})
}

// heading returns the line of a CardQuota: its name, in a tree its tenant, its project and service type, and why it is
// not ready.
func (l List) heading(usage Usage, indent int, style output.Style) output.Cell {
	cell := output.Indented(indent, usage.Name)
	about := slices.DeleteFunc([]string{usage.Project, usage.ServiceType}, func(text string) bool { return text == "" })
	if l.Tree {
		about = slices.Insert(about, 0, usage.Tenant)
	}
	if len(about) > 0 {
		cell = append(cell, output.Span{Text: " (" + output.Clean(strings.Join(about, ", ")) + ")", Color: output.Faint})
	}

	if !usage.Ready {
		why := usage.Reason
		if style.Wide {
			why += ": " + usage.Message
		}
		cell = append(cell, output.Span{Text: "  not ready: " + output.Clean(why), Color: output.Red})
	}

	return cell
}

// cells returns the line of a card of a CardQuota. What the operator has not counted is "?".
func (l List) cells(usage Usage, card Card, indent int, style output.Style) []output.Cell {
	number := output.Number
	if !usage.Counted {
		number = func(int64) output.Cell { return output.Text("?") }
	}

	used := number(card.Used)
	if card.OverQuotaBy > 0 {
		used[0].Color = output.Red
	}

	cells := []output.Cell{output.Indented(indent, card.Name), output.Number(card.Quota), used}
	if l.hasBorrowed() {
		cells = append(cells, number(card.Borrowed))
	}

	cells = append(cells, number(card.Pending), number(card.Available))
	bar := output.BarColumns
	if style.Wide {
		cells = append(cells, number(card.Deserved), number(card.Physical))
		bar = wideBarColumns
	}

	if !usage.Counted {
		return append(cells, output.Colored("not counted", output.Faint))
	}
	shown := output.Usage{Used: card.Used, Borrowed: card.Borrowed, Quota: card.Quota}
	return append(cells, output.Bar(shown, bar))
}
