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

// Empty tells that nothing is asked for.
func (a JobRequest) Empty() bool { return len(a.Demands) == 0 && a.MilliCPU == 0 && a.Memory == 0 }

// Beyond is what of another application is no part of this one: its cards as a whole or
// not at all, and the rest of its CPU and memory.
func (a JobRequest) Beyond(other JobRequest) JobRequest {
	rest := JobRequest{MilliCPU: max(0, other.MilliCPU-a.MilliCPU), Memory: max(0, other.Memory-a.Memory)}
	if !a.covers(other.Demands) {
		rest.Demands = other.Demands
	}
	return rest
}

// Without is this application without what Beyond found.
func (a JobRequest) Without(beyond JobRequest) JobRequest {
	if len(beyond.Demands) > 0 {
		a.Demands = nil
	}
	a.MilliCPU -= beyond.MilliCPU
	a.Memory -= beyond.Memory
	return a
}

// covers tells whether demands are met by what this application asks for. Who may have
// an A may have an A or B.
func (a JobRequest) covers(demands []Demand) bool {
	var own index
	if !slices.ContainsFunc(demands, func(d Demand) bool {
		i := own.find(a.Demands, d.Names)
		return i < 0 || a.Demands[i].Count < d.Count
	}) {
		return true
	}
	left := slices.Clone(a.Demands)
	for _, d := range demands {
		for i := range left {
			if len(left[i].Names) > 0 && len(without(left[i].Names, func(name card.Name) bool { return slices.Contains(d.Names, name) })) == 0 {
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

// Granted is an application without the cards that the queue has no quota for: it
// can get none of them, not even of what elastic jobs give back, as that is in use
// above a quota of nothing.
func (a *Ledger) Granted(queue string, app JobRequest) JobRequest {
	limits := a.Limits(queue)
	lacks := func(name card.Name) bool { return limits.Cards[name] == 0 }
	if limits.AnyCard || !slices.ContainsFunc(app.Demands, func(d Demand) bool { return slices.ContainsFunc(d.Names, lacks) }) {
		return app
	}
	demands := make([]Demand, len(app.Demands))
	for i, d := range app.Demands {
		demands[i] = Demand{Names: without(d.Names, lacks), Count: d.Count}
	}
	app.Demands = demands
	return app
}

// without is names without some; it copies only if there are any.
func without(names []card.Name, some func(card.Name) bool) []card.Name {
	if !slices.ContainsFunc(names, some) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), some)
}

// Admit is the gate Enqueue: it returns nil when the cards of everything that
// waits in the queue and of the application can be handed out together within
// ⌊quota × overCommit⌋, after what is in use, and CPU and memory fit likewise.
// overCommit is at least 1.
//
// With alternatives a sum per card is wrong in both directions, so this is a
// matching: a flow from the demands to the card names, found exactly as long as
// not too many different choices wait or are applied for, see mostChoices.
func (a *Ledger) Admit(queue string, waiting Waiting, app JobRequest, overCommit float64) *Shortage {
	limits := a.Limits(queue)
	if !limits.AnyCard && slices.ContainsFunc(app.Demands, func(d Demand) bool { return d.Count > 0 }) {
		if _, s := a.admitCards(queue, &waiting, app, overCommit); s != nil {
			return s
		}
	}
	milliCPU, memory := a.UsedCPUMemory(queue)
	milliCPU, memory = Sum(max(0, milliCPU-waiting.spareCPU), waiting.MilliCPU), Sum(max(0, memory-waiting.spareMemory), waiting.Memory)
	return firstOf(append(exceeding(CPU, queue, milliCPU, app.MilliCPU, scale(limits.MilliCPU, overCommit)),
		exceeding(Memory, queue, memory, app.Memory, scale(limits.Memory, overCommit))...))
}

// FitsAlone tells whether Admit would admit the application to a queue in which nothing
// else is but these charges.
func (a *Ledger) FitsAlone(queue string, own []*Charge, app JobRequest, overCommit float64) bool {
	limits, total, one := a.Limits(queue), card.Count(0), len(own) == 0
	for _, d := range app.Demands {
		total = total.Add(d.Count)
	}
	for _, d := range app.Demands { // nearly always one card has quota for all of it
		one = one && slices.ContainsFunc(d.Names, func(name card.Name) bool { return total <= limits.Cards[name] })
	}
	if one && app.MilliCPU <= limits.MilliCPU && app.Memory <= limits.Memory {
		return true
	}
	alone := New(len(own))
	alone.SetLimits(queue, limits)
	for i, c := range own {
		alone.Charge(strconv.Itoa(i), c)
	}
	return alone.Admit(queue, Waiting{}, app, overCommit) == nil
}

// admitCards adds the demands of the application one after the other, so that
// the shortage names the first that does not fit. What is in use above a
// lowered quota, and earlier admissions that a lowered quota left without
// room, hold up only those who compete with them for a card.
func (a *Ledger) admitCards(queue string, waiting *Waiting, app JobRequest, overCommit float64) (*matching, *Shortage) {
	limits := a.Limits(queue)
	limit := func(name card.Name) int64 { return scale(int64(limits.Cards[name]), overCommit) }
	m := newMatching(waiting.Elastic, func(name card.Name) int64 {
		return max(0, limit(name)-int64(a.Used(queue, name)))
	})
	for _, name := range a.overused(queue, limit) {
		m.add(Demand{Names: []card.Name{name}, Count: card.Count(int64(a.Used(queue, name)) - limit(name))})
	}
	for _, d := range waiting.Demands {
		m.add(d)
	}
	for i, d := range app.Demands {
		if got := m.add(d); got < d.Count {
			s := &Shortage{Kind: Cards, Queue: queue, Names: d.Names, Requested: int64(d.Count)}
			s.Total = s.Requested + int64(competing(waiting.Demands, d).Add(competing(app.Demands[:i], d)))
			for _, name := range d.Names {
				s.Total += int64(a.Used(queue, name))
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

// overused lists the cards that the queue uses beyond the limit, sorted.
func (a *Ledger) overused(queue string, limit func(card.Name) int64) []card.Name {
	var over []card.Name
	for name, used := range a.usage(queue).cards {
		if int64(used) > limit(name) {
			over = append(over, name)
		}
	}
	slices.Sort(over)
	return over
}

// competing sums the demands that share a card name with d.
func competing(demands []Demand, d Demand) card.Count {
	var total card.Count
	for _, other := range demands {
		if slices.ContainsFunc(other.Names, func(name card.Name) bool { return slices.Contains(d.Names, name) }) {
			total = total.Add(other.Count)
		}
	}
	return total
}

// millionths are what a factor is counted in: 1.15 is no binary fraction, and 100 times
// it would be less than 115.
const millionths = 1_000_000

// scale multiplies a limit, rounding down: nothing that is not whole is given.
func scale(limit int64, by float64) int64 {
	if limit == Unlimited || by == 1 {
		return limit
	}
	high, low := bits.Mul64(uint64(limit), uint64(by*millionths+0.001))
	if high >= millionths {
		return Unlimited
	}
	scaled, _ := bits.Div64(high, low, millionths)
	return int64(min(scaled, uint64(Unlimited)))
}
