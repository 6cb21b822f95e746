package top

import (
	"fmt"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/forecast"
)

// maxForetold is how many workloads and namespaces a note names.
const maxForetold = 3

// forecastHeaders are the headers of the outcomes of a forecast. Only that of waiting workloads is always shown.
var forecastHeaders = []struct{ outcome, header string }{
	{"waiting", "WOULD WAIT"}, {"reclaimed", "RECLAIMED"}, {"withoutqueue", "NO QUEUE"}, {"bypassing", "BYPASSING"}, {"unknownservicetype", "UNKNOWN TYPE"},
}

// renderForecast returns what mode Enforce would change, as a table of workloads by CardQuota, with what no CardQuota
// decides about below. It is "" unless a CardQuota observes.
func (l List) renderForecast(style output.Style) string {
	if !slices.ContainsFunc(l.Items, func(u Usage) bool { return u.Mode == v1alpha1.ModeObserve }) {
		return ""
	}

	columns, rows := l.forecastTable()
	intro := "The policy only observes: no quota is enforced. "
	if len(rows) == 0 {
		intro += "Mode Enforce would change nothing for the workloads of these CardQuotas now."
	} else {
		intro += "Workloads that mode Enforce would treat differently; kubectl cardquota doctor names them:"
	}

	text := "\n" + output.Indent(intro, "", "")
	if len(rows) > 0 {
		grid := output.Grid{Columns: columns, Rows: rows}
		text += "\n" + grid.Render(style)
	}
	return text + output.Notes(l.forecastNotes())
}

// forecastTable returns the columns and rows of the CardQuotas with a forecast.
func (l List) forecastTable() ([]output.Column, [][]output.Cell) {
	totals := make([]map[string]int64, len(l.Items)) // by outcome
	isShown := map[string]bool{forecastHeaders[0].outcome: true}
	for i, usage := range l.Items {
		totals[i] = map[string]int64{}
		for _, outcome := range forecast.Outcomes(usage.Forecast) {
			totals[i][outcome.Name] = int64(outcome.Workloads.Total)
			isShown[outcome.Name] = true
		}
	}

	columns := []output.Column{{Header: "CARDQUOTA", Shrinks: true}}
	for _, of := range forecastHeaders {
		if isShown[of.outcome] {
			columns = append(columns, output.Column{Header: of.header, Right: true})
		}
	}

	var rows [][]output.Cell
	for i, usage := range l.Items {
		if len(totals[i]) == 0 {
			continue
		}

		row := []output.Cell{output.Indented(usage.Level, usage.Name)}
		for _, of := range forecastHeaders {
			if isShown[of.outcome] {
				row = append(row, output.Number(totals[i][of.outcome]))
			}
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// forecastNotes say what no CardQuota decides about.
func (l List) forecastNotes() []string {
	if l.Forecast == nil {
		return nil
	}

	var notes []string
	if unlimited := l.Forecast.Unlimited; unlimited != nil {
		notes = append(notes, fmt.Sprintf("No CardQuota counts %s with %s, so no quota limits them: %s.", conditions.CountThings(int(unlimited.Total), "workload"),
			conditions.CountThings(int(unlimited.Cards), "card"), output.DescribeForecast(unlimited, maxForetold)))
	}

	if namespaces := l.Forecast.AmbiguousNamespaces; len(namespaces) > 0 {
		names := make([]string, 0, maxForetold)
		for _, namespace := range namespaces[:min(len(namespaces), maxForetold)] {
			names = append(names, namespace.Name)
		}

		note := "Several CardQuotas select the same namespace, so its pods that name no queue count for none: " + strings.Join(names, ", ")
		if more := int(l.Forecast.AmbiguousNamespacesTotal) - len(names); more > 0 {
			note += fmt.Sprintf(" and %d more", more)
		}
		notes = append(notes, note+".")
	}
	return notes
}
