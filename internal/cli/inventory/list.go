package inventory

import (
	"fmt"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/reader"
)

// List is the document of kubectl cardquota inventory.
type List struct {
	output.TypeMeta `json:",inline"`
	// Cards are those of the CardInventory, with its fields.
	Cards []v1alpha1.InventoryCard `json:"cards"`
	// Anomalies are those of the CardInventory, and AnomaliesTotal counts also those that it does not
	// list.
	Anomalies      []v1alpha1.InventoryAnomaly `json:"anomalies"`
	AnomaliesTotal int32                       `json:"anomaliesTotal"`
	// Counted reports whether allocated is known. It is not for a user who may neither read the CardInventory nor list
	// all pods.
	Counted bool `json:"counted"`
	// isOfNodes reports that there is no CardInventory, so that quotas are not known.
	isOfNodes bool
}

// NewList returns the inventory. A list without items is [] in JSON, not null.
func NewList(status v1alpha1.CardInventoryStatus) List {
	return List{
		TypeMeta: output.NewTypeMeta("InventoryCardList"), AnomaliesTotal: status.AnomaliesTotal, Counted: true,
		Cards: append([]v1alpha1.InventoryCard{}, status.Cards...), Anomalies: append([]v1alpha1.InventoryAnomaly{}, status.Anomalies...),
	}
}

// newListOfNodes returns the inventory of a cluster without a CardInventory, as the operator would count it. Cards that
// nothing names have the name of their resource.
func newListOfNodes(use *reader.Use, devices []cardinventory.DeviceSlice) List {
	all := func(string, string) string { return "" }
	count := cardinventory.NewCount(cardinventory.CountInput{
		Tree: cardquota.Flat, Usage: use.By(all), Totals: cardquota.Flat.QuotaTotals(nil, nil, nil),
	})

	tracker := use.Tracker()
	status := cardinventory.NewStatus(cardinventory.Input{Nodes: tracker.TrackedNodes(), Cards: tracker.Inventory(), Count: count, DeviceSlices: devices})
	status.Cards = cardinventory.NewStatus(cardinventory.Input{Nodes: use.Fleet.Nodes, Cards: use.Fleet.Inventory, Count: count}).Cards

	list := NewList(status)
	list.Counted = use.HasPods
	list.isOfNodes = true
	return list
}

// column is one column of the table, and what it shows of a card.
type column struct {
	output.Column
	isShown bool
	cell    func(v1alpha1.InventoryCard) output.Cell
}

// columns are the columns of the table. Some are shown only where they say something.
func (l List) columns(style output.Style) []column {
	hasCordoned := slices.ContainsFunc(l.Cards, func(c v1alpha1.InventoryCard) bool { return c.Cordoned > 0 })
	hasExcess := slices.ContainsFunc(l.Cards, func(c v1alpha1.InventoryCard) bool { return c.OverAllocatedBy > 0 })
	isShared := slices.ContainsFunc(l.Cards, func(c v1alpha1.InventoryCard) bool { return len(c.Sharing) > 0 })

	used := func(c v1alpha1.InventoryCard) output.Cell { return output.Number(c.Allocated) }
	bar := func(c v1alpha1.InventoryCard) output.Cell {
		return output.Bar(output.Usage{Used: c.Allocated, Quota: c.Total}, output.BarColumns)
	}
	if !l.Counted {
		unknown := func(v1alpha1.InventoryCard) output.Cell { return output.Text("?") }
		used = unknown
		bar = unknown
	}

	hasQuotas := !l.isOfNodes
	number := func(header string) output.Column { return output.Column{Header: header, Right: true} }
	return []column{
		{output.Column{Header: "CARD", Shrinks: true}, true, func(c v1alpha1.InventoryCard) output.Cell { return output.Text(c.Name) }},
		{number("TOTAL"), true, func(c v1alpha1.InventoryCard) output.Cell { return output.Number(c.Total) }},
		{number("HEALTHY"), true, func(c v1alpha1.InventoryCard) output.Cell { return highlightDifference(c.Healthy, c.Total) }},
		{number("CORDONED"), hasCordoned || style.Wide, func(c v1alpha1.InventoryCard) output.Cell { return highlightDifference(c.Cordoned, 0) }},
		{number("USED"), true, used},
		{number("QUOTA"), hasQuotas, func(c v1alpha1.InventoryCard) output.Cell { return output.Number(c.Quota) }},
		{number("EXCESS"), hasQuotas && (hasExcess || style.Wide), func(c v1alpha1.InventoryCard) output.Cell { return highlightDifference(c.OverAllocatedBy, 0) }},
		// Beside all other columns it would cut card names.
		{output.Column{Header: "USAGE"}, style.Wide || !hasCordoned || !hasExcess, bar},
		{output.Column{Header: "SHARING"}, isShared, func(c v1alpha1.InventoryCard) output.Cell { return output.Text(strings.Join(c.Sharing, ",")) }},
		{number("DESERVED"), hasQuotas && style.Wide, func(c v1alpha1.InventoryCard) output.Cell { return output.Number(c.Deserved) }},
		{output.Column{Header: "USED/QUOTA BY TYPE"}, hasQuotas && style.Wide, func(c v1alpha1.InventoryCard) output.Cell { return output.Text(describeTypes(c.ServiceTypes)) }},
		{output.Column{Header: "RESOURCES"}, style.Wide, func(c v1alpha1.InventoryCard) output.Cell { return output.Text(strings.Join(c.Resources, ",")) }},
	}
}

// Render returns the cards as a table, and the anomalies below it.
func (l List) Render(style output.Style) string {
	if len(l.Cards) == 0 && len(l.Anomalies) == 0 {
		if l.isOfNodes {
			return "No node offers cards.\n"
		}
		return "No node offers cards, and no CardQuota grants some.\n"
	}

	columns := slices.DeleteFunc(l.columns(style), func(c column) bool { return !c.isShown })
	var grid output.Grid
	for _, c := range columns {
		grid.Columns = append(grid.Columns, c.Column)
	}

	for _, card := range l.Cards {
		row := make([]output.Cell, len(columns))
		for i, c := range columns {
			row[i] = c.cell(card)
		}
		grid.AddRow(row...)
	}

	return grid.Render(style) + output.Notes(l.notes())
}

// highlightDifference returns a number, in color if it differs from what it should be.
func highlightDifference(n, expected int64) output.Cell {
	cell := output.Number(n)
	if n != expected {
		cell[0].Color = output.Yellow
	}
	return cell
}

// describeTypes returns used cards and quota of each service type: "inference 4/8, training 0/16".
func describeTypes(types []v1alpha1.InventoryServiceType) string {
	texts := make([]string, len(types))
	for i, t := range types {
		texts[i] = fmt.Sprintf("%s %d/%d", t.Name, t.Used, t.Quota)
	}
	return strings.Join(texts, ", ")
}

// notes describe the anomalies.
func (l List) notes() []string {
	var notes []string
	for _, anomaly := range l.Anomalies {
		notes = append(notes, fmt.Sprintf("%s: %s", anomaly.Reason, anomaly.Message))
	}
	if listed := len(l.Anomalies); listed > 0 && listed < int(l.AnomaliesTotal) {
		notes = append(notes, fmt.Sprintf("%d of %d anomalies are listed.", listed, l.AnomaliesTotal))
	}
	return notes
}
