package top

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/queueusage"
)

// grouping is by what pods are summed up, without CardQuotas.
type grouping string

// The groupings. Pods have a queue on a cluster with Volcano only.
const (
	byNamespace grouping = "namespace"
	byQueue     grouping = "queue"
)

// groupings are all groupings.
var groupings = []grouping{byNamespace, byQueue}

// groupOf returns the group of a pod.
func (g grouping) groupOf(namespace, queue string) string {
	if g == byQueue {
		return queue
	}
	return namespace
}

// UseList is the document of kubectl cardquota top without CardQuotas: which cards pods use, by namespace or queue.
type UseList struct {
	output.TypeMeta `json:",inline"`
	// By is namespace or queue.
	By string `json:"by"`
	// Items are the namespaces or queues whose pods use or request cards, sorted by name.
	Items []Use `json:"items"`
}

// Use is what the pods of a namespace or queue use.
type Use struct {
	// Name is that of the namespace or queue. It is empty for pods that are in no queue.
	Name string `json:"name"`
	// Cards are sorted by name.
	Cards []CardUse `json:"cards"`
}

// CardUse is the use of one card, in whole cards.
type CardUse struct {
	// Name is the card name, or that of a resource of which nothing names the card.
	Name string `json:"name"`
	// Used is what placed pods use, Pending what waiting pods and jobs without pods request.
	Used    int64 `json:"used"`
	Pending int64 `json:"pending"`
	// Physical is the number of these cards on all nodes, 0 if the user may not list them.
	Physical int64 `json:"physical"`
}

// newUseList returns the use of cards by group. With names it has those groups alone, and missing are names without
// cards.
func newUseList(by grouping, groups map[string]queueusage.Usage, fleet nodecards.Fleet, names ...string) (list UseList, missing []string) {
	list = UseList{TypeMeta: output.NewTypeMeta("CardUseList"), By: string(by), Items: []Use{}}
	physical := fleet.Inventory.Physical()
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		if cards := cardsOf(groups[name], physical); len(cards) > 0 {
			list.Items = append(list.Items, Use{name, cards})
		}
	}

	for _, name := range names {
		if !slices.ContainsFunc(list.Items, func(use Use) bool { return use.Name == name }) {
			missing = append(missing, name)
		}
	}

	return list, missing
}

// cardsOf returns the cards of a group that are used or pending, sorted by name.
func cardsOf(usage queueusage.Usage, physical map[card.Name]card.Count) []CardUse {
	used := usage.CardsInUse()
	all := maps.Clone(used)
	maps.Copy(all, usage.Pending)
	var cards []CardUse
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if used[name] > 0 || usage.Pending[name] > 0 {
			cards = append(cards, CardUse{string(name), int64(used[name]), int64(usage.Pending[name]), int64(physical[name])})
		}
	}
	return cards
}

// Objects returns the namespaces or queues of the list.
func (l UseList) Objects() []metav1.PartialObjectMetadata {
	kind := metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}
	if l.By == string(byQueue) {
		kind = metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Queue"}
	}

	var objects []metav1.PartialObjectMetadata
	for _, use := range l.Items {
		if use.Name != "" {
			objects = append(objects, metav1.PartialObjectMetadata{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{Name: use.Name}})
		}
	}

	return objects
}

// Render returns the list as a table. The bar is what a group uses of all these cards.
func (l UseList) Render(style output.Style) string {
	if len(l.Items) == 0 {
		return "No pod uses or requests cards.\n"
	}

	header := "NAMESPACE, CARD"
	if l.By == string(byQueue) {
		header = "QUEUE, CARD"
	}

	grid := output.Grid{Columns: []output.Column{{Header: header, Shrinks: true}, {Header: "USED", Right: true},
		{Header: "PENDING", Right: true}, {Header: "PHYSICAL", Right: true}, {Header: "USAGE"}}}
	for _, use := range l.Items {
		grid.AddRow(output.Colored(cmp.Or(use.Name, "(no queue)"), output.Bold))
		for _, card := range use.Cards {
			physical := output.Number(card.Physical)
			bar := output.Bar(output.Usage{Used: card.Used, Quota: card.Physical}, output.BarColumns)
			if card.Physical == 0 {
				physical = output.Text("?")
				bar = output.Text("")
			}
			grid.AddRow(output.Indented(1, card.Name), output.Number(card.Used), output.Number(card.Pending), physical, bar)
		}
	}

	return grid.Render(style)
}

// unnamedNotes say which cards nothing names. hasNodes reports whether the user may list nodes.
func (l UseList) unnamedNotes(hasNodes bool) []string {
	var unnamed []string
	for _, use := range l.Items {
		for _, entry := range use.Cards {
			if !nodecards.IsNamed(card.Name(entry.Name)) && !slices.Contains(unnamed, entry.Name) {
				unnamed = append(unnamed, entry.Name)
			}
		}
	}

	switch {
	case len(unnamed) == 0:
		return nil
	case !hasNodes:
		return []string{"Only nodes say which card a resource is, so these cards have the name of their resource."}
	}
	slices.Sort(unnamed)
	return []string{"No label says which card " + output.JoinWords(unnamed, "or") + " is: kubectl cardquota inventory says what to do."}
}
