package card

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Inventory is what all nodes together say about cards. It does not change
// after it was made and may be read from many goroutines.
type Inventory struct {
	nodes map[string]Node
	// resources holds every resource that is a card on some node, with the
	// names it stands for.
	resources map[corev1.ResourceName][]Name
	physical  map[Name]Count
	byName    map[Name][]corev1.ResourceName
}

// NewInventory puts recognised nodes, by node name, together. A resource that
// is a card on any node is a card everywhere; known adds resources that were
// cards before, so that a resource does not stop being a card when its last
// node leaves.
func NewInventory(nodes map[string]Node, known ...corev1.ResourceName) *Inventory {
	inv := &Inventory{
		nodes:     nodes,
		resources: map[corev1.ResourceName][]Name{},
		physical:  map[Name]Count{},
		byName:    map[Name][]corev1.ResourceName{},
	}
	for _, resource := range known {
		inv.resources[resource] = nil
	}
	for _, node := range nodes {
		for _, h := range node.Cards {
			inv.physical[h.Name] = inv.physical[h.Name].Add(h.Count)
			if !slices.Contains(inv.resources[h.Resource], h.Name) {
				inv.resources[h.Resource] = append(inv.resources[h.Resource], h.Name)
				inv.byName[h.Name] = append(inv.byName[h.Name], h.Resource)
			}
		}
		for _, resource := range node.Unnamed {
			if !inv.IsCard(resource) {
				inv.resources[resource] = nil
			}
		}
	}
	for _, names := range inv.resources {
		slices.Sort(names)
	}
	for _, resources := range inv.byName {
		slices.Sort(resources)
	}
	return inv
}

// IsCard tells whether the resource is a card anywhere in the cluster.
func (i *Inventory) IsCard(resource corev1.ResourceName) bool {
	_, ok := i.resources[resource]
	return ok
}

// Resources lists the resources that are cards, sorted.
func (i *Inventory) Resources() []corev1.ResourceName {
	return slices.Sorted(maps.Keys(i.resources))
}

// NamesFor lists the card names that the resource stands for somewhere, sorted;
// the caller must not change the list.
func (i *Inventory) NamesFor(resource corev1.ResourceName) []Name { return i.resources[resource] }

// ResourcesFor lists the resources under which a card is handed out, sorted. It
// is empty for a card that no node has.
func (i *Inventory) ResourcesFor(name Name) []corev1.ResourceName { return i.byName[name] }

// ResourceForRequest is the resource under which a request is handed out, "" when no node
// has such a card.
func (i *Inventory) ResourceForRequest(request Request) corev1.ResourceName {
	for _, name := range request.names {
		if resources := i.byName[name]; len(resources) > 0 {
			return resources[0]
		}
	}
	return ""
}

// CardOnNode tells which card the resource is on the named node. It is false when the
// node is unknown or does not tell.
func (i *Inventory) CardOnNode(node string, resource corev1.ResourceName) (Name, bool) {
	for _, h := range i.nodes[node].Cards {
		if h.Resource == resource {
			return h.Name, true
		}
	}
	return "", false
}

// Node returns what was recognised of the named node.
func (i *Inventory) Node(name string) (Node, bool) {
	n, ok := i.nodes[name]
	return n, ok
}

// Physical returns how many of each card all nodes offer together.
func (i *Inventory) Physical() map[Name]Count { return maps.Clone(i.physical) }

// AnomalousNodes returns how many nodes are labelled so that some of their cards have no name.
func (i *Inventory) AnomalousNodes() (nodes int) {
	for _, node := range i.nodes {
		if len(node.Anomalies) > 0 {
			nodes++
		}
	}
	return nodes
}

// SameNames tells whether every resource stands for the same cards in both
// inventories, so that pods ask for the same in both.
func (i *Inventory) SameNames(other *Inventory) bool {
	return maps.EqualFunc(i.resources, other.resources, slices.Equal) && maps.EqualFunc(i.byName, other.byName, slices.Equal)
}

// Names lists all card names that some node offers, sorted.
func (i *Inventory) Names() []Name { return slices.Sorted(maps.Keys(i.physical)) }

// JoinResources writes resources into one text.
func JoinResources(resources []corev1.ResourceName) string { return Join(resources, ",") }

// SplitResources reads what JoinResources wrote, sorted; none out of an empty text.
func SplitResources(joined string) []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, text := range strings.Split(joined, ",") {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, corev1.ResourceName(text))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

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
	object     *corev1.Node
	recognised Node
	ready      bool
}

// Update takes a node as it is now and reports whether its cards or its readiness
// changed. An object that was seen before costs a look-up.
func (t *Tracker) Update(node *corev1.Node) bool {
	before, known := t.nodes[node.Name]
	if known && before.object == node {
		return false
	}
	after := trackedNode{node, Recognise(node), IsNodeReady(node)}
	if t.nodes == nil {
		t.nodes = map[string]trackedNode{}
	}
	t.nodes[node.Name] = after
	sameCards := known && reflect.DeepEqual(before.recognised, after.recognised)
	if sameCards && before.ready == after.ready {
		return false
	}
	t.healthy = nil
	if !sameCards {
		t.inventory = nil
		for _, holding := range after.recognised.Cards {
			t.AddResources(holding.Resource)
		}
		t.AddResources(after.recognised.Unnamed...)
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

// AddResources adds resources that were cards before and reports whether one was unknown.
func (t *Tracker) AddResources(resources ...corev1.ResourceName) (grown bool) {
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
			nodes[name] = node.recognised
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
			for _, holding := range node.recognised.Cards {
				t.healthy[holding.Name] = t.healthy[holding.Name].Add(holding.Count)
			}
		}
	}
	return t.healthy
}

// IsNodeReady reports whether a node's kubelet says that it is Ready. A node that is
// cordoned still has its cards.
func IsNodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
