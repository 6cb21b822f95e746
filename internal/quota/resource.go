package quota

import (
	"maps"
	"math"
	"slices"
	"strings"

	"cardquota.dev/operator/internal/card"
)

// Resource is what an amount is of: the cards of one name, CPU in millicores, or memory in bytes.
type Resource string

// CPU and Memory are the resources that are no cards. No card name begins with a space.
const (
	CPU    Resource = " cpu"
	Memory Resource = " memory"
)

// Compute are CPU and memory.
var Compute = [...]Resource{CPU, Memory}

// IsCard reports whether the resource is a card, and not CPU or memory.
func (r Resource) IsCard() bool { return r != CPU && r != Memory }

// Card returns the name of a resource that is a card.
func (r Resource) Card() card.Name { return card.Name(r) }

// String returns the resource as fields of objects call it: "cpu", "memory" or the card name.
func (r Resource) String() string { return strings.TrimPrefix(string(r), " ") }

// Label returns the resource as texts call it: "CPU", "memory" or the card name.
func (r Resource) Label() string {
	if r == CPU {
		return "CPU"
	}
	return r.String()
}

// selectAmount returns the amount of a resource out of those of CPU, memory and its cards.
func (r Resource) selectAmount(milliCPU, memory, cards int64) int64 {
	switch r {
	case CPU:
		return milliCPU
	case Memory:
		return memory
	}
	return cards
}

// Amounts are amounts by resource. A missing one is 0.
type Amounts map[Resource]int64

// AddCards adds the cards of a quota to the amounts.
func (a Amounts) AddCards(cards card.Quota) {
	for name, count := range cards {
		a[Resource(name)] += int64(count)
	}
}

// Limit lowers an amount to a limit.
func (a Amounts) Limit(of Resource, limit int64) {
	if a[of] > limit {
		a[of] = limit
	}
}

// Cards returns the amounts of cards, without CPU and memory.
func (a Amounts) Cards() card.Quota {
	cards := make(card.Quota, len(a))
	for of, amount := range a {
		if of.IsCard() {
			cards[of.Card()] = card.Count(amount)
		}
	}
	return cards
}

// Sorted returns the resources of the amounts, sorted: CPU and memory, then the cards.
func (a Amounts) Sorted() []Resource { return slices.Sorted(maps.Keys(a)) }

// AddSaturating adds two amounts of CPU or memory without overflow.
func AddSaturating(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// MultiplySaturating multiplies two amounts that are not negative without overflow.
func MultiplySaturating(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}
