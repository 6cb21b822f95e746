package cardseconds

import (
	"time"

	"cardquota.dev/operator/internal/card"
)

// maxGap bounds the time that CreditGap adds. An operator that was away for longer was not meant to
// bill.
const maxGap = 24 * time.Hour

// PodUsage is what one pod uses of a card, and since when it certainly does.
type PodUsage struct {
	Series Series
	Count  card.Count
	Since  time.Time
}

// CreditGap adds what pods have used while no replica counted: from the time until which the part of their
// sum was counted, at most maxGap, until this meter began to count. A sum that is new is credited from the
// time of the part that takes it. Without a loaded part it adds nothing, because then nothing was billed
// before. A pod that ended in the gap is not among the holdings, and stays lost. It does nothing before the
// first count, and a second time.
func (m *Meter) CreditGap(usages []PodUsage) {
	if m.begunAt.IsZero() || m.isCredited {
		return
	}

	m.isCredited = true
	if m.since.IsZero() {
		m.since = m.begunAt
	}

	for i := range usages { // a new sum needs its part
		if usages[i].Count > 0 {
			m.sumOf(usages[i].Series)
		}
	}

	// The part decides from when on a sum was counted, so every new sum gets one before the
	// credit.
	m.Place()
	for i := range usages {
		usage := &usages[i]
		from, isKnown := m.countedUntil(usage)
		if usage.Count <= 0 || !isKnown {
			continue
		}

		if usage.Since.After(from) {
			from = usage.Since
		}
		if gap := m.begunAt.Sub(from).Truncate(time.Millisecond); gap > 0 {
			m.addPieces(usage.Series, usage.Count, m.cut(m.begunAt, gap))
		}
	}
}

// countedUntil returns until when earlier meters counted the usage of a pod, false if none did.
func (m *Meter) countedUntil(usage *PodUsage) (time.Time, bool) {
	var until time.Time
	s := m.sums[usage.Series]
	if s == nil || s.part < 0 {
		return until, false
	}

	p := &m.parts[s.part]
	until = p.countedUntil
	if until.IsZero() { // an empty part: another one says when a meter counted
		for i := range m.parts {
			if other := m.parts[i].countedUntil; other.After(until) {
				until = other
			}
		}
	}

	if until.IsZero() {
		return until, false
	}

	if end := p.closedDay.next(); end != "" { // its entry has everything until then
		if closed := end.Begin(m.location()); closed.After(until) && !closed.After(m.begunAt) {
			until = closed
		}
	}

	if least := m.begunAt.Add(-maxGap); until.Before(least) {
		until = least
	}

	return until, true
}
