package cardseconds

import (
	"time"

	"cardquota.dev/operator/internal/card"
)

// maxGap bounds the time that CreditGap adds. An operator that was away for longer was not meant to
// bill.
const maxGap = 24 * time.Hour

// Holding is what one pod holds of a card, and since when it certainly does.
type Holding struct {
	Series Series
	Count  card.Count
	Since  time.Time
}

// CreditGap adds what pods have held while no replica counted: from the end of the loaded sums, at most
// maxGap, until this meter began to count. It returns the series that were never stored. Without loaded
// sums it adds nothing, because then nothing was billed before. A pod that ended in the gap is not among
// the holdings, and stays lost.
func (m *Meter) CreditGap(holdings []Holding) (begun map[Series]bool) {
	if m.loadedUntil.IsZero() || m.begunAt.IsZero() {
		return nil
	}
	from, begun := m.loadedUntil, map[Series]bool{}
	if least := m.begunAt.Add(-maxGap); from.Before(least) {
		from = least
	}
	for i := range holdings {
		held := &holdings[i]
		since := held.Since
		if since.Before(from) {
			since = from
		}
		if held.Count <= 0 || !since.Before(m.begunAt) {
			continue
		}
		if s := m.sums[held.Series]; s == nil || s.part < 0 {
			begun[held.Series] = true
		}
		m.add(held.Series, float64(held.Count)*m.begunAt.Sub(since).Seconds(), m.begunAt, -1)
	}
	return begun
}
