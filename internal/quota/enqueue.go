package quota

import (
	"math/bits"
	"slices"
	"strconv"

	"cardquota.dev/operator/internal/card"
)

// JobRequest is what one job asks for when it applies for admission.
type JobRequest struct {
	Demands          []Demand
	MilliCPU, Memory int64
}

// IsEmpty tells that nothing is asked for.
func (r JobRequest) IsEmpty() bool { return len(r.Demands) == 0 && r.MilliCPU == 0 && r.Memory == 0 }

// Excess is what of another application is no part of this one: its cards as a whole or
// not at all, and the rest of its CPU and memory.
func (r JobRequest) Excess(other JobRequest) JobRequest {
	rest := JobRequest{MilliCPU: max(0, other.MilliCPU-r.MilliCPU), Memory: max(0, other.Memory-r.Memory)}
	if !r.coversDemands(other.Demands) {
		rest.Demands = other.Demands
	}
	return rest
}

// Without is this application without what Beyond found.
func (r JobRequest) Without(beyond JobRequest) JobRequest {
	if len(beyond.Demands) > 0 {
		r.Demands = nil
	}
	r.MilliCPU -= beyond.MilliCPU
	r.Memory -= beyond.Memory
	return r
}

// coversDemands tells whether demands are met by what this application asks for. Who may have
// an A may have an A or B.
func (r JobRequest) coversDemands(demands []Demand) bool {
	var own demandIndex
	if !slices.ContainsFunc(demands, func(d Demand) bool {
		i := own.find(r.Demands, d.Names)
		return i < 0 || r.Demands[i].Count < d.Count
	}) {
		return true
	}
	left := slices.Clone(r.Demands)
	for _, d := range demands {
		for i := range left {
			if len(left[i].Names) > 0 && len(removeNames(left[i].Names, func(name card.Name) bool { return slices.Contains(d.Names, name) })) == 0 {
				met := min(d.Count, left[i].Count)
				d.Count, left[i].Count = d.Count-met, left[i].Count-met
			}
		}
		if d.Count > 0 {
			return false
		}
	}
	return true
}

// DropUngranted is an application without the cards that the queue has no quota for: it
// can get none of them, not even of what elastic jobs give back, as that is in use
// above a quota of nothing.
func (l *Ledger) DropUngranted(queue string, request JobRequest) JobRequest {
	limits := l.Limits(queue)
	lacks := func(name card.Name) bool { return limits.Cards[name] == 0 }
	if limits.AnyCard || !slices.ContainsFunc(request.Demands, func(d Demand) bool { return slices.ContainsFunc(d.Names, lacks) }) {
		return request
	}
	demands := make([]Demand, len(request.Demands))
	for i, d := range request.Demands {
		demands[i] = Demand{Names: removeNames(d.Names, lacks), Count: d.Count}
	}
	request.Demands = demands
	return request
}

// removeNames is names without some; it copies only if there are any.
func removeNames(names []card.Name, some func(card.Name) bool) []card.Name {
	if !slices.ContainsFunc(names, some) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), some)
}

// CheckEnqueue is the gate Enqueue: it returns nil when the cards of everything that
// waits in the queue and of the application can be handed out together within
// ⌊quota × overCommit⌋, after what is in use, and CPU and memory fit likewise.
// overCommit is at least 1.
//
// With alternatives a sum per card is wrong in both directions, so this is a
// matching: a flow from the demands to the card names, found exactly as long as
// not too many different choices wait or are applied for, see mostChoices.
func (l *Ledger) CheckEnqueue(queue string, inqueue InqueueDemand, request JobRequest, overCommit float64) *InsufficientQuota {
	limits := l.Limits(queue)
	if !limits.AnyCard && slices.ContainsFunc(request.Demands, func(d Demand) bool { return d.Count > 0 }) {
		if _, s := l.matchCards(queue, &inqueue, request, overCommit); s != nil {
			return s
		}
	}
	milliCPU, memory := l.UsedCPUMemory(queue)
	milliCPU, memory = AddSaturating(max(0, milliCPU-inqueue.elasticCPU), inqueue.MilliCPU), AddSaturating(max(0, memory-inqueue.elasticMemory), inqueue.Memory)
	return firstInsufficient(append(insufficientAmount(CPU, queue, milliCPU, request.MilliCPU, scaleLimit(limits.MilliCPU, overCommit)),
		insufficientAmount(Memory, queue, memory, request.Memory, scaleLimit(limits.Memory, overCommit))...))
}

// FitsAlone tells whether Admit would admit the application to a queue in which nothing
// else is but these charges.
func (l *Ledger) FitsAlone(queue string, own []*Charge, request JobRequest, overCommit float64) bool {
	limits, total, one := l.Limits(queue), card.Count(0), len(own) == 0
	for _, d := range request.Demands {
		total = total.Add(d.Count)
	}
	for _, d := range request.Demands { // nearly always one card has quota for all of it
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
	return alone.CheckEnqueue(queue, InqueueDemand{}, request, overCommit) == nil
}

// matchCards adds the demands of the application one after the other, so that
// the shortage names the first that does not fit. What is in use above a
// lowered quota, and earlier admissions that a lowered quota left without
// room, hold up only those who compete with them for a card.
func (l *Ledger) matchCards(queue string, inqueue *InqueueDemand, request JobRequest, overCommit float64) (*matching, *InsufficientQuota) {
	limits := l.Limits(queue)
	limit := func(name card.Name) int64 { return scaleLimit(int64(limits.Cards[name]), overCommit) }
	m := newMatching(inqueue.Elastic, func(name card.Name) int64 {
		return max(0, limit(name)-int64(l.Used(queue, name)))
	})
	for _, name := range l.cardsOverLimit(queue, limit) {
		m.addDemand(Demand{Names: []card.Name{name}, Count: card.Count(int64(l.Used(queue, name)) - limit(name))})
	}
	for _, d := range inqueue.Demands {
		m.addDemand(d)
	}
	for i, d := range request.Demands {
		if got := m.addDemand(d); got < d.Count {
			s := &InsufficientQuota{Kind: Cards, Queue: queue, Names: d.Names, Requested: int64(d.Count)}
			s.Total = s.Requested + int64(sumCompeting(inqueue.Demands, d).Add(sumCompeting(request.Demands[:i], d)))
			for _, name := range d.Names {
				s.Total += int64(l.Used(queue, name))
				s.Limit += limit(name)
			}
			// With alternatives the sums may look as if it fitted; what is missing
			// is what the matching could not give.
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

// sumCompeting sums the demands that share a card name with d.
func sumCompeting(demands []Demand, d Demand) card.Count {
	var total card.Count
	for _, other := range demands {
		if slices.ContainsFunc(other.Names, func(name card.Name) bool { return slices.Contains(d.Names, name) }) {
			total = total.Add(other.Count)
		}
	}
	return total
}

// factorUnits are what a factor is counted in: 1.15 is no binary fraction, and 100 times
// it would be less than 115.
const factorUnits = 1_000_000

// scaleLimit multiplies a limit, rounding down: nothing that is not whole is given.
func scaleLimit(limit int64, by float64) int64 {
	if limit == Unlimited || by == 1 {
		return limit
	}
	high, low := bits.Mul64(uint64(limit), uint64(by*factorUnits+0.001))
	if high >= factorUnits {
		return Unlimited
	}
	scaled, _ := bits.Div64(high, low, factorUnits)
	return int64(min(scaled, uint64(Unlimited)))
}
