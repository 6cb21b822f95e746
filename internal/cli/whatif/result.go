package whatif

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/simulation"
)

// Result is the document of kubectl cardquota whatif.
type Result struct {
	output.TypeMeta `json:",inline"`
	// Runs reports whether all pods of the files would run, and all that a drain moves. It is false too
	// if the drain would end pods for good.
	Runs bool `json:"runs"`
	// Pods are the pods of the files.
	Pods []Pod `json:"pods"`
	// Victims are the workloads that would lose pods. Of those that a drain evicts, they are the ones with
	// cards.
	Victims []Victim `json:"victims"`
	// LostCardSeconds is the work that all victims would lose.
	LostCardSeconds int64 `json:"lostCardSeconds"`
	// DrainedPods counts the pods that the drain moves, DrainedPlaced those of them that would find
	// another node, and DrainedEnded the pods that would end for good.
	DrainedPods   int `json:"drainedPods"`
	DrainedPlaced int `json:"drainedPlaced"`
	DrainedEnded  int `json:"drainedEnded"`
	// DrainedWaiting are the pods that the drain moves and that find no node.
	DrainedWaiting []Pod `json:"drainedWaiting,omitempty"`
	// OthersPlaced counts the pods of the cluster that wait now and would start as well. Others are their
	// workloads.
	OthersPlaced int       `json:"othersPlaced"`
	Others       []Started `json:"others"`
	// Waiting are the workloads of the cluster that would still wait. It is empty if files are given.
	Waiting []Waiting `json:"waiting"`
	// hidesWaiting reports whether the tables leave that out, because the question is another one.
	hidesWaiting bool
	// UncheckedClaims are the pods that would run unless the scheduler refuses their ResourceClaims.
	UncheckedClaims []string `json:"uncheckedClaims,omitempty"`
	// Settled reports whether the last sessions of the scheduler changed nothing.
	Settled bool `json:"settled"`
}

