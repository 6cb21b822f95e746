package cardquota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
)

const (
	// MaxUnknownCards is how many unknown cards messages explain one by one, which bounds their cost.
	MaxUnknownCards = 3
	// maxListedCards is how many cards of the nodes a message lists.
	maxListedCards = 5
)

// cardsKnownCondition reports whether some node has each card of the spec. A card whose last node
// is away is unknown as well.
func cardsKnownCondition(s *v1alpha1.CardQuotaStatus, input StatusInput) metav1.Condition {
	if input.Physical == nil {
		if before := conditions.Get(s.Conditions, v1alpha1.ConditionCardsKnown); before.Reason != "" {
			return before
		}
		return conditions.New(metav1.ConditionUnknown, v1alpha1.ReasonNotCounted, "the cards of the nodes have not been counted yet")
	}
	unknown := UnknownCards(input.Quota, input.Physical)
	if len(unknown) == 0 {
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonCardsKnown, "every card of the spec exists on some node")
	}
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonUnknownCard, "%s", describeUnknown(unknown, input.Physical, input.Unnamed))
}

// UnknownCards returns the cards of a CardQuota that no node has, in the order of the spec.
func UnknownCards(quota *v1alpha1.CardQuota, physical map[card.Name]card.Count) []card.Name {
	var unknown []card.Name
	for _, c := range quota.Spec.Cards {
		if _, known := physical[card.Name(c.Name)]; !known {
			unknown = append(unknown, card.Name(c.Name))
		}
	}
	return unknown
}

// describeUnknown names unknown cards, each with why no new pod gets it, or else with the nearest card that nodes have:
// "no node has NVIDIA-H20; did you mean NVIDIA-H200?". Without a near one it lists what nodes have. Cards that no label
// names yet may be the unknown ones. unnamed has these, and also cards that are withheld, of which the name is known.
func describeUnknown(unknown []card.Name, physical map[card.Name]card.Count, unnamed []card.UnnamedCards) string {
	known := slices.Sorted(maps.Keys(physical))
	var parts []string
	needsList := false     // a card has no near one, so the cards that nodes have are listed
	isUnexplained := false // a card may be one that no label names yet
	for _, name := range unknown[:min(len(unknown), MaxUnknownCards)] {
		part := fmt.Sprintf("no node has %s", name)
		isAboutIt := func(u card.UnnamedCards) bool { return u.Card == name || card.MentionsCard(u.Message, name) }
		if cause := slices.IndexFunc(unnamed, isAboutIt); cause >= 0 {
			parts = append(parts, fmt.Sprintf("no new pod gets %s: %s", name, describeNodes(unnamed[cause])))
			continue
		}

		isUnexplained = true
		near, found := card.Nearest(name, known)
		if found {
			part += "; " + card.AskForName(near, physical[near])
		}

		// Without a near card, or if all of that one are broken or shared now, so that their number is 0, the list of
		// all cards helps more.
		needsList = needsList || physical[near] == 0
		parts = append(parts, part)
	}

	text := strings.Join(parts, ", ")
	if more := len(unknown) - MaxUnknownCards; more > 0 {
		text += fmt.Sprintf(", and %d more cards", more)
	}

	withoutName := slices.DeleteFunc(slices.Clone(unnamed), func(u card.UnnamedCards) bool { return u.Card != "" })
	// "Nodes have no cards" would contradict that some are not named yet.
	if needsList && (len(known) > 0 || len(withoutName) == 0) {
		text += "; " + listKnown(known)
	}

	if len(withoutName) > 0 && isUnexplained {
		text += "; or it is not named yet: " + DescribeUnnamed(withoutName)
	}

	return text
}

// maxUnnamedNodes is how many nodes a message about unnamed cards names.
const maxUnnamedNodes = 3

// DescribeUnnamed says which nodes offer cards that no label names yet, and what to do.
func DescribeUnnamed(unnamed []card.UnnamedCards) string {
	text := describeNodes(unnamed[0]) + "; wait for the discovery of the vendor, or correct the labels"
	if more := len(unnamed) - 1; more > 0 {
		text += fmt.Sprintf(" (the CardInventory lists %d more resources)", more)
	}
	return text
}

// describeNodes says what is wrong with the nodes of unnamed cards.
func describeNodes(unnamed card.UnnamedCards) string {
	kind := "node"
	if len(unnamed.Nodes) > 1 {
		kind = "nodes"
	}
	return fmt.Sprintf("%s %s: %s", kind, conditions.JoinFirst(unnamed.Nodes, maxUnnamedNodes), unnamed.Message)
}

// listKnown lists the first cards that nodes have.
func listKnown(known []card.Name) string {
	if len(known) == 0 {
		return "no node offers a card yet"
	}
	return "nodes have " + conditions.JoinFirst(known, maxListedCards)
}
