package rule

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Node is what a node offers.
type Node struct {
	// Model is the card model in the labels, "" when they name none or two.
	Model string
	// Cards are the card resources of the node.
	Cards map[corev1.ResourceName]Offer
}

// Offer is what a node has of one card resource.
type Offer struct {
	// Card is "" when the labels of the node do not name the card, or say that the node has far fewer.
	Card  string
	Count int64
	// IsMore reports whether that is more than the labels of the resource's own name say.
	IsMore bool
	// Oversold is the name of a card that the node offers at least twice as often as its labels say. No
	// new pod gets it, and pods that use it are charged by this name.
	Oversold string
}

// NVIDIA's device plugin offers cards under these names on every node.
const (
	nvidia    = "nvidia.com/"
	nvidiaGPU = nvidia + "gpu"
	migPrefix = nvidia + "mig-"
)

// ReadNode recognises the cards of a node: its labels name the model, its allocatable resources
// state how many there are.
func ReadNode(node *corev1.Node) Node {
	types := typesOf(node.Labels)
	out := Node{Cards: map[corev1.ResourceName]Offer{}}
	if len(types) == 1 {
		out.Model = node.Labels[types[0]+".product"]
	}

	for name, quantity := range node.Status.Allocatable {
		if isCard(string(name), types, node) {
			offer := Offer{Card: nameOf(string(name), types, out.Model, node), Count: countOf(quantity)}
			if offer.Card != "" {
				offer = checkNumber(name, offer, types[0], node)
			}
			out.Cards[name] = offer
		}
	}

	return out
}

// typesOf returns <vendor domain>/<type> for the labels that name a model: those with .product
// and .memory, except MIG profiles.
func typesOf(labels map[string]string) []string {
	var types []string
	for label, model := range labels {
		domainAndType, isProduct := strings.CutSuffix(label, ".product")
		_, hasMemory := labels[domainAndType+".memory"]
		isModel := isProduct && hasMemory && model != ""
		if isModel && strings.Contains(label, "/") && !strings.HasPrefix(label, migPrefix) {
			types = append(types, domainAndType)
		}
	}
	return types
}

// isCard reports whether a resource of a node is a card.
func isCard(name string, types []string, node *corev1.Node) bool {
	if strings.HasPrefix(name, migPrefix) {
		return true
	}

	if len(types) == 0 { // the node is not labelled yet
		base := strings.TrimSuffix(name, ".shared")
		return base == nvidiaGPU || (strings.Contains(base, "/") && !isNetwork(name) && slices.ContainsFunc(slices.Collect(maps.Keys(node.Labels)),
			func(label string) bool { return strings.HasPrefix(label, base+".") }))
	}

	return slices.ContainsFunc(types, func(t string) bool {
		if isExact(name, t) {
			return true
		}
		domain, _, _ := strings.Cut(t, "/")
		return domain+"/" != nvidia && strings.HasPrefix(name, domain+"/") && !isNetwork(name) && !offersExact(node, t)
	})
}

// isExact reports whether a resource has the name of a type: whole cards or shares.
func isExact(name, domainAndType string) bool {
	return name == domainAndType || name == domainAndType+".shared"
}

func offersExact(node *corev1.Node, domainAndType string) bool {
	for name := range node.Status.Allocatable {
		if isExact(string(name), domainAndType) || (strings.HasPrefix(string(name), migPrefix) && domainAndType == nvidiaGPU) {
			return true
		}
	}
	return false
}

// nameOf returns the name of the card of a resource, or "" when the node does not name it.
func nameOf(name string, types []string, model string, node *corev1.Node) string {
	if model == "" {
		return ""
	}

	domain, _, _ := strings.Cut(types[0], "/")
	card := model
	switch profile, isSlice := strings.CutPrefix(name, migPrefix); {
	case isSlice && domain+"/" != nvidia:
		return ""
	case isSlice:
		card = model + "/mig-" + profile + "-mixed"
		if isSharedSlice(name, node) {
			card += "-SHARED"
		}
	case isUnmarkedShare(name, types[0], model, node):
		card += "-SHARED"
	case name == types[0]+".shared":
		card = nameOfMPS(types[0], model, node)
	case name != types[0] && offersOther(name, domain, node):
		return "" // two candidates
	}

	if !IsCardName(card) {
		return ""
	}

	return card
}

// nameOfMPS returns the name of the MPS shares of a type, or "" when the labels do not give their size.
func nameOfMPS(domainAndType, model string, node *corev1.Node) string {
	memory, err1 := strconv.ParseInt(node.Labels[domainAndType+".memory"], 10, 64)
	replicas, err2 := strconv.ParseInt(node.Labels[domainAndType+".replicas"], 10, 64)
	if err1 != nil || err2 != nil || memory < 1 {
		return ""
	}
	return fmt.Sprintf("%s/mps-%dg*1/%d", model, int64(math.Round(float64(memory)/1024)), replicas)
}

// isUnmarkedShare reports whether only the replicas of a type say that its resource has shares of cards.
func isUnmarkedShare(name, domainAndType, model string, node *corev1.Node) bool {
	return name == domainAndType && hasReplicas(name, node) && !strings.HasSuffix(model, "-SHARED")
}

// isSharedSlice reports whether the labels of a MIG profile say that its resource has shares of slices.
func isSharedSlice(resource string, node *corev1.Node) bool {
	return strings.HasSuffix(node.Labels[resource+".product"], "-SHARED") || hasReplicas(resource, node)
}

