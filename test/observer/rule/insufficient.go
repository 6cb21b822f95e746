package rule

import "fmt"

// Usage is what the pods of a queue use together.
type Usage struct {
	// Cards are used; Terminating are used by terminating pods.
	Cards, Terminating Quota
	MilliCPU, Memory   int64
}

// Add adds a charge that counts as used.
func (u *Usage) Add(charge Charge) {
	u.Cards = u.Cards.add(charge.Cards)
	u.MilliCPU = addBounded(u.MilliCPU, charge.MilliCPU)
	u.Memory = addBounded(u.Memory, charge.Memory)
}

// AddTerminating adds the cards of a terminating pod.
func (u *Usage) AddTerminating(charge Charge) {
	u.Terminating = u.Terminating.add(charge.Cards)
}

func (q Quota) add(more Quota) Quota {
	out := Quota{}
	for _, cards := range []Quota{q, more} {
		for card, count := range cards {
			out[card] += count
		}
	}
	return out
}

// addBounded adds without overflow.
func addBounded(a, b int64) int64 {
	if b > 0 && a > Unlimited-b {
		return Unlimited
	}
	return a + b
}

// InsufficientCard returns why a queue has no room for a request on one card, or "" when it
// has. Used cards may not exceed the quota. While more cards are terminating than the quota,
// the queue gets no more of that card.
func (l Limits) InsufficientCard(use Usage, card string, count int64) string {
	switch {
	case l.AnyCard || count == 0:
		return ""
	case use.Cards[card]+count > l.Cards[card]:
		return fmt.Sprintf("%d of <%s> and %d more exceed the quota of %d", use.Cards[card], card, count, l.Cards[card])
	case use.Terminating[card] > l.Cards[card]:
		return fmt.Sprintf("%d of <%s> are terminating, and the quota is %d", use.Terminating[card], card, l.Cards[card])
	}
	return ""
}

// InsufficientCPUMemory returns why a queue has no room for CPU and memory, or "" when it has.
// A resource that is not requested is never insufficient.
func (l Limits) InsufficientCPUMemory(use Usage, milliCPU, memory int64) string {
	switch {
	case milliCPU > 0 && l.MilliCPU != Unlimited && addBounded(use.MilliCPU, milliCPU) > l.MilliCPU:
		return fmt.Sprintf("cpu %dm and %dm more exceed %dm", use.MilliCPU, milliCPU, l.MilliCPU)
	case memory > 0 && l.Memory != Unlimited && addBounded(use.Memory, memory) > l.Memory:
		return fmt.Sprintf("memory %d and %d more exceed %d", use.Memory, memory, l.Memory)
	}
	return ""
}

// Insufficient returns why a queue has no room for a request on any of its cards, or "" when it
// has.
func (l Limits) Insufficient(use Usage, request Request) string {
	short := ""
	for _, card := range request.Cards {
		short = l.InsufficientCard(use, card, request.Count)
		if short == "" {
			break
		}
	}
	if short != "" {
		return short
	}
	return l.InsufficientCPUMemory(use, request.MilliCPU, request.Memory)
}
