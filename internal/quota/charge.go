package quota

import (
	"iter"
	"math"
	"math/bits"
	"slices"
	"time"

	"cardquota.dev/operator/internal/card"
)

// Charge is what one pod uses, and the queue that is charged for it.
type Charge struct {
	// Queue is the charged queue, "" when none is charged.
	Queue string
	// Cards are the cards in use, normally one amount. A pod has several if it bypassed the
	// checks, or if the card of its node is ambiguous: then every candidate is charged.
	Cards []card.Amount
	// Repeated are the amounts of Cards for cards that another amount counts already: all candidates
	// but the first. Quotas count them, sums of the cards that exist do not.
	Repeated []card.Amount
	// NotOffered are the amounts of Cards that the pod's node offers no more: it withholds such cards from
	// new pods, or no longer names them. They are not part of the inventory. Only a tree counts it.
	NotOffered []card.Amount
	// MilliCPU and Memory are counted against the queue's limits.
	MilliCPU, Memory int64
	// IsUnreclaimable reports whether other queues cannot reclaim from the pod. Only a tree counts it.
	IsUnreclaimable bool
	// IsOffInventory reports whether the pod's node takes no pods, so that nothing of the
	// charge is part of the inventory. Only a tree counts it.
	IsOffInventory bool
}

// Equal reports whether two charges are equal.
func (c *Charge) Equal(o *Charge) bool {
	return c.Queue == o.Queue && c.hasEqualCards(o) && c.MilliCPU == o.MilliCPU && c.Memory == o.Memory && c.IsUnreclaimable == o.IsUnreclaimable && c.IsOffInventory == o.IsOffInventory
}

func (c *Charge) hasEqualCards(o *Charge) bool {
	return slices.Equal(c.Cards, o.Cards) && slices.Equal(c.Repeated, o.Repeated) && slices.Equal(c.NotOffered, o.NotOffered)
}

// DistinctCards returns Cards without Repeated. The caller must not change them.
func (c *Charge) DistinctCards() []card.Amount { return c.cardsWithout(c.Repeated) }

// cardsWithout returns Cards without some of them. The caller must not change them.
func (c *Charge) cardsWithout(amounts []card.Amount) []card.Amount {
	if len(amounts) == 0 {
		return c.Cards
	}

	rest := slices.Clone(c.Cards)
	for _, amount := range amounts {
		if i := slices.Index(rest, amount); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		}
	}
	return rest
}

// IsInInventory reports whether what the charge has of a resource is part of the inventory.
func (c *Charge) IsInInventory(of Resource) bool {
	return !c.IsOffInventory && !slices.ContainsFunc(c.NotOffered, func(amount card.Amount) bool { return Resource(amount.Name) == of })
}

// inInventory returns the charge without the cards that are not part of the inventory.
func (c *Charge) inInventory() *Charge {
	if len(c.NotOffered) == 0 {
		return c
	}

	counted := *c
	counted.Cards = c.cardsWithout(c.NotOffered)
	return &counted
}

// ElasticUsageOf returns what one pod gives when it is evicted: all that it uses counts as elastic.
func ElasticUsageOf(c *Charge) ElasticUsage {
	e := ElasticUsage{Used: map[card.Name]card.Count{}, MilliCPU: c.MilliCPU, Memory: c.Memory}
	for _, amount := range c.Cards {
		e.Used[amount.Name] = e.Used[amount.Name].Add(amount.Count)
		e.Elastic = e.Elastic.Add(amount.Count)
	}
	return e
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

// exactSum is a sum of 128 bits. Package workload counts at most 2^53 of one pod, so 1,024 such pods exceed
// an int64: any user can create them with spec.nodeName, which passes by the scheduler. A sum that stops at
// its largest value would be too small once they are released.
type exactSum struct{ high, low uint64 }

// add adds an amount that is not negative.
func (e *exactSum) add(amount int64) {
	var carry uint64
	e.low, carry = bits.Add64(e.low, uint64(max(0, amount)), 0)
	e.high += carry
}

// subtract removes an amount that was added.
func (e *exactSum) subtract(amount int64) {
	var borrow uint64
	e.low, borrow = bits.Sub64(e.low, uint64(max(0, amount)), 0)
	e.high -= borrow
}

// clampedInt64 returns the sum, at most the largest int64.
func (e *exactSum) clampedInt64() int64 {
	if e.high > 0 || e.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(e.low)
}

// terminatingSums are the cards of terminating pods, without zeros.
type terminatingSums map[card.Name]terminatingCards

// terminatingCards is how many of a card terminating pods use, and the longest grace period among them. It
// stays until the last of them has ended: messages name it as the longest time to wait.
type terminatingCards struct {
	count              card.Count
	longestGracePeriod time.Duration
}

// add adds the cards of a pod.
func (s *terminatingSums) add(c *Charge, gracePeriod time.Duration) {
	if *s == nil {
		*s = terminatingSums{}
	}
	for _, amount := range c.Cards {
		e := (*s)[amount.Name]
		(*s)[amount.Name] = terminatingCards{count: e.count.Add(amount.Count), longestGracePeriod: max(e.longestGracePeriod, gracePeriod)}
	}
}

// subtract removes the cards of a pod that were added.
func (s terminatingSums) subtract(c *Charge) {
	for _, amount := range c.Cards {
		e := s[amount.Name]
		e.count = e.count.Sub(amount.Count)
		if e.count == 0 {
			delete(s, amount.Name)
		} else {
			s[amount.Name] = e
		}
	}
}
