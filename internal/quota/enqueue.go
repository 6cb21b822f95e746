package quota

import (
	"math/bits"
	"slices"
	"strconv"

	"cardquota.dev/operator/internal/card"
)

// JobRequest is what one job requests at enqueue.
type JobRequest struct {
	Cards            []CardRequest
	MilliCPU, Memory int64
}

// IsEmpty reports whether nothing is requested.
func (r JobRequest) IsEmpty() bool { return len(r.Cards) == 0 && r.MilliCPU == 0 && r.Memory == 0 }

// Excess returns the part of another request that this one does not cover: its cards, all or
// none, and the rest of its CPU and memory.
func (r JobRequest) Excess(other JobRequest) JobRequest {
	excess := JobRequest{MilliCPU: max(0, other.MilliCPU-r.MilliCPU), Memory: max(0, other.Memory-r.Memory)}
	if !r.coversCards(other.Cards) {
		excess.Cards = other.Cards
	}
	return excess
}

// Without returns this request without an excess that Excess returned.
func (r JobRequest) Without(excess JobRequest) JobRequest {
	if len(excess.Cards) > 0 {
		r.Cards = nil
	}
	r.MilliCPU -= excess.MilliCPU
	r.Memory -= excess.Memory
	return r
}

// coversCards reports whether this request covers requests of another job. A request for A is
// covered by one for A, and one for A or B by one for A.
func (r JobRequest) coversCards(requests []CardRequest) bool {
	var own cardRequestIndex
	if !slices.ContainsFunc(requests, func(d CardRequest) bool {
		i := own.find(r.Cards, d.Names)
		return i < 0 || r.Cards[i].Count < d.Count
	}) {
		return true
	}
	remaining := slices.Clone(r.Cards)
	for _, d := range requests {
		for i := range remaining {
			if len(remaining[i].Names) > 0 && len(removeNames(remaining[i].Names, func(name card.Name) bool { return slices.Contains(d.Names, name) })) == 0 {
				met := min(d.Count, remaining[i].Count)
				d.Count, remaining[i].Count = d.Count-met, remaining[i].Count-met
			}
		}
		if d.Count > 0 {
			return false
		}
	}
	return true
}

// DropUngranted removes from a request the cards that the queue has no quota for. It can get
// none of them, not even from elastic jobs.
func (l *Ledger) DropUngranted(queue string, request JobRequest) JobRequest {
	limits := l.Limits(queue)
	hasNoQuota := func(name card.Name) bool { return limits.Cards[name] == 0 }
	if limits.AnyCard || !slices.ContainsFunc(request.Cards, func(d CardRequest) bool { return slices.ContainsFunc(d.Names, hasNoQuota) }) {
		return request
	}
	cards := make([]CardRequest, len(request.Cards))
	for i, d := range request.Cards {
		cards[i] = CardRequest{Names: removeNames(d.Names, hasNoQuota), Count: d.Count}
	}
	request.Cards = cards
	return request
}

// removeNames returns names without some. It copies only if it removes any.
func removeNames(names []card.Name, some func(card.Name) bool) []card.Name {
	if !slices.ContainsFunc(names, some) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), some)
}

// CheckEnqueue is the check of Volcano's enqueue. It returns nil if all reservations and the
// request fit together into ⌊quota × overCommit⌋ − used, and CPU and memory fit likewise.
// overCommit is at least 1.
//
// With alternatives a sum per card is wrong in both directions, so this is a matching: a
// maximum flow from requests to card names. It is exact up to maxChoices different choices.
func (l *Ledger) CheckEnqueue(queue string, inqueue Reservations, request JobRequest, overCommit float64) *InsufficientQuota {
	limits := l.Limits(queue)
	if !limits.AnyCard && slices.ContainsFunc(request.Cards, func(d CardRequest) bool { return d.Count > 0 }) {
		if _, s := l.matchCards(queue, &inqueue, request, overCommit); s != nil {
			return s
		}
	}
	milliCPU, memory := l.UsedCPUMemory(queue)
	milliCPU, memory = AddSaturating(max(0, milliCPU-inqueue.elasticCPU), inqueue.MilliCPU), AddSaturating(max(0, memory-inqueue.elasticMemory), inqueue.Memory)
	return firstInsufficient(append(insufficientAmount(CPU, queue, milliCPU, request.MilliCPU, scaleLimit(limits.MilliCPU, overCommit)),
		insufficientAmount(Memory, queue, memory, request.Memory, scaleLimit(limits.Memory, overCommit))...))
}

