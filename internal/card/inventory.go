package card

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Inventory has the cards of all nodes. It is immutable and safe for concurrent use.
type Inventory struct {
	nodes map[string]Node
	// resources maps each resource that is a card on some node to its card names.
	resources map[corev1.ResourceName][]Name
	// physical is the total of each card, byName the resources that provide it.
	physical map[Name]Count
	byName   map[Name][]corev1.ResourceName
	// lasting are the resources that stay cards without nodes and mappings, see Tracker.
	lasting []corev1.ResourceName
	// mappings are those of the Tracker.
	mappings Mappings
	// unnamed are the cards that no label names yet, and those that nodes withhold.
	unnamed []UnnamedCards
}

// NewInventory builds an Inventory from nodes by name. A resource that is a card on any node is a card
// everywhere. known adds resources that were cards before, so that a resource stays a card when its last node
// leaves. A card without a name has its resource in the Inventory, with no names.
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
		for _, offered := range node.Cards {
			inv.physical[offered.Name] = inv.physical[offered.Name].Add(offered.Count)
			if !slices.Contains(inv.resources[offered.Resource], offered.Name) {
				inv.resources[offered.Resource] = append(inv.resources[offered.Resource], offered.Name)
				inv.byName[offered.Name] = append(inv.byName[offered.Name], offered.Resource)
			}
		}

		// A card without a name is withheld. As no card at all, anyone could use it without a
		// quota.
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

	// A Tracker replaces this list: it has the objects of the nodes, and so knows their resources that are
	// cards only elsewhere.
	inv.unnamed = listUnnamedCards(nodes, nil)
	return inv
}

// IsCard reports whether the resource is a card on any node.
func (i *Inventory) IsCard(resource corev1.ResourceName) bool {
	_, ok := i.resources[resource]
	return ok
}

// Resources returns the resources that are cards, sorted.
func (i *Inventory) Resources() []corev1.ResourceName {
	return slices.Sorted(maps.Keys(i.resources))
}

// LastingResources returns the resources that labels made cards once, sorted. They stay cards when
// the nodes and mappings of the Tracker go, and in another Tracker once AddResources adds them. It
// leaves out network devices, which AddResources does not add. The caller must not change the list.
func (i *Inventory) LastingResources() []corev1.ResourceName { return i.lasting }

// Mappings returns the mappings by which the Tracker recognised the nodes, none for an Inventory of
// another origin. The caller must not change them.
func (i *Inventory) Mappings() Mappings { return i.mappings }

// NamesFor returns the card names that the resource stands for, sorted. The caller must not
// change the list.
func (i *Inventory) NamesFor(resource corev1.ResourceName) []Name { return i.resources[resource] }

// ResourcesFor returns the resources that provide a card, sorted. It is empty for a card that
// no node has.
func (i *Inventory) ResourcesFor(name Name) []corev1.ResourceName { return i.byName[name] }

// ResourceForRequest returns the resource that provides the cards of a request, "" when no node
// has such a card. Its alternatives share one resource, so the first that a node has decides.
func (i *Inventory) ResourceForRequest(request Request) corev1.ResourceName {
	for _, name := range request.names {
		if resources := i.byName[name]; len(resources) > 0 {
			return resources[0]
		}
	}
	return ""
}

// CardOnNode returns which card the resource is on a node. It is false when the node is unknown
// or its labels do not say.
func (i *Inventory) CardOnNode(node string, resource corev1.ResourceName) (Name, bool) {
	for _, offered := range i.nodes[node].Cards {
		if offered.Resource == resource {
			return offered.Name, true
		}
	}
	return "", false
}

// CardInUseOnNode returns which card a pod on a node uses by a resource: also one that the node
// withholds from new pods.
func (i *Inventory) CardInUseOnNode(node string, resource corev1.ResourceName) (Name, bool) {
	if name, named := i.CardOnNode(node, resource); named {
		return name, true
	}
	for _, withheld := range i.nodes[node].Withheld {
		if withheld.Resource == resource {
			return withheld.Name, true
		}
	}
	return "", false
}

// Node returns the cards of a node.
func (i *Inventory) Node(name string) (Node, bool) {
	n, ok := i.nodes[name]
	return n, ok
}

// Physical returns the total of each card over all nodes.
func (i *Inventory) Physical() map[Name]Count { return maps.Clone(i.physical) }

// AnomalousNodes returns how many nodes have labels that withhold some of their cards from pods.
func (i *Inventory) AnomalousNodes() (nodes int) {
	for _, node := range i.nodes {
		if slices.ContainsFunc(node.Anomalies, node.isWithholding) {
			nodes++
		}
	}
	return nodes
}

// isWithholding reports whether an anomaly of the node withholds cards. Only MoreThanLabelled may leave
// them to pods, outside of Unnamed: where the node offers less than twice as many as its labels say.
func (n *Node) isWithholding(anomaly Anomaly) bool {
	return anomaly.Reason != MoreThanLabelled || slices.Contains(n.Unnamed, anomaly.Resource)
}

