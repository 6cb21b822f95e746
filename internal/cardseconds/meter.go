// Package cardseconds sums up the cards that pods use over time: cards × seconds, by day and by month, for
// bills.
//
// The package is pure: no client, no clock, no logger.
//
// A Meter has the sums that still grow. Each sum belongs to one running part, a text that the operator
// writes again and again. When a day or a month is over, its sums of a part become an entry, which is
// written once, and leave the part. An Archive decides where entries are stored, and which are dropped.
package cardseconds

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"cardquota.dev/operator/internal/card"
)

// Series identifies a sum: who pays, and for which card. Pods without a queue have a sum of each Namespace, and no
// Tenant.
type Series struct{ Tenant, Project, Queue, Namespace, Card, ServiceType string }

// Compare orders series.
func (s Series) Compare(o Series) int {
	return cmp.Or(cmp.Compare(s.Queue, o.Queue), cmp.Compare(s.Card, o.Card), cmp.Compare(s.Tenant, o.Tenant),
		cmp.Compare(s.Project, o.Project), cmp.Compare(s.ServiceType, o.ServiceType), cmp.Compare(s.Namespace, o.Namespace))
}

// Milli is a number of card-seconds in thousandths.
type Milli int64

const (
	// maxMilli bounds a sum: 100,000 cards for more than a century.
	maxMilli = Milli(1e18)
	// maxCount bounds the cards of one series.
	maxCount = card.Count(1e7)
	// maxCountAge bounds the time for which one count is taken as true. A replica that stood still may
	// no longer lead, and another one has counted meanwhile.
	maxCountAge = 2 * time.Minute
	// idleTime is how long the metric shows a sum that does not grow.
	idleTime = 7 * 24 * time.Hour
)

// Meter sums up card-seconds. The zero value has no sums and cuts days in UTC.
type Meter struct {
	zone *time.Location
	// counts are the cards in use by the count of countedAt. They are summed up until at.
	counts        map[Series]card.Count
	countedAt, at time.Time
	sums          map[Series]*sum
	parts         [Parts]runningPart
	// begunAt is when the meter began to count. hasUncounted reports whether the sums include what pods used in the
	// time before that in which no replica counted.
	begunAt      time.Time
	hasUncounted bool
	// since is when the first meter began to count, daysDropped the last day that was dropped.
	since       time.Time
	daysDropped Period
	// lackedRoom reports whether days were dropped before their time.
	lackedRoom bool
}

// sum is one sum that grows.
type sum struct {
	// total is that of all times, which the metric shows.
	total Milli
	// open are the sums of the days and months that are not closed.
	open map[Period]Milli
	// grewAt is when the sum last grew.
	grewAt time.Time
	// part is where the sum is stored, -1 before that.
	part int
}

// runningPart is what a meter knows of a part.
type runningPart struct {
	// countedUntil is until when the loaded sums were counted, zero if none was loaded.
	countedUntil time.Time
	// closedDay and closedMonth are the last ones of which nothing may be added any more.
	closedDay, closedMonth Period
}

// SetZone sets the time zone in which days are cut from now on. nil is UTC.
func (m *Meter) SetZone(zone *time.Location) { m.zone = zone }

// location returns the time zone of days.
func (m *Meter) location() *time.Location {
	if m.zone == nil {
		return time.UTC
	}
	return m.zone
}

// SetCounts replaces the cards in use. The earlier ones were in use until now. The first call begins the count.
func (m *Meter) SetCounts(now time.Time, counts map[Series]card.Count) {
	m.Advance(now)
	m.counts = maps.Clone(counts)
	m.countedAt = now
	// Sums are in whole milliseconds. The rest of one stays to be summed up with the next count. Only a clock that was
	// set, or a time that no count covers, makes more of a difference: that time is not billed.
	if behind := now.Sub(m.at); behind < 0 || behind >= time.Millisecond {
		m.at = now
	}
	if m.begunAt.IsZero() {
		m.begunAt = now
	}
}

