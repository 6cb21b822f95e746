package quota

import (
	"maps"
	"time"

	"cardquota.dev/operator/internal/card"
)

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
// cards, millicores or bytes. The texts for users are in internal/workload/refusalwording.go.
type InsufficientQuota struct {
	Kind LimitKind
	// Of is CPU or Memory if that is limited, "" for the cards of Names.
	Of Resource
	// Queue is the queue whose limit is exceeded, "" for the inventory. Ancestor reports whether
	// it is an ancestor of the requesting queue, which Requester names.
	Queue     string
	Ancestor  bool
	Requester string
	// Names are the requested alternatives, or the one that is reported of them; empty for CPU, memory
	// and cards without a name.
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

// amount returns how much of a resource is released.
func (r *Released) amount(of Resource) int64 {
	return of.selectAmount(r.MilliCPU, r.Memory, int64(r.Cards[of.Card()]))
}

// Add adds the charge of one more pod.
func (r *Released) Add(c *Charge) { r.addSigned(c, 1) }

// Remove undoes Add.
func (r *Released) Remove(c *Charge) { r.addSigned(c, -1) }

// addSigned adds a charge, multiplied by sign, to what is released. The sign is 1, or -1 to undo that. Two
// parts of the charge have sums of their own: what cannot be reclaimed, and what root does not count.
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

	// Root counts nothing on a node that takes no pods, and elsewhere no card that the node does not offer
	// any more.
	switch {
	case c.IsOffInventory:
		r.offInventory = r.offInventory.addSigned(c, sign)
	case len(c.NotOffered) > 0:
		r.offInventory = r.offInventory.addSigned(&Charge{Cards: c.NotOffered}, sign)
	}
}

// addSigned adds the amounts of a charge, multiplied by sign, and returns the result.
func (a Amounts) addSigned(c *Charge, sign int64) Amounts {
	if a == nil {
		a = Amounts{}
	}
	for resource, amount := range c.Amounts() {
		a[resource] += sign * amount
	}
	return a
}

// noRelease releases nothing.
var noRelease Released

// Bound is which limits bound a request.
type Bound int

// The bounds of a request.
const (
	// QuotaLeft is what the quotas of the queue and its ancestors leave, beside what is kept for
	// pods of others and what is guaranteed to other queues. A pod is placed only within it.
	QuotaLeft Bound = iota
	// QuotaIfIdle is what the quotas would leave beside what is guaranteed to others, if no queue used
	// more than its guarantee. Within its own guarantee, and within those of its ancestors that others
	// do not use, a queue leaves others theirs. Releases do not change it.
	QuotaIfIdle
	// DeservedLeft is what the queue deserves beyond what it uses, whether it may use that now or not.
	// A queue of a tree without a quota for cards deserves none. Without a tree a queue deserves its
	// quota.
	DeservedLeft
	// ReclaimableCards is what the queue may reclaim cards for: DeservedLeft within its own quota,
	// unless too many cards are terminating. CPU and memory must fit the quota of the queue itself.
	// Evictions may free those of its ancestors.
	ReclaimableCards
	// ReclaimableAll is ReclaimableCards if CPU and memory are reclaimed, too: the queue must deserve
	// them.
	ReclaimableAll
	// TerminatingLeft is all cards until terminating pods use more of one than a quota, and then none of
	// it. The other bounds but QuotaIfIdle and DeservedLeft include it.
	TerminatingLeft
)

// Within is what a request has to fit. Its zero value is what a queue has left now.
type Within struct {
	Bound Bound
	// Released are charges that count as released.
	Released Released
}
