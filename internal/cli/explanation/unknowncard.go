package explanation

import (
	"fmt"
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
)

// unnamedCards returns the anomalies of cards that no label names yet, and that may be those of the
// request.
func (in *Input) unnamedCards() []v1alpha1.InventoryAnomaly {
	if in.Inventory == nil {
		return nil
	}
	var found []v1alpha1.InventoryAnomaly
	for _, anomaly := range in.Inventory.Anomalies {
		mayBeIt := in.Request.Resource == "" || anomaly.Resource == in.Request.Resource
		if anomaly.Reason == v1alpha1.AnomalyNoModelLabel && mayBeIt {
			found = append(found, anomaly)
		}
	}
	return found
}

// describeUnnamedCount says how many cards are not named yet, "" for none.
func (in *Input) describeUnnamedCount() string {
	count, resource := int64(0), ""
	for _, anomaly := range in.unnamedCards() {
		count += anomaly.Count
		resource = anomaly.Resource
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf(" (not named yet: %d %s)", count, resource)
}

// adviseUnknownCard says what helps a request for a card that no node has: another name, or the labels of
// nodes that do not name their cards yet.
func (in *Input) adviseUnknownCard() []string {
	var advice []string
	known := in.knownCards()
	for _, name := range in.Request.Names {
		if near, found := card.Nearest(name, known); found {
			advice = append(advice, fmt.Sprintf("Did you mean %s? Write volcano.sh/card.name: %s instead of %s.", near, near, name))
		}
	}
	unnamed := in.unnamedCards()
	for _, anomaly := range unnamed {
		advice = append(advice, fmt.Sprintf("The card may not be named yet: %s. The workload starts by itself when its node has the labels.", strings.TrimSuffix(anomaly.Message, ".")))
	}
	switch {
	case len(advice) > 0:
	case in.Request.IsAnyCard: // there is no name to correct
		advice = append(advice, "Nodes that offer the resource need the labels <vendor>/<type>.product and .memory, or an entry of spec.cards in the ServiceTypePolicy.")
	default:
		advice = append(advice, "Correct the name. "+in.describeKnownCards(known))
	}
	return advice
}

// knownCards returns the cards that nodes have.
func (in *Input) knownCards() []card.Name {
	if in.Inventory == nil {
		return nil
	}
	var known []card.Name
	for _, entry := range in.Inventory.Cards {
		if entry.Total > 0 {
			known = append(known, card.Name(entry.Name))
		}
	}
	return known
}

// describeKnownCards lists what nodes have.
func (in *Input) describeKnownCards(known []card.Name) string {
	const maxKnown = 5
	switch {
	case in.Inventory == nil:
		return "kubectl cardquota inventory lists the cards of the nodes."
	case len(known) == 0:
		return "No node offers a card yet."
	case len(known) > maxKnown:
		return "Nodes have " + conditions.JoinFirst(known, maxKnown) + ": kubectl cardquota inventory."
	default:
		return "Nodes have " + card.Join(known, ", ") + "."
	}
}
