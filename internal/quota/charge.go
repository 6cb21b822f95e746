package quota

import (
	"slices"

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
	// MilliCPU and Memory are counted against the queue's limits.
	MilliCPU, Memory int64
	// IsFixed reports whether other queues cannot reclaim from the pod. Only a tree counts it.
	IsFixed bool
	// IsOffInventory reports whether the pod's node takes no pods, so that its cards are not part
	// of the inventory. Only a tree counts it.
	IsOffInventory bool
}

// Equal reports whether two charges are equal.
func (c *Charge) Equal(o *Charge) bool {
	return c.Queue == o.Queue && slices.Equal(c.Cards, o.Cards) && slices.Equal(c.Repeated, o.Repeated) &&
		c.MilliCPU == o.MilliCPU && c.Memory == o.Memory && c.IsFixed == o.IsFixed && c.IsOffInventory == o.IsOffInventory
}

// HeldCards returns Cards without Repeated. The caller must not change them.
func (c *Charge) HeldCards() []card.Amount {
	if len(c.Repeated) == 0 {
		return c.Cards
	}
	held := slices.Clone(c.Cards)
	for _, repeated := range c.Repeated {
		if i := slices.Index(held, repeated); i >= 0 {
			held = slices.Delete(held, i, i+1)
		}
	}
	return held
}

// ElasticUsageOf returns the usage of a pod that gives everything.
func ElasticUsageOf(c *Charge) ElasticUsage {
	e := ElasticUsage{Used: map[card.Name]card.Count{}, MilliCPU: c.MilliCPU, Memory: c.Memory}
	for _, amount := range c.Cards {
		e.Used[amount.Name] = e.Used[amount.Name].Add(amount.Count)
		e.Elastic = e.Elastic.Add(amount.Count)
	}
	return e
}
