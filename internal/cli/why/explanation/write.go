package explanation

import (
	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
)

var answerColors = map[Answer]output.Color{Yes: output.Green, No: output.Red, Unknown: output.Faint}

// Render returns a paragraph, what mode Enforce would do, the gates, the holders of cards, and what would help.
func (d Document) Render(style output.Style) string {
	text := output.Indent(output.Clean(d.Summary), "", "")
	if d.Message != "" {
		speaker := "The scheduler"
		if d.Reason == v1alpha1.BlockedPodGroupNotFound { // which the scheduler does not see
			speaker = "The operator"
		}
		text += output.Indent(speaker+" says: "+output.Clean(d.Message), "", "")
	}

	for _, sentence := range d.Forecast {
		text += output.Indent(output.Clean(sentence), "", "")
	}

	text += d.renderGates(style) + d.renderHolders(style)
	if len(d.Advice) > 0 {
		text += "\nWhat would help:\n"
	}
	for _, advice := range d.Advice {
		text += output.Indent(output.Clean(advice), "- ", "  ")
	}

	return text + output.Notes(d.Unread)
}

// renderGates returns a table of the gates, "" for none.
func (d Document) renderGates(style output.Style) string {
	if len(d.Gates) == 0 {
		return ""
	}
	grid := output.Grid{Columns: []output.Column{{Header: "GATE", Shrinks: true}, {Header: "OPEN"}, {Header: "DETAIL", Shrinks: true}}}
	for _, gate := range d.Gates {
		grid.AddRow(output.Text(gate.Name), output.Colored(string(gate.Answer), answerColors[gate.Answer]), output.Text(gate.Detail))
	}
	return "\n" + grid.Render(style)
}

// renderHolders returns a table of the workloads that use most of the cards, "" for none.
func (d Document) renderHolders(style output.Style) string {
	if len(d.Holders) == 0 {
		return ""
	}

	grid := output.Grid{Columns: []output.Column{{Header: "HOLDS", Right: true}, {Header: "CARD", Shrinks: true}, {Header: "WORKLOAD", Shrinks: true}, {Header: "QUEUE", Shrinks: true}, {Header: "TYPE", Shrinks: true}}}
	for _, holder := range d.Holders {
		name := output.DescribeWorkload(holder.Workload)
		if holder.Workload.Name == "" {
			name = "of other namespaces"
		}
		grid.AddRow(output.Number(holder.Count), output.Text(holder.Card), output.Text(name), output.Text(holder.Queue), output.Text(holder.ServiceType))
	}

	return "\n" + grid.Render(style)
}