// FitsAlone reports whether CheckEnqueue would accept the request if the queue held only these
// charges.
func (l *Ledger) FitsAlone(queue string, own []*Charge, request JobRequest, overCommit float64) bool {
	limits, total, one := l.Limits(queue), card.Count(0), len(own) == 0
	for _, d := range request.Cards {
		total = total.Add(d.Count)
	}
	for _, d := range request.Cards { // usually one card has quota for the whole request
		one = one && slices.ContainsFunc(d.Names, func(name card.Name) bool { return total <= limits.Cards[name] })
	}
	if one && request.MilliCPU <= limits.MilliCPU && request.Memory <= limits.Memory {
		return true
	}
	alone := New(len(own))
	alone.SetLimits(queue, limits)
	for i, c := range own {
		alone.Charge(strconv.Itoa(i), c)
	}
	return alone.CheckEnqueue(queue, Reservations{}, request, overCommit) == nil
}

// matchCards adds the requests of the request one by one, so the result names the first that
// does not fit. Usage and reservations above a lowered quota block only requests for the same
// cards.
func (l *Ledger) matchCards(queue string, inqueue *Reservations, request JobRequest, overCommit float64) (*matching, *InsufficientQuota) {
	limits := l.Limits(queue)
	limit := func(name card.Name) int64 { return scaleLimit(int64(limits.Cards[name]), overCommit) }
	m := newMatching(inqueue.Elastic, func(name card.Name) int64 {
		return max(0, limit(name)-int64(l.Used(queue, name)))
	})
	for _, name := range l.cardsOverLimit(queue, limit) {
		m.addRequest(CardRequest{Names: []card.Name{name}, Count: card.Count(int64(l.Used(queue, name)) - limit(name))})
	}
	for _, d := range inqueue.Cards {
		m.addRequest(d)
	}
	for i, d := range request.Cards {
		if got := m.addRequest(d); got < d.Count {
			s := &InsufficientQuota{Kind: Cards, Queue: queue, Names: d.Names, Requested: int64(d.Count)}
			s.Total = s.Requested + int64(sumCompeting(inqueue.Cards, d).Add(sumCompeting(request.Cards[:i], d)))
			for _, name := range d.Names {
				s.Total += int64(l.Used(queue, name))
				s.Limit += limit(name)
			}
			// With alternatives the sums can look sufficient, so report at least what the
			// matching could not give.
			s.Total = max(s.Total, s.Limit+int64(d.Count-got))
			return m, s
		}
	}
	return m, nil
}

// cardsOverLimit lists the cards that the queue uses beyond the limit, sorted.
func (l *Ledger) cardsOverLimit(queue string, limit func(card.Name) int64) []card.Name {
	var over []card.Name
	for name, used := range l.readQueue(queue).cards {
		if int64(used) > limit(name) {
			over = append(over, name)
		}
	}
	slices.Sort(over)
	return over
}

// sumCompeting sums the requests that share a card name with d.
func sumCompeting(requests []CardRequest, d CardRequest) card.Count {
	var total card.Count
	for _, other := range requests {
		if slices.ContainsFunc(other.Names, func(name card.Name) bool { return slices.Contains(d.Names, name) }) {
			total = total.Add(other.Count)
		}
	}
	return total
}

// factorUnits is the unit of a factor: 1.15 is no binary fraction, and 100 times it would be
// less than 115.
const factorUnits = 1_000_000

// scaleLimit multiplies a limit and rounds down.
func scaleLimit(limit int64, factor float64) int64 {
	if limit == Unlimited || factor == 1 {
		return limit
	}
	high, low := bits.Mul64(uint64(limit), uint64(factor*factorUnits+0.001))
	if high >= factorUnits {
		return Unlimited
	}
	scaled, _ := bits.Div64(high, low, factorUnits)
	return int64(min(scaled, uint64(Unlimited)))
}