// hasReplicas reports whether the labels of a resource say that each of its cards is offered several times, and
// not under the name of shares.
func hasReplicas(resource string, node *corev1.Node) bool {
	replicas, err := strconv.Atoi(node.Labels[resource+".replicas"])
	return err == nil && replicas > 1 && !offersShares(resource, node)
}

// offersShares reports whether a node has another resource for the shares of one.
func offersShares(resource string, node *corev1.Node) bool {
	_, isRenamed := node.Status.Allocatable[corev1.ResourceName(resource+".shared")]
	return isRenamed
}

// checkNumber compares the number of a card with the labels .count and .replicas of its resource's own
// name. Without the first one nothing is known.
func checkNumber(resource corev1.ResourceName, offer Offer, domainAndType string, node *corev1.Node) Offer {
	t := strings.TrimSuffix(string(resource), ".shared")
	count, err := strconv.ParseInt(node.Labels[t+".count"], 10, 32)
	if err != nil || count < 0 || (t != domainAndType && !strings.HasPrefix(t, migPrefix)) {
		return offer
	}

	replicas, err := strconv.ParseInt(node.Labels[t+".replicas"], 10, 32)
	if err != nil || replicas < 1 || (t == string(resource) && offersShares(t, node)) {
		replicas = 1
	}

	offer.IsMore = offer.Count > count*replicas
	if offer.IsMore && offer.Count >= 2*count*replicas {
		offer.Card, offer.Oversold = "", offer.Card
	}

	return offer
}

// offersOther reports whether a node offers another resource of a vendor's domain that may be a card.
func offersOther(name, domain string, node *corev1.Node) bool {
	for other := range node.Status.Allocatable {
		if string(other) != name && strings.HasPrefix(string(other), domain+"/") && !isNetwork(string(other)) {
			return true
		}
	}
	return false
}

// countOf returns a quantity of cards. Any quantity above MaxCount counts as MaxCount+1.
func countOf(quantity resource.Quantity) int64 {
	switch {
	case quantity.Sign() <= 0:
		return 0
	case quantity.Cmp(*resource.NewQuantity(MaxCount, resource.DecimalSI)) > 0:
		return MaxCount + 1
	}
	return quantity.Value()
}

// Inventory is the cards of all nodes. Its methods only read, except Set and Remove.
type Inventory struct {
	nodes    map[string]Node
	mappings []Mapping
	// known are all resources that were a card on some node.
	known map[corev1.ResourceName]bool
}

// NewInventory returns an inventory without nodes, in which some resources are already cards.
func NewInventory(known ...corev1.ResourceName) *Inventory {
	inv := &Inventory{nodes: map[string]Node{}, known: map[corev1.ResourceName]bool{}}
	for _, name := range known {
		inv.known[name] = true
	}
	return inv
}

// WithMappings sets the entries of spec.cards, before any node is set. Their resources are cards.
func (inv *Inventory) WithMappings(mappings []Mapping) *Inventory {
	inv.mappings = mappings
	for _, mapping := range mappings {
		inv.known[mapping.Resource] = true
	}
	return inv
}

// Read recognises the cards of a node.
func (inv *Inventory) Read(node *corev1.Node) Node {
	if len(inv.mappings) == 0 {
		return ReadNode(node)
	}
	return ReadMappedNode(node, inv.mappings)
}

// Set adds or replaces a node. A resource that is a card on any node is a card everywhere.
func (inv *Inventory) Set(name string, node Node) {
	inv.nodes[name] = node
	for resource := range node.Cards {
		inv.known[resource] = true
	}
}

// Remove removes a node. Its card resources stay cards.
func (inv *Inventory) Remove(name string) { delete(inv.nodes, name) }

// Node returns what a node offers, false when the node does not exist.
func (inv *Inventory) Node(name string) (Node, bool) {
	node, ok := inv.nodes[name]
	return node, ok
}

// IsCard reports whether a resource is a card.
func (inv *Inventory) IsCard(resource corev1.ResourceName) bool { return inv.known[resource] }

// CardInUse returns the card that pods on a node use by a resource, also one that new pods do not get.
func (inv *Inventory) CardInUse(node string, resource corev1.ResourceName) string {
	offer := inv.nodes[node].Cards[resource]
	return cmp.Or(offer.Card, offer.Oversold)
}

// CardOn returns the card that a resource is on a node, or "" when the node does not name it.
func (inv *Inventory) CardOn(node string, resource corev1.ResourceName) string {
	return inv.nodes[node].Cards[resource].Card
}

// Cards returns the card names that nodes give to a resource, sorted.
func (inv *Inventory) Cards(resource corev1.ResourceName) []string {
	names := map[string]bool{}
	for _, node := range inv.nodes {
		if card := node.Cards[resource].Card; card != "" {
			names[card] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// ResourcesOf returns the resources by which nodes offer a card, sorted.
func (inv *Inventory) ResourcesOf(card string) []corev1.ResourceName {
	resources := map[corev1.ResourceName]bool{}
	for _, node := range inv.nodes {
		for resource, offer := range node.Cards {
			if offer.Card == card {
				resources[resource] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(resources))
}

// Totals returns the cards of all nodes by name.
func (inv *Inventory) Totals() Quota {
	sum := Quota{}
	for _, node := range inv.nodes {
		for _, offer := range node.Cards {
			if offer.Card != "" {
				sum[offer.Card] += offer.Count
			}
		}
	}
	return sum
}

// IsReady reports whether the kubelet of a node reports it as ready. A node without the
// condition counts as ready.
func IsReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return true
}
