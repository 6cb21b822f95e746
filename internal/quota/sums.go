package quota

import (
	"math"
	"math/bits"

	"cardquota.dev/operator/internal/card"
)

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

// exactSum is a sum that cannot overflow. A pod may request nearly the largest int64, and its
// release must restore the sum.
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
