package quota

import (
	"iter"
	"maps"
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

// Amount returns how much of a resource the pod requests: Count of each of its cards.
func (r *Request) Amount(of Resource) int64 {
	return of.selectAmount(r.MilliCPU, r.Memory, int64(r.Count))
}

// Amounts returns all amounts above 0 that the charge has. A card may come twice.
func (c *Charge) Amounts() iter.Seq2[Resource, int64] {
	return func(yield func(Resource, int64) bool) {
		for _, amount := range c.Cards {
			if amount.Count > 0 && !yield(Resource(amount.Name), int64(amount.Count)) {
				return
			}
		}

		if c.MilliCPU > 0 && !yield(CPU, c.MilliCPU) {
			return
		}
		if c.Memory > 0 {
			yield(Memory, c.Memory)
		}
	}
}

// Amount returns how much of a resource the charge has.
func (c *Charge) Amount(of Resource) (total int64) {
	for resource, amount := range c.Amounts() {
		if resource == of {
			total += amount
		}
	}
	return total
}

// Quota returns the limit of a resource, Unlimited or MaxCount if there is none.
func (l *Limits) Quota(of Resource) int64 {
	if l.AnyCard {
		return of.selectAmount(l.MilliCPU, l.Memory, int64(card.MaxCount))
	}
	return of.selectAmount(l.MilliCPU, l.Memory, int64(l.Cards[of.Card()]))
}

// sums are what pods use of each resource together.
type sums struct {
	cards            map[card.Name]card.Count
	milliCPU, memory exactSum
}

func newSums() sums { return sums{cards: map[card.Name]card.Count{}} }

// amountOf returns the sum of a resource.
func (s *sums) amountOf(r Resource) int64 {
	switch r {
	case CPU:
		return s.milliCPU.clampedInt64()
	case Memory:
		return s.memory.clampedInt64()
	}
	return int64(s.cards[r.Card()])
}

// add adds a charge.
func (s *sums) add(c *Charge) {
	for _, amount := range c.Cards {
		s.cards[amount.Name] = s.cards[amount.Name].Add(amount.Count)
	}
	s.milliCPU.add(c.MilliCPU)
	s.memory.add(c.Memory)
}

// subtract removes a charge that was added.
func (s *sums) subtract(c *Charge) {
	for _, amount := range c.Cards {
		s.cards[amount.Name] = s.cards[amount.Name].Sub(amount.Count)
	}
	s.milliCPU.subtract(c.MilliCPU)
	s.memory.subtract(c.Memory)
}
