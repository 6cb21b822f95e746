// Package cardseconds sums up the cards that queues use over time: cards × seconds, for bills.
//
// The package is pure: no client, no clock, no logger.
package cardseconds

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"cardquota.dev/operator/internal/card"
)

// Series identifies a sum. Pods without a queue have a sum of each Namespace, and no Tenant.
type Series struct{ Tenant, Project, Queue, Namespace, Card, ServiceType string }

const (
	// maxCountAge bounds the time for which one count is taken as true. A replica that stood still may
	// no longer lead, and another one has counted meanwhile.
	maxCountAge = 2 * time.Minute
	// idleTime is how long a sum stays that does not grow. Prometheus has scraped it by then, and
	// takes its return from zero as a new start.
	idleTime = 7 * 24 * time.Hour
)

// Meter sums up card-seconds. The zero value has no sums.
type Meter struct {
	// counts are the cards in use by the count of countedAt. They are summed up until at.
	counts        map[Series]card.Count
	countedAt, at time.Time
	sums          map[Series]*sum
	// begunAt is when the meter began to count. loadedUntil is until when the loaded sums were counted,
	// zero if none was loaded.
	begunAt, loadedUntil time.Time
}

type sum struct {
	seconds float64
	// grewAt is when the sum last grew.
	grewAt time.Time
	// part is where the sum is stored, -1 before that.
	part int
}

// SetCounts replaces the cards in use. The earlier ones were in use until now.
func (m *Meter) SetCounts(now time.Time, counts map[Series]card.Count) {
	m.Advance(now)
	m.counts, m.countedAt, m.at = maps.Clone(counts), now, now
	if m.begunAt.IsZero() {
		m.begunAt = now
	}
}

// Advance sums up what was in use until now, at most until the last count is too old.
func (m *Meter) Advance(now time.Time) {
	if oldest := m.countedAt.Add(maxCountAge); now.After(oldest) {
		now = oldest
	}
	if m.at.IsZero() || !now.After(m.at) {
		return
	}
	for series, count := range m.counts {
		if count > 0 {
			m.add(series, float64(count)*now.Sub(m.at).Seconds(), now, -1)
		}
	}
	m.at = now
}

func (m *Meter) add(series Series, seconds float64, at time.Time, part int) {
	if m.sums == nil {
		m.sums = map[Series]*sum{}
	}
	s := m.sums[series]
	if s == nil {
		s = &sum{part: -1}
		m.sums[series] = s
	}
	s.seconds += seconds
	s.part = max(s.part, part)
	if s.grewAt.Before(at) {
		s.grewAt = at
	}
}

// DropSums drops all sums. What is in use counts from now on.
func (m *Meter) DropSums(now time.Time) {
	m.sums, m.at, m.begunAt, m.loadedUntil = nil, now, now, time.Time{}
}

// Sums returns a copy of all sums.
func (m *Meter) Sums() map[Series]float64 {
	all := make(map[Series]float64, len(m.sums))
	for series, s := range m.sums {
		all[series] = s.seconds
	}
	return all
}

// forgetIdle drops the sums that have not grown for idleTime.
func (m *Meter) forgetIdle(now time.Time) {
	maps.DeleteFunc(m.sums, func(_ Series, s *sum) bool { return now.Sub(s.grewAt) > idleTime })
}

// sorted returns all series in a fixed order.
func (m *Meter) sorted() []Series {
	return slices.SortedFunc(maps.Keys(m.sums), func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Card, b.Card), cmp.Compare(a.Tenant, b.Tenant),
			cmp.Compare(a.Project, b.Project), cmp.Compare(a.ServiceType, b.ServiceType), cmp.Compare(a.Namespace, b.Namespace))
	})
}