// Advance sums up what was in use until now, at most until the last count is older than maxCountAge. Before
// the first count it does nothing, and neither if the clock was set back.
func (m *Meter) Advance(now time.Time) {
	// A replica that stood still may no longer lead, and another one has counted that time.
	if oldest := m.countedAt.Add(maxCountAge); now.After(oldest) {
		now = oldest
	}

	if m.at.IsZero() {
		return
	}
	passed := now.Sub(m.at).Truncate(time.Millisecond)
	if passed <= 0 {
		return
	}

	m.at = m.at.Add(passed)
	pieces := m.cut(now, passed)
	for series, count := range m.counts {
		if count > 0 {
			m.addPieces(series, count, pieces)
		}
	}
}

// piece is a part of one day.
type piece struct {
	day   Period
	milli int64
	end   time.Time
}

// cut divides the time that passed until an instant by days. The clock may have been set meanwhile, so the
// length is given, and only the end is read from the clock.
func (m *Meter) cut(until time.Time, length time.Duration) []piece {
	end := until.Round(0) // wall time only, by which days are cut
	var pieces []piece
	for from := end.Add(-length); from.Before(end); {
		next := nextDay(from.In(m.location()))
		if next.After(end) {
			next = end
		}
		pieces = append(pieces, piece{DayOf(from.In(m.location())), next.Sub(from).Milliseconds(), next})
		from = next
	}
	return mergeRounding(pieces, length.Milliseconds())
}

// mergeRounding gives the last piece what rounding took from the others. Together they have length, in milliseconds.
func mergeRounding(pieces []piece, length int64) []piece {
	for i := range pieces {
		length -= pieces[i].milli
	}
	if len(pieces) > 0 {
		pieces[len(pieces)-1].milli += length
	}
	return pieces
}

// addPieces adds what some cards used in each piece to the total, the day and the month of a sum.
func (m *Meter) addPieces(series Series, count card.Count, pieces []piece) {
	s := m.sumOf(series)
	for _, p := range pieces {
		amount := Milli(min(count, maxCount)) * Milli(p.milli)
		s.total = min(s.total+amount, maxMilli)
		for _, period := range m.openPeriods(s.part, p.day) {
			s.open[period] = min(s.open[period]+amount, maxMilli)
		}
		if s.grewAt.Before(p.end) {
			s.grewAt = p.end
		}
	}
}

// openPeriods returns the day and the month to which a part adds what was used on a day. A closed one never
// grows again: after a change of the clock or of the time zone the next one takes what would be added. A sum without a
// part (-1) has no closed ones yet.
func (m *Meter) openPeriods(part int, day Period) [2]Period {
	month := day.Month()
	if part >= 0 {
		day = max(day, m.parts[part].closedDay.next())
		month = max(month, m.parts[part].closedMonth.next())
	}
	return [2]Period{day, month}
}

// sumOf returns the sum of a series. It adds one without a part if there is none.
func (m *Meter) sumOf(series Series) *sum {
	if m.sums == nil {
		m.sums = map[Series]*sum{}
	}
	s := m.sums[series]
	if s == nil {
		s = &sum{part: -1, open: map[Period]Milli{}, grewAt: m.at}
		m.sums[series] = s
	}
	return s
}

// DropSums drops all sums, and all that was loaded. What is in use counts from now on.
func (m *Meter) DropSums(now time.Time) {
	*m = Meter{zone: m.zone, counts: m.counts, countedAt: m.countedAt, at: now, begunAt: now}
}

// CountedUntil returns until when everything is counted, zero before the first count.
func (m *Meter) CountedUntil() time.Time { return m.at }

// isIdle reports whether a sum has not grown for so long that the metric drops it.
func (m *Meter) isIdle(s *sum) bool { return m.at.Sub(s.grewAt) > idleTime }

// forgetIdle drops the totals that have not grown for idleTime, and the sums of which all days and months are
// closed. A total that grows again begins at zero.
func (m *Meter) forgetIdle() {
	for series, s := range m.sums {
		if !m.isIdle(s) {
			continue
		}
		s.total = 0
		if len(s.open) == 0 {
			delete(m.sums, series)
		}
	}
}

// sorted returns all series in a fixed order.
func (m *Meter) sorted() []Series { return slices.SortedFunc(maps.Keys(m.sums), Series.Compare) }