// Pod is where a pod would run, or why it would wait.
type Pod struct {
	// Namespace and Name are those of the pod.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Node is unset for a pod that waits.
	Node string `json:"node,omitempty"`
	// Cards are what it would use.
	Cards []Cards `json:"cards,omitempty"`
	// Reason is why it waits, as in the status of a CardQuota, Message what the scheduler says.
	Reason  v1alpha1.BlockedReason `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
}

// Cards are cards of one name.
type Cards struct {
	// Card is the card name.
	Card string `json:"card"`
	// Count is how many.
	Count int64 `json:"count"`
}

// Victim is a workload that would lose pods.
type Victim struct {
	// Workload is the workload, Queue its queue.
	Workload v1alpha1.WorkloadReference `json:"workload"`
	Queue    string                     `json:"queue"`
	// LostPods is how many pods it would lose.
	LostPods int `json:"lostPods"`
	// Cards are what these pods use.
	Cards []Cards `json:"cards"`
	// CardSeconds is the work that would be lost: cards times seconds since the start or the last checkpoint.
	CardSeconds int64 `json:"cardSeconds"`
	// For are the workloads that would get the place.
	For []v1alpha1.WorkloadReference `json:"for,omitempty"`
	// Drained reports whether the drain evicts it, not the scheduler.
	Drained bool `json:"drained,omitempty"`
	// Restarted is how many of the pods would start again at once on other nodes.
	Restarted int `json:"restarted"`
}

// Started is a workload of the cluster that waits now, and of which pods would start.
type Started struct {
	// Workload is the workload, Queue its queue.
	Workload v1alpha1.WorkloadReference `json:"workload"`
	Queue    string                     `json:"queue"`
	// Pods is how many would start, Cards what they would use, Nodes where.
	Pods  int      `json:"pods"`
	Cards []Cards  `json:"cards"`
	Nodes []string `json:"nodes"`
}

// Waiting is why pods of a workload would still wait.
type Waiting struct {
	// Workload is the workload, Queue its queue.
	Workload v1alpha1.WorkloadReference `json:"workload"`
	Queue    string                     `json:"queue"`
	// Card is the requested card with its alternatives, Count how many. Both are unset without cards.
	Card  string `json:"card,omitempty"`
	Count int64  `json:"count,omitempty"`
	// Reason is why it would wait, as in the status of a CardQuota, Message what the scheduler says.
	Reason  v1alpha1.BlockedReason `json:"reason"`
	Message string                 `json:"message,omitempty"`
}

// NewResult returns the document of a result. Runs is true if every pod of the files has a node, every pod that the
// drain moves finds another one, and the drain ends none for good.
func NewResult(r simulation.Result) Result {
	out := Result{
		TypeMeta: output.NewTypeMeta("Simulation"), Runs: r.DrainedPlaced >= r.DrainedPods && r.DrainedEnded == 0, Pods: []Pod{}, Victims: []Victim{},
		Others: []Started{}, Waiting: []Waiting{},
		DrainedPods: r.DrainedPods, DrainedPlaced: r.DrainedPlaced, DrainedEnded: r.DrainedEnded, OthersPlaced: r.OthersPlaced, Settled: r.IsSettled,
	}
	for _, name := range r.UncheckedClaims {
		out.UncheckedClaims = append(out.UncheckedClaims, name.String())
	}

	for _, p := range r.Pods {
		out.Pods = append(out.Pods, newPod(p))
		out.Runs = out.Runs && p.Node != ""
	}

	for _, p := range r.DrainedWaiting {
		out.DrainedWaiting = append(out.DrainedWaiting, newPod(p))
	}

	for _, v := range r.Victims {
		out.LostCardSeconds = quota.AddSaturating(out.LostCardSeconds, v.CardSeconds)
		out.Victims = append(out.Victims, Victim{
			Workload: v.Workload, Queue: v.Queue, LostPods: v.Pods, Cards: newCards(v.Cards), CardSeconds: v.CardSeconds, For: v.For, Drained: v.IsDrained, Restarted: v.Restarted,
		})
	}

	for _, started := range r.Others {
		out.Others = append(out.Others, Started{Workload: started.Workload, Queue: started.Queue, Pods: started.Pods, Cards: newCards(started.Cards), Nodes: started.Nodes})
	}
	for _, entry := range r.Waiting {
		out.Waiting = append(out.Waiting, Waiting{Workload: entry.Workload, Queue: entry.Queue, Card: entry.Card, Count: entry.Count, Reason: entry.Reason, Message: entry.Message})
	}

	return out
}

// newPod returns where the simulation places a pod.
func newPod(p simulation.Placement) Pod {
	counts := map[card.Name]card.Count{}
	for _, amount := range p.Cards {
		counts[amount.Name] = amount.Count
	}
	return Pod{Namespace: p.Namespace, Name: p.Name, Node: p.Node, Cards: newCards(counts), Reason: p.Reason, Message: p.Message}
}

// newCards returns cards with their number, sorted by name.
func newCards(counts map[card.Name]card.Count) []Cards {
	cards := []Cards{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		cards = append(cards, Cards{Card: string(name), Count: int64(counts[name])})
	}
	return cards
}

// Render returns the answer, and tables of the pods, of other workloads that would start or wait, and of the
// victims.
func (r Result) Render(style output.Style) string {
	return r.renderPods(style) + r.renderOthers(style) + r.renderWaiting(style) + r.renderVictims(style) + output.Notes(r.notes())
}

// renderPods says whether the pods of the files would run, and where, "" without files.
func (r Result) renderPods(style output.Style) string {
	if len(r.Pods) == 0 {
		return ""
	}

	placed := 0
	grid := output.Grid{Columns: []output.Column{{Header: "POD", Shrinks: true}, {Header: "NODE", Shrinks: true}, {Header: "CARDS", Shrinks: true}}}
	for _, pod := range r.Pods {
		node := output.Colored("waits", output.Yellow)
		if pod.Node != "" {
			placed++
			node = output.Text(pod.Node)
		}
		grid.AddRow(output.Text(pod.Namespace+"/"+pod.Name), node, output.Text(describeCards(pod.Cards)))
	}

	answer := style.Paint("It would run.", output.Green)
	if placed < len(r.Pods) {
		answer = style.Paint(fmt.Sprintf("It would wait: %d of %d pods would run.", placed, len(r.Pods)), output.Yellow)
	}

	return answer + "\n\n" + grid.Render(style) + output.Notes(reasonsOf(r.Pods))
}

// reasonsOf returns the reasons of the pods that wait, each once, with the number of pods.
func reasonsOf(pods []Pod) []string {
	count := map[string]int{}
	var texts []string
	for _, pod := range pods {
		if pod.Node != "" {
			continue
		}

		text := fmt.Sprintf("%s: %s", pod.Reason, pod.Message)
		count[text]++
		if count[text] == 1 {
			texts = append(texts, text)
		}
	}

	for i, text := range texts {
		texts[i] = fmt.Sprintf("%d waiting, %s", count[text], text)
	}

	return texts
}

// renderVictims returns the workloads that would lose pods, and what they would lose, "" for none.
func (r Result) renderVictims(style output.Style) string {
	if len(r.Victims) == 0 {
		return ""
	}

	grid := output.Grid{Columns: []output.Column{{Header: "DISPLACED", Shrinks: true}, {Header: "QUEUE", Shrinks: true}, {Header: "PODS", Right: true},
		{Header: "CARDS", Shrinks: true}, {Header: "LOST CARD-HOURS", Right: true}}}
	if style.Wide {
		grid.Columns = append(grid.Columns, output.Column{Header: "RESTARTED", Right: true}, output.Column{Header: "FOR"})
	}

	for _, v := range r.Victims {
		row := []output.Cell{output.Text(output.DescribeWorkload(v.Workload)), output.Text(v.Queue), output.Number(int64(v.LostPods)), output.Text(describeCards(v.Cards)),
			output.Text(cardHours(v.CardSeconds))}
		if style.Wide {
			var names []string
			for _, reclaimer := range v.For {
				names = append(names, output.DescribeWorkload(reclaimer))
			}
			if v.Drained {
				names = append(names, "the drain")
			}
			row = append(row, output.Number(int64(v.Restarted)), output.Text(strings.Join(names, ", ")))
		}
		grid.AddRow(row...)
	}

	return "\n" + grid.Render(style)
}

// notes say what would be lost, how the drained pods would end, and what the simulation leaves open.
func (r Result) notes() []string {
	var notes []string
	if len(r.Victims) > 0 {
		notes = append(notes, fmt.Sprintf("In all, %s card-hours of work would be lost.", cardHours(r.LostCardSeconds)))
	}

	if r.DrainedPods > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d pods that the drain moves would find another node.", r.DrainedPlaced, r.DrainedPods))
		for _, reason := range reasonsOf(r.DrainedWaiting) {
			notes = append(notes, "Of the drained node: "+reason)
		}
	}

	if r.DrainedEnded > 0 {
		notes = append(notes, fmt.Sprintf("%d pods would end for good, because nothing creates them again.", r.DrainedEnded))
	}

	if len(r.Victims) == 0 && r.DrainedPods+r.DrainedEnded == 0 {
		notes = append(notes, "Nothing would be displaced.")
	}

	if unchecked := len(r.UncheckedClaims); unchecked > 0 {
		notes = append(notes, fmt.Sprintf("%s ResourceClaims, which the simulation does not check. If one is for cards, the scheduler refuses its pod (%s): %s.",
			countPods(unchecked, "that would run have", "that would run has"), v1alpha1.BlockedUnmanagedClaim, conditions.JoinFirst(r.UncheckedClaims, maxUnchecked)))
	}

	if !r.Settled {
		notes = append(notes, "The simulation ended before the scheduler came to rest, so more may change.")
	}

	return notes
}

// maxUnchecked is how many pods a note names.
const maxUnchecked = 5

// cardHours returns card-seconds in hours, with the decimals of kubectl cardquota report.
func cardHours(seconds int64) string { return fmt.Sprintf("%.3f", float64(seconds)/3600) }

// describeCards returns cards with their number in one line: "8 NVIDIA-H200, 1 NVIDIA-H800".
func describeCards(cards []Cards) string {
	texts := make([]string, len(cards))
	for i, amount := range cards {
		texts[i] = fmt.Sprintf("%d %s", amount.Count, amount.Card)
	}
	return strings.Join(texts, ", ")
}
