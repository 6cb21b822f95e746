package explanation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/conditions"
)

// unnamedCards returns the anomalies of cards that have no name, and that may be those of the request. Where
// one of the two states no resource, they may be.
func (in *Input) unnamedCards() []v1alpha1.InventoryAnomaly {
	var found []v1alpha1.InventoryAnomaly
	for _, anomaly := range in.inventory().Anomalies {
		isOther := in.Request.Resource != "" && anomaly.Resource != "" && anomaly.Resource != in.Request.Resource
		if cardinventory.LeavesUnnamed(anomaly) && !isOther {
			found = append(found, anomaly)
		}
	}

	return found
}

// withheldCards returns the anomaly because of which no new pod gets a card, nil for none: nodes offer more of
// the card than their labels say.
func (in *Input) withheldCards(name card.Name) *v1alpha1.InventoryAnomaly {
	anomalies := in.inventory().Anomalies
	at := slices.IndexFunc(anomalies, func(a v1alpha1.InventoryAnomaly) bool {
		return a.Reason == v1alpha1.AnomalyMoreThanLabelled && a.Card == string(name)
	})
	if at < 0 {
		return nil
	}
	return &anomalies[at]
}

// areAllWithheld reports whether nodes have each card of the request, and new pods get none of them.
func (in *Input) areAllWithheld() bool {
	isNotWithheld := func(name card.Name) bool { return in.withheldCards(name) == nil }
	return len(in.Request.Names) > 0 && !slices.ContainsFunc(in.Request.Names, isNotWithheld)
}

// describeAbsence says why no new pod gets a card: new pods get none of those that nodes have, or no node has
// one under this name. Cards without a name may be it.
func (g gateCheck) describeAbsence(name card.Name) string {
	if withheld := g.withheldCards(name); withheld != nil {
		return fmt.Sprintf("no new pod gets one of %d %s", withheld.Count, name)
	}

	// The resource of the request may be unknown, so the cards may be of several.
	counts := map[string]int64{}
	for _, anomaly := range g.unnamedCards() {
		if anomaly.Resource != "" && anomaly.Count > 0 {
			counts[anomaly.Resource] += anomaly.Count
		}
	}

	var unnamed []string
	for _, resource := range slices.Sorted(maps.Keys(counts)) {
		unnamed = append(unnamed, fmt.Sprintf("%d %s", counts[resource], resource))
	}

	text := fmt.Sprintf("no node has %s", name)
	if len(unnamed) > 0 {
		text += fmt.Sprintf(" (not named yet: %s)", strings.Join(unnamed, ", "))
	}

	return text
}

// adviseUnknownCard says what helps a request for a card that no node has, or that no new pod gets: other
// labels of nodes, or another name.
func (a adviser) adviseUnknownCard() []string {
	// Names that are right need other labels on nodes, and no other name.
	advice, areAllRight := a.adviseRightNames()
	if areAllRight {
		return advice
	}

	known := a.knownCards()
	for _, anomaly := range a.unnamedCards() {
		advice = append(advice, fmt.Sprintf("The card may not be named yet: %s. The workload starts by itself when its node has the right labels.", strings.TrimSuffix(anomaly.Message, ".")))
	}

	for _, name := range a.Request.Names {
		near, found := card.Nearest(name, known)
		switch {
		case !found || near == name || a.anomalyOfCard(name) != nil: // nothing is like it, or the name is right
		case len(advice) > 0:
			advice = append(advice, fmt.Sprintf("Or did you mean %s? Then write volcano.sh/card.name: %s instead of %s.", near, near, name))
		default:
			advice = append(advice, fmt.Sprintf("Did you mean %s? Write volcano.sh/card.name: %s instead of %s.", near, near, name))
		}
	}

	switch {
	case len(advice) > 0: // more specific than what follows
	case a.Request.IsAnyCard: // there is no name to correct
		advice = append(advice, "Nodes that offer the resource need the labels <vendor>/<type>.product and .memory, or an entry of spec.cards in the ServiceTypePolicy.")
	case a.Inventory == nil:
		advice = append(advice, "Compare the name with those of kubectl cardquota inventory. If it is right, no label of a node names the card yet: ask the administrator.")
	default:
		advice = append(advice, "Correct the name. "+a.describeKnownCards(known))
	}

	return advice
}

// adviseRightNames says what is wrong with nodes that have the cards of the request. It reports whether that is
// about all of them.
func (a adviser) adviseRightNames() (advice []string, isComplete bool) {
	isComplete = len(a.Request.Names) > 0
	for _, name := range a.Request.Names {
		cause := a.anomalyOfCard(name)
		if cause == nil {
			isComplete = false
			continue
		}
		advice = append(advice, fmt.Sprintf("The name %s is right: %s. The workload starts by itself when the labels are right.", name, strings.TrimSuffix(cause.Message, ".")))
	}
	return advice, isComplete
}

// anomalyOfCard returns the anomaly because of which no new pod gets a card that nodes have: it is withheld, or not named
// yet. It is nil for none.
func (in *Input) anomalyOfCard(name card.Name) *v1alpha1.InventoryAnomaly {
	if withheld := in.withheldCards(name); withheld != nil {
		return withheld
	}
	unnamed := in.unnamedCards()
	at := slices.IndexFunc(unnamed, func(a v1alpha1.InventoryAnomaly) bool { return card.MentionsCard(a.Message, name) })
	if at < 0 {
		return nil
	}
	return &unnamed[at]
}

// knownCards returns the cards that nodes have. The CardInventory also lists cards that only a quota names.
func (in *Input) knownCards() []card.Name {
	var known []card.Name
	for _, entry := range in.inventory().Cards {
		if entry.Total > 0 {
			known = append(known, card.Name(entry.Name))
		}
	}
	return known
}

// describeKnownCards lists what nodes have.
func (a adviser) describeKnownCards(known []card.Name) string {
	const maxKnown = 5
	switch {
	case len(known) == 0:
		return "No node offers a card yet."
	case len(known) > maxKnown:
		return "Nodes have " + conditions.JoinFirst(known, maxKnown) + ": kubectl cardquota inventory."
	default:
		return "Nodes have " + card.Join(known, ", ") + "."
	}
}
