package card

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Tracker keeps the Inventory of a cluster up to date, node by node. What a node
// says is read again only when its object is another one, and the Inventory is
// made again only when the cards of a node changed: as long as Inventory returns
// the same pointer, everything worked out from it stays valid.
//
// A resource that was a card once stays one when its last node leaves. The zero
// value knows no node. A Tracker has no lock; what it returns never changes.
type Tracker struct {
	nodes     map[string]trackedNode
	known     []corev1.ResourceName
	inventory *Inventory     // nil when it must be made again
	healthy   map[Name]Count // nil when it must be counted again
}

type trackedNode struct {
	object *corev1.Node
	cards  Node
	ready  bool
}

// Update takes a node as it is now and reports whether its cards or its readiness
// changed. An object that was seen before costs a look-up.
func (t *Tracker) Update(node *corev1.Node) bool {
	was, known := t.nodes[node.Name]
	if known && was.object == node {
		return false
	}
	is := trackedNode{node, Recognise(node), Ready(node)}
	if t.nodes == nil {
		t.nodes = map[string]trackedNode{}
	}
	t.nodes[node.Name] = is
	sameCards := known && reflect.DeepEqual(was.cards, is.cards)
	if sameCards && was.ready == is.ready {
		return false
	}
	t.healthy = nil
	if !sameCards {
		t.inventory = nil
		for _, holding := range is.cards.Holdings {
			t.Know(holding.Resource)
		}
		t.Know(is.cards.Unnamed...)
	}
	return true
}

// Delete takes a node away and reports whether it was known.
func (t *Tracker) Delete(name string) bool {
	if _, known := t.nodes[name]; !known {
		return false
	}
	delete(t.nodes, name)
	t.inventory, t.healthy = nil, nil
	return true
}

// Replace takes all nodes there are, by name, and reports like Update and Delete.
func (t *Tracker) Replace(nodes map[string]*corev1.Node) (changed bool) {
	for _, node := range nodes {
		changed = t.Update(node) || changed
	}
	if len(t.nodes) == len(nodes) {
		return changed
	}
	for name := range t.nodes {
		if nodes[name] == nil {
			changed = t.Delete(name) || changed
		}
	}
	return changed
}

// Know adds resources that were cards before and reports whether one was unknown.
func (t *Tracker) Know(resources ...corev1.ResourceName) (grown bool) {
	for _, resource := range resources {
		if !slices.Contains(t.known, resource) {
			t.known, t.inventory, grown = append(t.known, resource), nil, true
		}
	}
	return grown
}

// Inventory returns the cards of all nodes, the same pointer until one of them
// changes.
func (t *Tracker) Inventory() *Inventory {
	if t.inventory == nil {
		nodes := make(map[string]Node, len(t.nodes))
		for name, node := range t.nodes {
			nodes[name] = node.cards
		}
		t.inventory = NewInventory(nodes, t.known...)
	}
	return t.inventory
}

// Node returns the object of a node as it was taken last, nil for an unknown one.
func (t *Tracker) Node(name string) *corev1.Node { return t.nodes[name].object }

// Healthy returns, per card name, the cards that Ready nodes offer. Cards that a
// device plugin knows to be broken are not allocatable and not counted either. The
// caller must not change the map.
func (t *Tracker) Healthy() map[Name]Count {
	if t.healthy == nil {
		t.healthy = map[Name]Count{}
		for _, node := range t.nodes {
			if !node.ready {
				continue
			}
			for _, holding := range node.cards.Holdings {
				t.healthy[holding.Name] = t.healthy[holding.Name].Add(holding.Count)
			}
		}
	}
	return t.healthy
}

// Ready reports whether a node's kubelet says that it is Ready. A node that is
// cordoned still has its cards.
func Ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
