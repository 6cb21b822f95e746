package whatif

import (
	"fmt"
	"strings"

	"cardquota.dev/operator/internal/cli/output"
)

// maxListed is how many workloads of the cluster a table lists that is not wide.
const maxListed = 20

// renderOthers says which workloads of the cluster that wait now would start as well.
func (r Result) renderOthers(style output.Style) string {
	if len(r.Others) == 0 {
		return ""
	}

	text := fmt.Sprintf("%s would run:\n", countPods(r.OthersPlaced, "that wait now", "that waits now"))
	if len(r.Pods) > 0 {
		text = fmt.Sprintf("\n%s would run too:\n", countPods(r.OthersPlaced, "of the cluster that wait now", "of the cluster that waits now"))
	}

	grid := output.Grid{Columns: []output.Column{{Header: "RUNS", Shrinks: true}, {Header: "QUEUE", Shrinks: true}, {Header: "PODS", Right: true},
		{Header: "CARDS", Shrinks: true}, {Header: "NODES", Shrinks: true}}}
	for _, started := range limitRows(r.Others, style) {
		grid.AddRow(output.Text(output.DescribeWorkload(started.Workload)), output.Text(started.Queue), output.Number(int64(started.Pods)),
			output.Text(describeCards(started.Cards)), output.Text(strings.Join(started.Nodes, ", ")))
	}

	return text + grid.Render(style) + describeRest(style, len(r.Others))
}

// renderWaiting says which workloads of the cluster would still wait, and why. It says nothing if the user
// asks about workloads in files or about a drain. Its title depends on Others, the workloads that wait now
// and would run.
func (r Result) renderWaiting(style output.Style) string {
	title := "Nothing that waits now would run:\n"
	switch {
	case r.hidesWaiting:
		return ""
	case len(r.Others) > 0 && len(r.Waiting) > 0:
		title = "\nThese would still wait:\n"
	case len(r.Others) > 0:
		return "\nNothing else waits.\n"
	case len(r.Waiting) == 0:
		return "Nothing waits now.\n"
	}

	grid := output.Grid{Columns: []output.Column{{Header: "WAITS", Shrinks: true}, {Header: "QUEUE", Shrinks: true}, {Header: "CARDS", Shrinks: true}, {Header: "REASON"}}}
	for _, entry := range limitRows(r.Waiting, style) {
		cards := ""
		if entry.Card != "" {
			cards = fmt.Sprintf("%d %s", entry.Count, entry.Card)
		}
		grid.AddRow(output.Text(output.DescribeWorkload(entry.Workload)), output.Text(entry.Queue), output.Text(cards), output.Text(string(entry.Reason)))
	}

	return title + grid.Render(style) + describeRest(style, len(r.Waiting)) + output.Notes(messagesOf(r.Waiting))
}

// limitRows returns the first items of a list, all of them in a wide table.
func limitRows[T any](all []T, style output.Style) []T {
	if style.Wide {
		return all
	}
	return all[:min(len(all), maxListed)]
}

// describeRest says how many of all items the table leaves out.
func describeRest(style output.Style, all int) string {
	if style.Wide || all <= maxListed {
		return ""
	}
	return fmt.Sprintf("and %d more, which -o wide lists\n", all-maxListed)
}

// maxMessages is how many messages of the scheduler stand below a table.
const maxMessages = 5

// messagesOf returns the first message of each reason and queue, at most maxMessages: those of one queue
// and reason say nearly the same.
func messagesOf(waiting []Waiting) []string {
	type cause struct{ queue, reason string }
	seen := map[cause]bool{}
	var texts []string

	for _, entry := range waiting {
		why := cause{entry.Queue, string(entry.Reason)}
		if entry.Message == "" || seen[why] || len(texts) == maxMessages {
			continue
		}
		seen[why] = true
		texts = append(texts, fmt.Sprintf("%s: %s", entry.Reason, entry.Message))
	}

	return texts
}

// countPods returns "1 pod that waits" or "2 pods that wait".
func countPods(n int, many, one string) string {
	if n == 1 {
		return "1 pod " + one
	}
	return fmt.Sprintf("%d pods %s", n, many)
}
