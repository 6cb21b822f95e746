package cardseconds

import (
	"time"

	"cardquota.dev/operator/internal/card"
)

// maxUncounted bounds the time that AddUncounted adds to a sum. An operator that was away for longer was not meant to
// bill.
const maxUncounted = 24 * time.Hour

// PodUsage is what one pod uses of a card, and since when it certainly does.
type PodUsage struct {
	Series Series
	Count  card.Count
	Since  time.Time
}

// AddUncounted bills once what pods have used while no replica counted, as after a restart: from the time until which
// their sum was counted, at most maxUncounted, until this meter began to count. Each part, which is one stored text of
// sums, says until when its sums were counted. A new sum has the time of the part that takes it. Without a loaded part
// it adds nothing, because then nothing was billed before. The use of a pod that ended in that time is lost: usages are
// those of the first count. It does nothing before the first count, and a second time.
func (m *Meter) AddUncounted(usages []PodUsage) {
	if m.begunAt.IsZero() || m.hasUncounted {
		return
	}

	m.hasUncounted = true
	if m.since.IsZero() {
		m.since = m.begunAt
	}

	for i := range usages {
		if usages[i].Count > 0 {
			m.sumOf(usages[i].Series) // which adds a sum for a new series
		}
	}

	// The part decides from when on a sum was counted, so every new sum gets one first.
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
		if missed := m.begunAt.Sub(from).Truncate(time.Millisecond); missed > 0 {
			m.addPieces(usage.Series, usage.Count, m.cut(m.begunAt, missed))
		}
	}
}

// countedUntil returns until when earlier meters counted the usage of a pod, at most maxUncounted before this
// meter began. It returns false if none did, or if the sum has no room in any part.
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

	// The entry of a closed day has everything until the end of the day. A day that ends after this meter
	// began was closed by a clock that was ahead, so it proves nothing.
	if end := p.closedDay.next(); end != "" {
		if closed := end.Begin(m.location()); closed.After(until) && !closed.After(m.begunAt) {
			until = closed
		}
	}

	if least := m.begunAt.Add(-maxUncounted); until.Before(least) {
		until = least
	}

	return until, true
}
