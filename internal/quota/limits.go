package quota

import (
	"maps"
	"math"

	"cardquota.dev/operator/internal/card"
)

// Unlimited is a limit that nothing exceeds.
const Unlimited int64 = math.MaxInt64

// Limits are what a queue may use, what it deserves, and what is guaranteed to it.
type Limits struct {
	// Cards is the quota per card name; a missing name is 0.
	Cards card.Quota
	// AnyCard lifts the card limits: a queue without a quota of its own in a
	// cluster that is being migrated.
	AnyCard bool
	// MilliCPU is the CPU limit in thousandths of a core, or Unlimited.
	MilliCPU int64
	// Memory is the memory limit in bytes, or Unlimited.
	Memory int64
	// Deserved is what the queue may use and reclaim, and Guarantee what others leave free for
	// it. Both are nil for a flat queue, see IsFlat.
	Deserved, Guarantee Amounts
	// IsHeld reports whether the queue is held, or closed because of its place in a tree. Then its
	// unused guarantee is not left free.
	IsHeld bool
}

// IsFlat reports whether the limits are those of a flat queue: it deserves all that it may use, and is guaranteed
// nothing.
func (l *Limits) IsFlat() bool { return l.Deserved == nil }

// Equal reports whether two queues have the same limits.
func (l *Limits) Equal(o *Limits) bool {
	return l.AnyCard == o.AnyCard && l.MilliCPU == o.MilliCPU && l.Memory == o.Memory && l.IsHeld == o.IsHeld &&
		maps.Equal(l.Cards, o.Cards) && maps.Equal(l.Deserved, o.Deserved) && maps.Equal(l.Guarantee, o.Guarantee)
}

// Quota returns the limit of a resource, Unlimited or MaxCount if there is none.
func (l *Limits) Quota(of Resource) int64 {
	if l.AnyCard {
		return of.selectAmount(l.MilliCPU, l.Memory, int64(card.MaxCount))
	}
	return of.selectAmount(l.MilliCPU, l.Memory, int64(l.Cards[of.Card()]))
}

// deserved returns how much of a resource the queue deserves.
func (l *Limits) deserved(resource Resource) int64 {
	if l.IsFlat() {
		return l.Quota(resource)
	}

	// CPU and memory that are not written are limited only by the quota, as cards of a queue without a
	// quota for cards. A card that is not written is not deserved.
	deserved, isWritten := l.Deserved[resource]
	if (!resource.IsCard() && !isWritten) || (resource.IsCard() && l.AnyCard) {
		return l.Quota(resource)
	}
	return deserved
}

// isUnlimited reports whether the queue does not limit a resource.
func (l *Limits) isUnlimited(resource Resource) bool {
	if resource.IsCard() {
		return l.AnyCard
	}
	return l.Quota(resource) == Unlimited
}

// lacksQuota reports whether a queue of a tree has no quota for cards. It may use any, but deserves
// none: no administrator gave it cards that it could take back. A flat queue deserves all that it may use.
func (l *Limits) lacksQuota(resource Resource) bool {
	return !l.IsFlat() && l.AnyCard && resource.IsCard()
}

// deservesAny reports whether the queue deserves any amount of a resource, or uses cards without a
// quota, see lacksQuota. A queue without a limit may deserve less than everything.
func (l *Limits) deservesAny(resource Resource) bool {
	if resource.IsCard() {
		return l.AnyCard
	}
	return l.deserved(resource) == Unlimited
}

// usage is what the pods of a queue use, beside its limits.
type usage struct {
	limits Limits
	used   sums
}

// usedWith returns what the queue uses with so much more of a resource.
func (u *usage) usedWith(resource Resource, more int64) int64 {
	return AddSaturating(u.used.amountOf(resource), more)
}

// staysWithinDeserved reports whether the queue uses at most what it deserves with more of a resource.
// Then it takes back what siblings have borrowed, so no ancestor stops it.
func (u *usage) staysWithinDeserved(resource Resource, more int64) bool {
	return !u.limits.deservesAny(resource) && u.usedWith(resource, more) <= u.limits.deserved(resource)
}

// borrowed returns how many of a card the queue uses beyond what it deserves.
func (u *usage) borrowed(name card.Name) float64 {
	return float64(max(0, int64(u.used.cards[name])-u.limits.deserved(Resource(name))))
}

// fractionOfDeserved returns used ÷ deserved of a resource, 0 if the queue deserves any amount.
func (u *usage) fractionOfDeserved(of Resource) float64 {
	if u.limits.deservesAny(of) {
		return 0
	}
	return usedFraction(u.used.amountOf(of), u.limits.deserved(of))
}

// usedFraction returns used ÷ limit: 0 of Unlimited, infinite where nothing may be used.
func usedFraction(used, limit int64) float64 {
	switch {
	case used <= 0 || limit == Unlimited:
		return 0
	case limit <= 0:
		return math.Inf(1)
	default:
		return float64(used) / float64(limit)
	}
}
