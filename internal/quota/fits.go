package quota

import (
	"maps"
	"math"
	"time"

	"cardquota.dev/operator/internal/card"
)

// Request is what a pending pod requests.
type Request struct {
	// Names are the allowed cards in order of preference; empty exactly when Count is 0.
	Names []card.Name
	// Count is how many cards of one name the pod requests.
	Count card.Count
	// MilliCPU and Memory count against the limits of the queue.
	MilliCPU, Memory int64
	// IsUnreclaimable reports whether other queues could not reclaim from the pod, see Charge.
	IsUnreclaimable bool
}

// Amount returns how much of a resource the pod requests: Count of each of its cards.
func (r *Request) Amount(of Resource) int64 {
	return of.selectAmount(r.MilliCPU, r.Memory, int64(r.Count))
}

// On returns the request for one card alone, as that of a node. Calls of Fits with it allocate no memory.
func (r Request) On(name card.Name) Request {
	r.Names = []card.Name{name}
	return r
}

// OnlyCards returns the request without CPU and memory.
func (r Request) OnlyCards() Request {
	r.MilliCPU = 0
	r.Memory = 0
	return r
}

// LimitKind is the kind of a limit.
type LimitKind int

// The kinds of limits.
const (
	// HardLimit is the quota of a card, or the limit of CPU or memory.
	HardLimit LimitKind = iota
	// Terminating is a limit of cards, too: terminating pods use too many of them, and the
	// queue has to wait until they end.
	Terminating
	// NotReclaimable: pods from which no other queue can reclaim would use more than the queue
	// deserves.
	NotReclaimable
	// RecentlyReclaimed: the queue would borrow again what was just reclaimed from it.
	RecentlyReclaimed
	// KeptForOthers: the free quota of the queue or an ancestor is kept for pods that reclaimed
	// cards.
	KeptForOthers
	// Guaranteed: what is free is guaranteed to other queues.
	Guaranteed
	// Deserved: the request is more than the queue deserves, so it reclaims nothing.
	Deserved
	// Inventory: the queue would borrow what the nodes do not have beside all usage and reservations.
	Inventory
)

// InsufficientQuota is one limit that a request would exceed. Requested, Total and Limit are
// cards, millicores or bytes.
type InsufficientQuota struct {
	Kind LimitKind
	// Of is CPU or Memory if that is limited, "" for the cards of Names.
	Of Resource
	// Queue is the queue whose limit is exceeded, "" for the inventory. Ancestor reports whether
	// it is an ancestor of the requesting queue, which Requester names.
	Queue     string
	Ancestor  bool
	Requester string
	// Names are the requested alternatives; only for Cards and Terminating.
	Names []card.Name
	// OtherCards is how many further alternatives have even less free quota.
	OtherCards int
	// Requested is the request, Total the usage including it, and Limit the limit. For
	// Terminating, Total is what terminating pods use.
	Requested, Total, Limit int64
	// GracePeriod is the longest one of the terminating pods; only for Terminating.
	GracePeriod time.Duration
}

// resources returns what is limited: CPU, memory or the cards.
func (i *InsufficientQuota) resources() []Resource {
	if !i.Of.IsCard() {
		return []Resource{i.Of}
	}

	var cards []Resource
	for _, name := range i.Names {
		cards = append(cards, Resource(name))
	}
	return cards
}

// CardLabel returns the alternatives as users write them, "A|B".
func (i *InsufficientQuota) CardLabel() string { return joinNames(i.Names) }

// Resource returns what is limited, as users write it: the alternatives, "cpu" or "memory".
func (i *InsufficientQuota) Resource() string {
	if i.Of.IsCard() {
		return "<" + i.CardLabel() + ">"
	}
	return i.Of.String()
}

// Released are charges that a check treats as released: those of pods to evict, or of the pod
// that is checked.
type Released struct {
	Cards            map[card.Name]card.Count
	MilliCPU, Memory int64
	// Evicted is set when the charges are released by evictions; they count as terminating
	// then.
	Evicted bool
	// unreclaimable is the part of the charges from which other queues cannot reclaim, offInventory the part
	// that root does not include.
	unreclaimable, offInventory Amounts
}

// Clone returns a deep copy.
func (r *Released) Clone() Released {
	c := *r
	c.Cards = maps.Clone(r.Cards)
	c.unreclaimable = maps.Clone(r.unreclaimable)
	c.offInventory = maps.Clone(r.offInventory)
	return c
}

// amountIn returns how much of a resource is released in a queue, less at root.
func (r *Released) amountIn(q *queueLedger, resource Resource) int64 {
	if q.isRoot {
		return r.amount(resource) - r.offInventory[resource]
	}
	return r.amount(resource)
}

// amount returns how much of a resource is released.
func (r *Released) amount(of Resource) int64 {
	return of.selectAmount(r.MilliCPU, r.Memory, int64(r.Cards[of.Card()]))
}

// Add adds the charge of one more pod.
func (r *Released) Add(c *Charge) { r.addSigned(c, 1) }

// Remove undoes Add.
func (r *Released) Remove(c *Charge) { r.addSigned(c, -1) }

func (r *Released) addSigned(c *Charge, sign int64) {
	if r.Cards == nil {
		r.Cards = map[card.Name]card.Count{}
	}
	for _, amount := range c.Cards {
		r.Cards[amount.Name] += card.Count(sign) * amount.Count
	}

	r.MilliCPU += sign * c.MilliCPU
	r.Memory += sign * c.Memory
	if c.IsUnreclaimable {
		r.unreclaimable = r.unreclaimable.addSigned(c, sign)
	}

	switch {
	case c.IsOffInventory:
		r.offInventory = r.offInventory.addSigned(c, sign)
	case len(c.NotOffered) > 0:
		r.offInventory = r.offInventory.addSigned(&Charge{Cards: c.NotOffered}, sign)
	}
}

// addSigned adds the amounts of a charge, multiplied by sign, and returns the result.
func (s Amounts) addSigned(c *Charge, sign int64) Amounts {
	if s == nil {
		s = Amounts{}
	}
	for resource, amount := range c.Amounts() {
		s[resource] += sign * amount
	}
	return s
}

// noRelease releases nothing.
var noRelease Released

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
