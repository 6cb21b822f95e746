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
	// maxUnknownCards is how many unknown cards a message explains, which bounds its cost.
	maxUnknownCards = 3
	// maxListedCards is how many cards of the nodes a message lists.
	maxListedCards = 5
)

// cardsKnownCondition reports whether some node has each card of the spec. A card whose last node
// is away is unknown as well.
func cardsKnownCondition(s *v1alpha1.CardQuotaStatus, f StatusInput) metav1.Condition {
	if f.Physical == nil {
		if before := conditions.Get(s.Conditions, v1alpha1.ConditionCardsKnown); before.Reason != "" {
			return before
		}
		return conditions.New(metav1.ConditionUnknown, v1alpha1.ReasonNotCounted, "the cards of the nodes have not been counted yet")
	}
	unknown := UnknownCards(f.Quota, f.Physical)
	if len(unknown) == 0 {
		return conditions.New(metav1.ConditionTrue, v1alpha1.ReasonCardsKnown, "every card of the spec exists on some node")
	}
	return conditions.New(metav1.ConditionFalse, v1alpha1.ReasonUnknownCard, "%s", describeUnknown(unknown, slices.Sorted(maps.Keys(f.Physical))))
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

// describeUnknown names unknown cards with the nearest card that nodes have. Without one it lists
// what nodes have.
func describeUnknown(unknown, known []card.Name) string {
	var parts []string
	isListed := false
	for _, name := range unknown[:min(len(unknown), maxUnknownCards)] {
		part := fmt.Sprintf("no node has %s", name)
		if near, found := nearestName(name, known); found {
			part += fmt.Sprintf("; did you mean %s?", near)
		} else {
			isListed = true
		}
		parts = append(parts, part)
	}
	text := strings.Join(parts, ", ")
	if more := len(unknown) - maxUnknownCards; more > 0 {
		text += fmt.Sprintf(", and %d more cards", more)
	}
	if isListed {
		text += "; " + listKnown(known)
	}
	return text
}

func listKnown(known []card.Name) string {
	if len(known) == 0 {
		return "no node offers a card yet"
	}
	return "nodes have " + conditions.JoinFirst(known, maxListedCards)
}

// nearestName returns the known card with the smallest edit distance, whatever the case of its
// letters, if that is at most a third of the length of the name.
func nearestName(name card.Name, known []card.Name) (card.Name, bool) {
	var nearest card.Name
	best := len(name)/3 + 1
	for _, other := range known {
		if distance := editDistance(strings.ToLower(string(name)), strings.ToLower(string(other)), best); distance < best {
			nearest, best = other, distance
		}
	}
	return nearest, nearest != ""
}

// editDistance returns how many bytes must be inserted, deleted or replaced to turn one text into
// the other. It returns limit if there are more.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return min(row[len(b)], limit)
}
