package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"cardquota.dev/operator/internal/cli/output"
)

// Render returns the report as a table.
func (d Document) Render(style output.Style) string {
	title := output.Indent(fmt.Sprintf("Cards used from %s to %s.", formatTime(d.From), formatTime(d.To)), "", "") + "\n"
	switch {
	case len(d.Items) == 0 && d.isKnown:
		return title + "No card was used.\n" + output.Notes(d.Notes)
	case len(d.Items) == 0:
		return title + "Nothing is known of the cards that were used.\n" + output.Notes(d.Notes)
	}

	grid := output.Grid{Columns: []output.Column{{Header: "TENANT", Shrinks: true}}}
	if d.GroupedBy != ByTenant {
		grid.Columns = append(grid.Columns, output.Column{Header: "PROJECT", Shrinks: true})
	}

	if d.GroupedBy == ByQueue {
		grid.Columns = append(grid.Columns, output.Column{Header: "QUEUE", Shrinks: true})
	}

	grid.Columns = append(grid.Columns, output.Column{Header: "TYPE", Shrinks: true}, output.Column{Header: "CARD", Shrinks: true}, output.Column{Header: "CARD-HOURS", Right: true})
	if d.Currency != "" {
		grid.Columns = append(grid.Columns, output.Column{Header: "PRICE", Right: true}, output.Column{Header: strings.ToUpper(d.Currency), Right: true})
	}

	for _, row := range d.Items {
		grid.AddRow(d.cells(row)...)
	}

	// An empty project or queue would be shown as "-".
	grid.AddRow(d.cells(Row{Tenant: "Total", Project: " ", Queue: " ", CardHours: d.Total.CardHours, Amount: d.Total.Amount})...)
	return title + grid.Render(style) + output.Notes(d.Notes)
}

// cells returns the cells of a row, in the order of the columns that Render shows.
func (d Document) cells(row Row) []output.Cell {
	cells := []output.Cell{tenantCell(row)}
	if d.GroupedBy != ByTenant {
		cells = append(cells, nameCell(row.Project))
	}

	if d.GroupedBy == ByQueue {
		cells = append(cells, nameCell(row.Queue))
	}

	cells = append(cells, output.Text(row.ServiceType), output.Text(row.Card), output.Text(row.CardHours))
	if d.Currency != "" {
		cells = append(cells, output.Text(row.PerCardHour), output.Text(row.Amount))
	}

	return cells
}

// tenantCell shows the namespace of pods without a queue. A tenant has no slash in its name.
func tenantCell(row Row) output.Cell {
	if row.Namespace != "" {
		return output.Colored("namespace/"+row.Namespace, output.Faint)
	}
	return nameCell(row.Tenant)
}

// nameCell shows "-" for a queue without a tenant or project, and for pods without a queue.
func nameCell(name string) output.Cell {
	if name == "" {
		return output.Colored("-", output.Faint)
	}
	return output.Text(name)
}

// header are the columns of the csv. Within one version columns are added at the end only.
var header = []string{"from", "to", "tenant", "project", "queue", "service_type", "card", "card_seconds", "card_hours", "per_card_hour", "currency", "amount", "namespace"}

// WriteCSV writes the report by RFC 4180. It has no total, so that a program may add up all lines.
func (d Document) WriteCSV(w io.Writer) error {
	lines := [][]string{header}
	for _, row := range d.Items {
		currency := ""
		if row.Amount != "" {
			currency = d.Currency
		}

		lines = append(lines, []string{
			formatTime(d.From), formatTime(d.To), csvText(row.Tenant), csvText(row.Project), csvText(row.Queue), csvText(row.ServiceType), csvText(row.Card),
			row.CardSeconds, row.CardHours, row.PerCardHour, currency, row.Amount, csvText(row.Namespace),
		})
	}

	writer := csv.NewWriter(w)
	writer.UseCRLF = true
	return writer.WriteAll(lines)
}

// csvText returns a name that no spreadsheet takes for a formula. Names of Kubernetes are none, but the text of a
// ConfigMap may have others.
func csvText(text string) string {
	text = output.Clean(text)
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}
