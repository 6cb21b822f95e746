package quota

import (
	"math"

	"cardquota.dev/operator/internal/card"
)

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

// fractionOfDeserved returns used ÷ deserved of a resource.
func (u *usage) fractionOfDeserved(of Resource) float64 {
	if u.limits.deservesAny(of) {
		return 0
	}
	return usedFraction(u.used.amountOf(of), u.limits.deserved(of))
}

// usedFraction returns used ÷ limit, 0 of Unlimited.
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

// DominantShare returns the largest used ÷ limit of the queue's cards, CPU and memory: 0 for an
// idle queue, 1 for a full one, more after a quota was lowered.
func (l *Ledger) DominantShare(queue string) float64 {
	q := l.readQueue(queue)
	share := max(usedFraction(q.used.amountOf(CPU), q.limits.MilliCPU), usedFraction(q.used.amountOf(Memory), q.limits.Memory))
	for name, used := range q.used.cards {
		if !q.limits.AnyCard {
			share = max(share, usedFraction(int64(used), int64(q.limits.Cards[name])))
		}
	}
	return share
}

// AboveDeserved and AboveGuarantee return how much of a resource a queue and all queues below it
// use beyond what it deserves, and beyond its guarantee. Both are negative below it.
func (l *Ledger) AboveDeserved(queue string, resource Resource) int64 {
	q := l.readQueue(queue)
	if q.limits.deservesAny(resource) {
		return 0
	}
	return q.used.amountOf(resource) - q.limits.deserved(resource)
}

// AboveGuarantee is documented at AboveDeserved.
func (l *Ledger) AboveGuarantee(queue string, resource Resource) int64 {
	q := l.readQueue(queue)
	return q.used.amountOf(resource) - q.limits.Guarantee[resource]
}
