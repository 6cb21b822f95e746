package explanation

import (
	"fmt"
	"io"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/output"
)

var answerColors = map[Answer]output.Color{Yes: output.Green, No: output.Red, Unknown: output.Faint}

// Write writes a paragraph, the gates, the holders of cards, and what would help.
func (d Document) Write(w io.Writer, style output.Style) error {
	if _, err := io.WriteString(w, output.Indent(output.Clean(d.Summary), "", "")); err != nil {
		return err
	}

	if d.Message != "" {
		speaker := "The scheduler"
		if d.Reason == v1alpha1.BlockedPodGroupNotFound { // which the scheduler does not see
			speaker = "The operator"
		}
		if _, err := io.WriteString(w, output.Indent(speaker+" says: "+output.Clean(d.Message), "", "")); err != nil {
			return err
		}
	}

	if err := d.writeGates(w, style); err != nil {
		return err
	}
	if err := d.writeHolders(w, style); err != nil {
		return err
	}

	var b strings.Builder
	if len(d.Advice) > 0 {
		b.WriteString("\nWhat would help:\n")
	}
	for _, advice := range d.Advice {
		b.WriteString(output.Indent(output.Clean(advice), "- ", "  "))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}

	return output.WriteNotes(w, d.Unread)
}

func (d Document) writeGates(w io.Writer, style output.Style) error {
	if len(d.Gates) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	grid := output.Grid{Columns: []output.Column{{Header: "GATE", Shrinks: true}, {Header: "OPEN"}, {Header: "DETAIL", Shrinks: true}}}
	for _, gate := range d.Gates {
		grid.AddRow(output.Text(gate.Name), output.Colored(string(gate.Answer), answerColors[gate.Answer]), output.Text(gate.Detail))
	}
	return grid.Write(w, style)
}

func (d Document) writeHolders(w io.Writer, style output.Style) error {
	if len(d.Holders) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}

	grid := output.Grid{Columns: []output.Column{{Header: "HOLDS", Right: true}, {Header: "CARD", Shrinks: true}, {Header: "WORKLOAD", Shrinks: true}, {Header: "QUEUE", Shrinks: true}, {Header: "TYPE", Shrinks: true}}}
	for _, holder := range d.Holders {
		name := output.DescribeWorkload(holder.Workload)
		if holder.Workload.Name == "" {
			name = "of other namespaces"
		}
		grid.AddRow(output.Number(holder.Count), output.Text(holder.Card), output.Text(name), output.Text(holder.Queue), output.Text(holder.ServiceType))
	}

	return grid.Write(w, style)
}