// SameNames reports whether every resource stands for the same cards in both inventories, so
// that every pod requests the same in both.
func (i *Inventory) SameNames(other *Inventory) bool {
	return maps.EqualFunc(i.resources, other.resources, slices.Equal) && maps.EqualFunc(i.byName, other.byName, slices.Equal)
}

// Names returns all card names that some node offers, sorted.
func (i *Inventory) Names() []Name { return slices.Sorted(maps.Keys(i.physical)) }

// JoinResources joins resources to one text.
func JoinResources(resources []corev1.ResourceName) string { return Join(resources, ",") }

// SplitResources splits what JoinResources joined, sorts it, and drops empty and repeated entries: users
// may have edited the text.
func SplitResources(joined string) []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, text := range strings.Split(joined, ",") {
		text = strings.TrimSpace(text)
		if text != "" {
			out = append(out, corev1.ResourceName(text))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Tracker keeps the Inventory of a cluster up to date, node by node. It recognises a node again
// only when its object changes, and rebuilds the Inventory only when the cards of a node
// change. While Inventory returns the same pointer, everything computed from it stays valid.
//
// A resource that was a card once stays one when its last node leaves, unless only a mapping of it
// that is gone made it one. The zero value has no nodes and no mappings. A Tracker is not safe for
// concurrent use; what it returns never changes.
type Tracker struct {
	nodes    map[string]trackedNode
	mappings Mappings
	// known are the resources that labels made cards without a mapping of them, now or before.
	known     []corev1.ResourceName
	inventory *Inventory     // nil when it must be rebuilt
	healthy   map[Name]Count // nil when it must be recounted
	states    []NodeState    // nil when it must be listed again
}

// trackedNode is the last object of a node, and what a Tracker knows from it.
type trackedNode struct {
	object          *corev1.Node
	recognised      Node
	sharing         map[corev1.ResourceName]string
	ready, cordoned bool
}

// hasSameState reports whether a node is used, and its cards are shared, as in another version of it.
func (n *trackedNode) hasSameState(other *trackedNode) bool {
	return n.ready == other.ready && n.cordoned == other.cordoned && maps.Equal(n.sharing, other.sharing)
}

// NodeState is the cards of a node, and whether pods can use them.
type NodeState struct {
	// Name is the name of the node.
	Name string
	Node
	// Sharing is how the cards of a resource are shared, see SharingStrategy. Other resources have none.
	Sharing map[corev1.ResourceName]string
	// IsReady reports whether the node has condition Ready, IsCordoned whether it takes no new
	// pods because it is marked unschedulable.
	IsReady, IsCordoned bool
}

// Update stores a node and reports whether its cards changed, how they are shared, its readiness, or
// whether it is cordoned. An unchanged object costs one look-up.
func (t *Tracker) Update(node *corev1.Node) bool {
	before, known := t.nodes[node.Name]
	if known && before.object == node {
		return false
	}
	return t.recognise(node)
}

// recognise stores a node with its cards, and reports whether something changed. It drops the results that
// the change makes wrong: healthy, states and the inventory, which are computed again when they are next
// read.
func (t *Tracker) recognise(node *corev1.Node) bool {
	before, known := t.nodes[node.Name]
	recognised := Recognise(node, t.mappings)
	after := trackedNode{node, recognised, sharingStrategies(node, recognised.Cards), IsNodeReady(node), node.Spec.Unschedulable}

	if t.nodes == nil {
		t.nodes = map[string]trackedNode{}
	}
	t.nodes[node.Name] = after

	// The cards of a node can stay while its other resources change: it begins to offer one that is a card
	// only elsewhere (sameOthers). A mapped resource becomes a card by labels, too, and stays one when the
	// mapping ends (knowsMore); without mappings, such labels change the cards.
	sameCards := known && reflect.DeepEqual(before.recognised, after.recognised)
	sameOthers := known && slices.Equal(t.unlabelledCards(before.object, before.recognised), t.unlabelledCards(node, recognised))
	knowsMore := (!sameCards || len(t.mappings) > 0) && t.rememberCards(after)
	if sameCards && sameOthers && before.hasSameState(&after) && !knowsMore {
		return false
	}

	t.healthy = nil
	t.states = nil
	if !sameCards || !sameOthers {
		t.inventory = nil
	}

	return true
}

// rememberCards remembers which resources of a node are cards without a mapping that names them, and reports
// whether one is new.
func (t *Tracker) rememberCards(node trackedNode) bool {
	resources := node.recognised.Resources()
	if len(t.mappings) > 0 {
		// A mapped resource is a card only while its mapping exists. Other resources stay cards, also those
		// that are withheld because a mapping replaces the labels of their vendor.
		mapped := t.mappings.Resources()
		resources = slices.DeleteFunc(resources, func(r corev1.ResourceName) bool { return slices.Contains(mapped, r) })
		// A mapped resource that labels alone make a card stays one without its mapping, too.
		labelled := recogniseLabels(node.object, nil)
		resources = append(resources, labelled.Resources()...)
	}
	return t.addKnown(resources)
}

// Delete removes a node and reports whether it was known.
func (t *Tracker) Delete(name string) bool {
	if _, known := t.nodes[name]; !known {
		return false
	}
	delete(t.nodes, name)
	t.inventory = nil
	t.healthy = nil
	t.states = nil
	return true
}

// Replace stores all nodes, by name, removes every other one, and reports whether anything
// changed.
func (t *Tracker) Replace(nodes map[string]*corev1.Node) (changed bool) {
	for _, node := range nodes {
		changed = t.Update(node) || changed
	}

	// All given nodes are stored now, so an equal number means that none is left over.
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

// SetMappings recognises all nodes again by other mappings, and reports whether anything changed.
// Mapped resources are cards also while no node offers them. The resource of a removed mapping is
// no card any more unless labels made it one, now or before, so that a mistake can be taken back.
func (t *Tracker) SetMappings(mappings Mappings) (changed bool) {
	mappings = mappings.Sorted()
	if t.mappings.Equal(mappings) {
		return false
	}

	if !slices.Equal(mappings.Resources(), t.mappings.Resources()) {
		t.inventory = nil
		changed = true
	}

	t.mappings = mappings
	for _, node := range t.nodes {
		changed = t.recognise(node.object) || changed
	}

	return changed
}

// AddResources adds resources that labels made cards before, as a record lists them, and reports
// whether one is new. It leaves out network devices, which earlier versions recorded as cards.
func (t *Tracker) AddResources(resources ...corev1.ResourceName) (grown bool) {
	return t.addKnown(withoutNetworkDevices(resources))
}

// withoutNetworkDevices returns a copy of a list without the resources of network devices.
func withoutNetworkDevices(resources []corev1.ResourceName) []corev1.ResourceName {
	return slices.DeleteFunc(slices.Clone(resources), isNetworkDevice)
}

// addKnown adds resources that labels made cards and reports whether one is new.
func (t *Tracker) addKnown(resources []corev1.ResourceName) (grown bool) {
	for _, resource := range resources {
		if !slices.Contains(t.known, resource) {
			t.known = append(t.known, resource)
			t.inventory = nil
			grown = true
		}
	}
	return grown
}

// Inventory returns the cards of all nodes, the same pointer until one of them changes.
func (t *Tracker) Inventory() *Inventory {
	if t.inventory == nil {
		nodes := make(map[string]Node, len(t.nodes))
		others := map[string][]Anomaly{}
		for name, node := range t.nodes {
			nodes[name] = node.recognised
			others[name] = t.unlabelledCards(node.object, node.recognised)
		}

		t.inventory = NewInventory(nodes, slices.Concat(t.known, t.mappings.Resources())...)
		t.inventory.mappings = t.mappings
		t.inventory.lasting = withoutNetworkDevices(t.known)
		slices.Sort(t.inventory.lasting)
		t.inventory.unnamed = listUnnamedCards(nodes, others)
	}
	return t.inventory
}

// Node returns the last object of a node, nil for an unknown one.
func (t *Tracker) Node(name string) *corev1.Node { return t.nodes[name].object }

// Healthy returns the cards of Ready nodes by name. Cards that the device plugin reports as
// broken are not allocatable and do not count. The caller must not change the map.
func (t *Tracker) Healthy() map[Name]Count {
	if t.healthy == nil {
		t.healthy = map[Name]Count{}
		for _, node := range t.nodes {
			if !node.ready {
				continue
			}
			for _, offered := range node.recognised.Cards {
				t.healthy[offered.Name] = t.healthy[offered.Name].Add(offered.Count)
			}
		}
	}

	return t.healthy
}

// Nodes returns all nodes, sorted by name. The caller must not change them.
func (t *Tracker) Nodes() []NodeState {
	if t.states == nil {
		t.states = make([]NodeState, 0, len(t.nodes))
		for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
			node := t.nodes[name]
			t.states = append(t.states, NodeState{Name: name, Node: node.recognised, Sharing: node.sharing, IsReady: node.ready, IsCordoned: node.cordoned})
		}
	}
	return t.states
}

// TrackedNode is a node of a Tracker with its last object, which must not be changed.
type TrackedNode struct {
	NodeState
	Object *corev1.Node
}

// TrackedNodes returns all nodes with their last objects, sorted by name.
func (t *Tracker) TrackedNodes() []TrackedNode {
	out := make([]TrackedNode, 0, len(t.nodes))
	for _, state := range t.Nodes() {
		out = append(out, TrackedNode{state, t.nodes[state.Name].object})
	}
	return out
}

// IsNodeReady reports whether a node has condition Ready. A cordoned node still has its cards.
func IsNodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
