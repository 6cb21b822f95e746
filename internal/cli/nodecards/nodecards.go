// Package nodecards has the cards of each node, and what of them is free. It is pure.
package nodecards

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/workload"
)

// List is the document of kubectl cardquota inventory --nodes.
type List struct {
	output.TypeMeta `json:",inline"`
	// Items are the nodes with cards or an anomaly, sorted by name, with an item for each card.
	Items []Node `json:"items"`
}

// Node is one card of a node. A node without a card that can be counted has one item without a card.
type Node struct {
	// Name is the name of the node.
	Name string `json:"name"`
	// Card and Resource are the card name, and the resource that pods request. A card that no label names has the name
	// of the resource in a Fleet.
	Card     string `json:"card,omitempty"`
	Resource string `json:"resource,omitempty"`
	// Sharing is how the cards are shared, such as time-slicing or mps. Unset for cards that are not.
	Sharing string `json:"sharing,omitempty"`
	// Total is the number of allocatable cards.
	Total int64 `json:"total"`
	// Used is what pods use, also terminating ones, and Free what is left. Both are unset if the pods
	// may not be read.
	Used *int64 `json:"used,omitempty"`
	Free *int64 `json:"free,omitempty"`
	// Ready and Cordoned are the state of the node.
	Ready    bool `json:"ready"`
	Cordoned bool `json:"cordoned,omitempty"`
	// Anomalies say what is wrong with its labels.
	Anomalies []string `json:"anomalies,omitempty"`
}

// NewList returns the cards by node. resolver knows what each pod uses. Without hasPods the user may not read the
// pods, so used and free cards are unknown.
func NewList(nodes []card.NodeState, pods []*corev1.Pod, resolver *workload.Resolver, hasPods bool) List {
	used := usedByNode(pods, resolver)
	list := List{TypeMeta: output.NewTypeMeta("InventoryNodeList"), Items: []Node{}}
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
				count := used[nodeCard{node.Name, offered.Name}]
				taken := int64(count)
				free := int64(offered.Count.Sub(count))
				item.Used = &taken
				item.Free = &free
			}
			list.Items = append(list.Items, item)
		}

		if len(node.Cards) == 0 && len(base.Anomalies) > 0 { // its cards cannot be recognised
			list.Items = append(list.Items, base)
		}
	}

	return list
}

// IdleCards returns by name how many cards are free on Ready nodes that are not cordoned.
func (l List) IdleCards() map[string]int64 {
	idle := map[string]int64{}
	for _, item := range l.Items {
		if item.Ready && !item.Cordoned && item.Free != nil {
			idle[item.Card] += *item.Free
		}
	}
	return idle
}

// Objects returns the nodes of the list for --output name, each once.
func (l List) Objects() []metav1.PartialObjectMetadata {
	var objects []metav1.PartialObjectMetadata
	for i, item := range l.Items {
		if i > 0 && l.Items[i-1].Name == item.Name {
			continue
		}
		objects = append(objects, metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: item.Name}})
	}
	return objects
}

// nodeCard is a card on a node.
type nodeCard struct {
	node string
	card card.Name
}

// usedByNode returns how many cards pods use on each node, also terminating pods.
func usedByNode(pods []*corev1.Pod, resolver *workload.Resolver) map[nodeCard]card.Count {
	used := map[nodeCard]card.Count{}
	for _, pod := range pods {
		if !workload.MayBeRunning(pod) {
			continue
		}
		for _, amount := range resolver.Usage(pod, nil, nil).Cards {
			key := nodeCard{pod.Spec.NodeName, amount.Name}
			used[key] = used[key].Add(amount.Count)
		}
	}
	return used
}
