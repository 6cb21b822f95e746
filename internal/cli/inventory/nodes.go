package inventory

import (
	"slices"
	"strings"

	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
)

// nodeTable is what the command shows a person of the cards by node.
type nodeTable nodecards.List

// Render returns the nodes as a table, with a row for each card. The name of a node is in its first row only.
// A row of two cells has the anomalies of a node, below its cards or instead of them: the second cell extends
// over all columns.
func (l nodeTable) Render(style output.Style) string {
	if len(l.Items) == 0 {
		return "No node offers cards.\n"
	}

	isShared := slices.ContainsFunc(l.Items, func(item nodecards.Node) bool { return item.Sharing != "" })
	grid := output.Grid{Columns: nodeColumns(isShared, style.Wide)}
	for i, item := range l.Items {
		name := item.Name
		if i > 0 && l.Items[i-1].Name == name {
			name = ""
		}

		anomalies := output.Colored(strings.Join(item.Anomalies, "; "), output.Red)
		if item.Card == "" {
			grid.AddRow(output.Text(name), anomalies)
			continue
		}

		row := nodeRow(item, name)
		if isShared {
			row = append(row, output.Text(item.Sharing))
		}
		if style.Wide {
			row = append(row, output.Text(item.Resource))
		}
		grid.AddRow(row...)

		// Anomalies belong to the node and not to one of its cards, so they follow the last one.
		isLast := i == len(l.Items)-1 || l.Items[i+1].Name != item.Name
		if isLast && len(item.Anomalies) > 0 {
			grid.AddRow(output.Text(""), anomalies)
		}
	}

	return grid.Render(style)
}

// nodeColumns returns the columns of a table of nodes.
func nodeColumns(isShared, isWide bool) []output.Column {
	columns := []output.Column{{Header: "NODE", Shrinks: true}, {Header: "CARD", Shrinks: true}, {Header: "TOTAL", Right: true},
		{Header: "USED", Right: true}, {Header: "FREE", Right: true}, {Header: "USAGE"}, {Header: "STATE"}}
	if isShared {
		columns = append(columns, output.Column{Header: "SHARING"})
	}
	if isWide {
		columns = append(columns, output.Column{Header: "RESOURCE"})
	}
	return columns
}

// nodeRow returns the cells of the columns that every table of nodes has. name is that of the node, or "" below
// another row of the node.
func nodeRow(n nodecards.Node, name string) []output.Cell {
	state := nodeState(n)
	bar := output.Text("?")
	if n.Used != nil {
		bar = output.Bar(output.Usage{Used: *n.Used, Quota: n.Total}, output.BarColumns)
	}
	stateCell := output.Text(state)
	if state != "Ready" {
		stateCell = output.Colored(state, output.Yellow)
	}
	return []output.Cell{output.Text(name), output.Text(n.Card), output.Number(n.Total), optionalNumber(n.Used), optionalNumber(n.Free), bar, stateCell}
}

// optionalNumber returns a number, or "?" for one that the user may not read.
func optionalNumber(n *int64) output.Cell {
	if n == nil {
		return output.Text("?")
	}
	return output.Number(*n)
}

// nodeState returns one word for a node. The state that keeps all pods away comes first.
func nodeState(n nodecards.Node) string {
	switch {
	case !n.Ready:
		return "NotReady"
	case n.Cordoned:
		return "Cordoned"
	case len(n.Anomalies) > 0:
		return "Anomaly"
	default:
		return "Ready"
	}
}
