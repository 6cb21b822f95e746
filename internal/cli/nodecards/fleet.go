package nodecards

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/card"
)

// Fleet is the cards of all nodes, also of nodes whose cards nothing names. Such a card has the name of its resource
// here, such as nvidia.com/gpu, which is no card name: no quota can name it. So cards can be counted on a cluster whose
// nodes have no labels of cards yet.
type Fleet struct {
	// Nodes are all nodes, sorted by name.
	Nodes []card.TrackedNode
	// Inventory has the cards of Nodes, and the resources that only pods name.
	Inventory *card.Inventory
}

// States returns the cards of all nodes, and whether pods can use them.
func (f Fleet) States() []card.NodeState {
	states := make([]card.NodeState, len(f.Nodes))
	for i := range f.Nodes {
		states[i] = f.Nodes[i].NodeState
	}
	return states
}

// IsNamed reports whether a name in a Fleet is a card name, and not that of a resource.
func IsNamed(name card.Name) bool {
	_, err := card.ParseName(string(name))
	return err == nil
}

// NewFleet returns the cards of nodes. pods are those that are counted with them: what they request and no known node
// offers is a card if it looks like one.
func NewFleet(tracker *card.Tracker, pods []*corev1.Pod) Fleet {
	known := tracker.Inventory()
	answers := map[corev1.ResourceName]bool{}
	isCard := func(resource corev1.ResourceName) bool {
		if _, isKnown := answers[resource]; !isKnown {
			answers[resource] = known.IsCard(resource) || card.LooksLikeCard(resource)
		}
		return answers[resource]
	}

	fleet := Fleet{Nodes: tracker.TrackedNodes()}
	nodes := map[string]card.Node{}
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		node.Cards = append(slices.Clone(node.Cards), unnamedCards(node, isCard)...)
		nodes[node.Name] = node.Node
	}

	// No node has an empty name.
	nodes[""] = card.Node{Cards: hiddenCards(card.NewInventory(nodes), pods, isCard)}
	fleet.Inventory = card.NewInventory(nodes, known.Resources()...)
	return fleet
}

// unnamedCards returns the cards of a node that nothing names, by the name of their resource, sorted. Withheld cards
// have a name.
func unnamedCards(node *card.TrackedNode, isCard func(corev1.ResourceName) bool) []card.NodeCard {
	var unnamed []card.NodeCard
	isOf := func(resource corev1.ResourceName) func(card.NodeCard) bool {
		return func(offered card.NodeCard) bool { return offered.Resource == resource }
	}
	for resource, quantity := range node.Object.Status.Allocatable {
		hasName := slices.ContainsFunc(node.Cards, isOf(resource)) || slices.ContainsFunc(node.Withheld, isOf(resource))
		isUnnamed := slices.Contains(node.Unnamed, resource) || isCard(resource)
		if isUnnamed && !hasName && quantity.Sign() > 0 {
			unnamed = append(unnamed, card.NodeCard{Name: card.Name(resource), Resource: resource, Count: card.NewCount(quantity)})
		}
	}

	sortByResource(unnamed)
	return unnamed
}

// hiddenCards returns the resources that pods request and that are cards of no known node. Their number is not known.
func hiddenCards(known *card.Inventory, pods []*corev1.Pod, isCard func(corev1.ResourceName) bool) []card.NodeCard {
	seen := map[corev1.ResourceName]bool{}
	var hidden []card.NodeCard
	for _, pod := range pods {
		for i := range pod.Spec.Containers {
			for resource := range pod.Spec.Containers[i].Resources.Requests {
				if !seen[resource] && len(known.NamesFor(resource)) == 0 && isCard(resource) {
					hidden = append(hidden, card.NodeCard{Name: card.Name(resource), Resource: resource})
				}
				seen[resource] = true
			}
		}
	}

	sortByResource(hidden)
	return hidden
}

// sortByResource sorts cards, because maps have no order.
func sortByResource(cards []card.NodeCard) {
	slices.SortFunc(cards, func(a, b card.NodeCard) int { return cmp.Compare(a.Resource, b.Resource) })
}
