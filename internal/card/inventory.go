package card

import (
	"maps"
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
		for _, h := range node.Holdings {
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

// Named lists the card names that the resource stands for somewhere, sorted;
// the caller must not change the list.
func (i *Inventory) Named(resource corev1.ResourceName) []Name { return i.resources[resource] }

// ResourcesOf lists the resources under which a card is handed out, sorted. It
// is empty for a card that no node has.
func (i *Inventory) ResourcesOf(name Name) []corev1.ResourceName { return i.byName[name] }

// ResourceOf is the resource under which a request is handed out, "" when no node
// has such a card.
func (i *Inventory) ResourceOf(request Request) corev1.ResourceName {
	for _, name := range request.names {
		if resources := i.byName[name]; len(resources) > 0 {
			return resources[0]
		}
	}
	return ""
}

// On tells which card the resource is on the named node. It is false when the
// node is unknown or does not tell.
func (i *Inventory) On(node string, resource corev1.ResourceName) (Name, bool) {
	for _, h := range i.nodes[node].Holdings {
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

// Anomalous returns how many nodes are labelled so that some of their cards have no name.
func (i *Inventory) Anomalous() (nodes int) {
	for _, node := range i.nodes {
		if len(node.Anomalies) > 0 {
			nodes++
		}
	}
	return nodes
}

// MeansTheSame tells whether every resource stands for the same cards in both
// inventories, so that pods ask for the same in both.
func (i *Inventory) MeansTheSame(other *Inventory) bool {
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
