package inventoryview

import (
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

// NodeList is the document of kubectl cardquota inventory --nodes.
type NodeList struct {
	output.TypeMeta `json:",inline"`
	// Items are the nodes with cards or an anomaly, sorted by name, with an item for each card.
	Items []Node `json:"items"`
}

// Node is one card of a node. A node without a card that can be counted has one item without a card.
type Node struct {
	// Name is the name of the node.
	Name string `json:"name"`
	// Card and Resource are the card name, and the resource that pods request.
	Card     string `json:"card,omitempty"`
	Resource string `json:"resource,omitempty"`
	// Sharing is how the cards are shared, such as time-slicing or mps. Unset for cards that are not.
	Sharing string `json:"sharing,omitempty"`
	// Total is the number of allocatable cards.
	Total int64 `json:"total"`
	// Used is what pods hold, also terminating ones, and Free what is left. Both are unset if the pods
	// may not be read.
	Used *int64 `json:"used,omitempty"`
	Free *int64 `json:"free,omitempty"`
	// Ready and Cordoned are the state of the node.
	Ready    bool `json:"ready"`
	Cordoned bool `json:"cordoned,omitempty"`
	// Anomalies say what is wrong with its labels.
	Anomalies []string `json:"anomalies,omitempty"`
}

// NewNodeList returns the cards by node. charges has what each pod holds; hasPods is false if the pods
// may not be read.
func NewNodeList(nodes []card.NodeState, pods []*corev1.Pod, charge func(*corev1.Pod) quota.Charge, hasPods bool) NodeList {
	used := heldByNode(pods, charge)
	list := NodeList{TypeMeta: output.NewTypeMeta("InventoryNodeList"), Items: []Node{}}
	for _, node := range nodes {
		base := Node{Name: node.Name, Ready: node.IsReady, Cordoned: node.IsCordoned}
		for _, anomaly := range node.Anomalies {
			base.Anomalies = append(base.Anomalies, string(anomaly.Reason)+": "+anomaly.Message)
		}

		for _, offered := range node.Cards {
			item := base
			item.Card = string(offered.Name)
			item.Resource = string(offered.Resource)
			item.Total = int64(offered.Count)
			item.Sharing = node.Sharing[offered.Resource]

			if hasPods {
				held := used[types.NamespacedName{Namespace: node.Name, Name: string(offered.Name)}]
				taken := int64(held)
				free := int64(offered.Count.Sub(held))
				item.Used = &taken
				item.Free = &free
			}
			list.Items = append(list.Items, item)
		}

		if len(node.Cards) == 0 && len(base.Anomalies) > 0 {
			list.Items = append(list.Items, base)
		}
	}

	return list
}

// IdleCards returns by name how many cards are free on Ready nodes that are not cordoned.
func (l NodeList) IdleCards() map[string]int64 {
	idle := map[string]int64{}
	for _, item := range l.Items {
		if item.Ready && !item.Cordoned && item.Free != nil {
			idle[item.Card] += *item.Free
		}
	}
	return idle
}

// Objects returns the nodes of the list, each once.
func (l NodeList) Objects() []metav1.PartialObjectMetadata {
	var objects []metav1.PartialObjectMetadata
	for i, item := range l.Items {
		if i > 0 && l.Items[i-1].Name == item.Name {
			continue
		}
		objects = append(objects, metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: item.Name}})
	}
	return objects
}

// heldByNode returns what pods hold, by node and card name.
func heldByNode(pods []*corev1.Pod, charge func(*corev1.Pod) quota.Charge) map[types.NamespacedName]card.Count {
	held := map[types.NamespacedName]card.Count{}
	for _, pod := range pods {
		if !workload.MayBeRunning(pod) {
			continue
		}
		for _, amount := range charge(pod).Cards {
			key := types.NamespacedName{Namespace: pod.Spec.NodeName, Name: string(amount.Name)}
			held[key] = held[key].Add(amount.Count)
		}
	}
	return held
}

// Write writes the nodes as a table.
func (l NodeList) Write(w io.Writer, style output.Style) error {
	grid := output.Grid{Columns: []output.Column{{Header: "NODE", Shrinks: true}, {Header: "CARD", Shrinks: true}, {Header: "TOTAL", Right: true},
		{Header: "USED", Right: true}, {Header: "FREE", Right: true}, {Header: "USAGE"}, {Header: "STATE"}}}

	isShared := slices.ContainsFunc(l.Items, func(item Node) bool { return item.Sharing != "" })
	if isShared {
		grid.Columns = append(grid.Columns, output.Column{Header: "SHARING"})
	}

	if style.Wide {
		grid.Columns = append(grid.Columns, output.Column{Header: "RESOURCE"})
	}

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

		row := item.row(name)
		if isShared {
			row = append(row, output.Text(item.Sharing))
		}
		if style.Wide {
			row = append(row, output.Text(item.Resource))
		}
		grid.AddRow(row...)

		isLast := i == len(l.Items)-1 || l.Items[i+1].Name != item.Name
		if isLast && len(item.Anomalies) > 0 {
			grid.AddRow(output.Text(""), anomalies)
		}
	}

	return grid.Write(w, style)
}

// row returns the cells of the columns that every table of nodes has. name is that of the node, or "" below
// another row of the node.
func (n Node) row(name string) []output.Cell {
	state := n.state()
	row := []output.Cell{output.Text(name), output.Text(n.Card), output.Number(n.Total), optionalNumber(n.Used), optionalNumber(n.Free), output.Text("?"), output.Text(state)}
	if n.Used != nil {
		row[5] = output.Bar(output.Share{Used: *n.Used, Quota: n.Total}, barColumns)
	}
	if state != "Ready" {
		row[6] = output.Colored(state, output.Yellow)
	}
	return row
}

func optionalNumber(n *int64) output.Cell {
	if n == nil {
		return output.Text("?")
	}
	return output.Number(*n)
}

func (n Node) state() string {
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
