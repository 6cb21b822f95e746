package rule

import "fmt"

// Use is what the pods of a queue hold together.
type Use struct {
	// Cards are used; Terminating are held by pods that are being deleted.
	Cards, Terminating Quota
	MilliCPU, Memory   int64
}

// Add takes what a pod holds that counts as used.
func (u *Use) Add(charge Charge) {
	u.Cards = u.Cards.plus(charge.Cards)
	u.MilliCPU = sum(u.MilliCPU, charge.MilliCPU)
	u.Memory = sum(u.Memory, charge.Memory)
}

// AddTerminating takes what a pod holds that is being deleted: cards alone.
func (u *Use) AddTerminating(charge Charge) {
	u.Terminating = u.Terminating.plus(charge.Cards)
}

func (q Quota) plus(more Quota) Quota {
	out := Quota{}
	for _, cards := range []Quota{q, more} {
		for card, count := range cards {
			out[card] += count
		}
	}
	return out
}

// sum adds without wrapping around.
func sum(a, b int64) int64 {
	if b > 0 && a > Unlimited-b {
		return Unlimited
	}
	return a + b
}

// ShortOn says why a queue has no room for an ask on one card, "" when it has: used
// may not exceed the quota, and while more is terminating than the quota the queue
// gets no more of that card.
func (l Limits) ShortOn(use Use, card string, count int64) string {
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

// ShortOf says why a queue has no room for CPU and memory, "" when it has. What is
// not asked for is never short.
func (l Limits) ShortOf(use Use, milliCPU, memory int64) string {
	switch {
	case milliCPU > 0 && l.MilliCPU != Unlimited && sum(use.MilliCPU, milliCPU) > l.MilliCPU:
		return fmt.Sprintf("cpu %dm and %dm more exceed %dm", use.MilliCPU, milliCPU, l.MilliCPU)
	case memory > 0 && l.Memory != Unlimited && sum(use.Memory, memory) > l.Memory:
		return fmt.Sprintf("memory %d and %d more exceed %d", use.Memory, memory, l.Memory)
	}
	return ""
}

// Short says why a queue has no room for an ask on any of its cards, "" when it has.
func (l Limits) Short(use Use, ask Ask) string {
	short := ""
	for _, card := range ask.Cards {
		if short = l.ShortOn(use, card, ask.Count); short == "" {
			break
		}
	}
	if short != "" {
		return short
	}
	return l.ShortOf(use, ask.MilliCPU, ask.Memory)
}
