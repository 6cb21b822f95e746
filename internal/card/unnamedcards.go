package card

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
)

// UnnamedCards are cards that nodes offer and that new pods do not get: no label names them yet, and any
// name may become theirs, or their nodes withhold them.
type UnnamedCards struct {
	// Resource is "" if the labels of the nodes fit several.
	Resource corev1.ResourceName
	// Card is the name of withheld cards, "" for cards that no label names yet.
	Card Name
	// Message says what is wrong with the labels of the nodes.
	Message string
	// Nodes are sorted by name.
	Nodes []string
}

// Equal reports whether two are equal.
func (u UnnamedCards) Equal(other UnnamedCards) bool {
	return u.Resource == other.Resource && u.Card == other.Card && u.Message == other.Message && slices.Equal(u.Nodes, other.Nodes)
}

// UnnamedCards returns the cards that no label names yet or that nodes withhold, sorted by resource. The
// caller must not change the list.
func (i *Inventory) UnnamedCards() []UnnamedCards { return i.unnamed }

// UnnamedCardsFor returns those that no label names yet and that may be of a resource, all for "". Entries
// without a resource may be of any.
func (i *Inventory) UnnamedCardsFor(resource corev1.ResourceName) []UnnamedCards {
	isOther := func(u UnnamedCards) bool {
		return resource != "" && u.Resource != "" && u.Resource != resource
	}
	return slices.DeleteFunc(slices.Clone(i.unnamed), func(u UnnamedCards) bool { return u.Card != "" || isOther(u) })
}

// WithheldCards returns those of a name that nodes withhold.
func (i *Inventory) WithheldCards(name Name) []UnnamedCards {
	return slices.DeleteFunc(slices.Clone(i.unnamed), func(u UnnamedCards) bool { return u.Card != name })
}

// MentionsCard reports whether a text about the labels of a node has a card name, as a whole word: these nodes
// have the card, and something else is wrong.
func MentionsCard(text string, name Name) bool {
	isPartOfName := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./*", r)
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return !isPartOfName(r) })
	return slices.Contains(words, string(name))
}

// unlabelledCards returns an anomaly for each resource that a node offers without a label that names its card,
// although labels of another node, or a mapping, make the resource a card. The anomalies are sorted by resource.
// A resource that is a card nowhere is another device, and no anomaly.
func (t *Tracker) unlabelledCards(node *corev1.Node, recognised Node) []Anomaly {
	var others []Anomaly
	own := recognised.Resources()
	for resource, quantity := range node.Status.Allocatable {
		isOther := quantity.Sign() > 0 && t.isCard(resource) && !slices.Contains(own, resource)
		if isOther {
			others = append(others, unlabelled(node, resource))
		}
	}
	slices.SortFunc(others, func(a, b Anomaly) int { return cmp.Compare(a.Resource, b.Resource) })
	return others
}

// isCard reports whether labels of a node made a resource a card, or a mapping does.
func (t *Tracker) isCard(resource corev1.ResourceName) bool {
	return slices.Contains(t.known, resource) || slices.ContainsFunc(t.mappings, func(m Mapping) bool { return m.Resource == resource })
}

// unnamedList groups nodes by resource, card and message.
type unnamedList struct{ cards []UnnamedCards }

// add adds a node to the group of its anomaly.
func (l *unnamedList) add(anomaly Anomaly, name Name, node string) {
	at := slices.IndexFunc(l.cards, func(u UnnamedCards) bool {
		return u.Resource == anomaly.Resource && u.Card == name && u.Message == anomaly.Message
	})
	if at < 0 {
		at = len(l.cards)
		l.cards = append(l.cards, UnnamedCards{Resource: anomaly.Resource, Card: name, Message: anomaly.Message})
	}
	l.cards[at].Nodes = append(l.cards[at].Nodes, node)
}

// listUnnamedCards groups by resource, card and message what nodes offer without a name, or withhold. others
// has, by node, further resources that are cards elsewhere. The list is sorted, because maps have no order.
func listUnnamedCards(nodes map[string]Node, others map[string][]Anomaly) []UnnamedCards {
	var list unnamedList
	for name, node := range nodes {
		for _, anomaly := range node.Anomalies {
			if anomaly.leavesUnnamed() {
				list.add(anomaly, "", name)
			}

			// Withheld cards have a name, so they are listed by it.
			for _, withheld := range node.Withheld {
				if anomaly.Reason == MoreThanLabelled && anomaly.Resource == withheld.Resource {
					list.add(anomaly, withheld.Name, name)
				}
			}
		}
	}

	for name, resources := range others {
		for _, other := range resources {
			list.add(other, "", name)
		}
	}

	for i := range list.cards {
		slices.Sort(list.cards[i].Nodes)
	}

	slices.SortFunc(list.cards, func(a, b UnnamedCards) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Message, b.Message))
	})
	return list.cards
}

// leavesUnnamed reports whether an anomaly keeps cards from having a name. Those of which there are more than
// labelled have one.
func (a Anomaly) leavesUnnamed() bool { return a.Reason != MoreThanLabelled }

// unlabelled says that no label of a node names the card of a resource.
func unlabelled(node *corev1.Node, resource corev1.ResourceName) Anomaly {
	return Anomaly{NoModelLabel, resource, fmt.Sprintf("offers %s but %s names the card", resource, DescribeMissingLabels(node.Labels, resource))}
}
