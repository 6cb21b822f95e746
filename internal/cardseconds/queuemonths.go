package cardseconds

import "time"

// QueueMonths is the use of a queue, or of several, in this month and in the last one.
type QueueMonths struct {
	// CountedUntil is until when this month is counted, Ends when it ends.
	CountedUntil, Ends time.Time
	This, Last         QueueMonth
}

// QueueMonth is the use of a queue in a month, by card.
type QueueMonth struct {
	Month Period
	Cards map[string]Milli
}

// MonthlyUse is the use of all queues in this month and in the last one. It never changes.
type MonthlyUse struct {
	countedUntil, ends time.Time
	this, last         Period
	// queues are the sums of both months by queue and card.
	queues map[string]map[string]twoMonths
}

// twoMonths are the sums of this month and of the last one.
type twoMonths struct{ this, last Milli }

// MonthlyUse returns the use of all queues. closed returns the sums of a month that have left the meter.
func (m *Meter) MonthlyUse(closed func(Period) []map[Series]Milli) *MonthlyUse {
	zone := m.location()
	month := DayOf(m.at.In(zone)).Month()
	use := &MonthlyUse{
		countedUntil: m.at, ends: month.next().Begin(zone), this: month, last: month.Add(-1), queues: map[string]map[string]twoMonths{},
	}

	for series, s := range m.sums {
		use.add(series, s.open[use.this], s.open[use.last])
	}

	// A month can close while LocalCardQuotas still show it. Its sums are then in entries, and no more in
	// the meter.
	for _, sums := range closed(use.this) {
		for series, amount := range sums {
			use.add(series, amount, 0)
		}
	}

	for _, sums := range closed(use.last) {
		for series, amount := range sums {
			use.add(series, 0, amount)
		}
	}

	return use
}

// add adds what a series used in this month and in the last one.
func (u *MonthlyUse) add(series Series, this, last Milli) {
	if this <= 0 && last <= 0 {
		return
	}

	cards := u.queues[series.Queue]
	if cards == nil {
		cards = map[string]twoMonths{}
		u.queues[series.Queue] = cards
	}

	sums := cards[series.Card]
	sums.this = min(sums.this+this, maxMilli)
	sums.last = min(sums.last+last, maxMilli)
	cards[series.Card] = sums
}

// CountedUntil returns until when this month is counted.
func (u *MonthlyUse) CountedUntil() time.Time { return u.countedUntil }

// Queues returns the use of some queues together.
func (u *MonthlyUse) Queues(queues ...string) QueueMonths {
	use := QueueMonths{
		CountedUntil: u.countedUntil, Ends: u.ends,
		This: QueueMonth{u.this, map[string]Milli{}},
		Last: QueueMonth{u.last, map[string]Milli{}},
	}

	for _, queue := range queues {
		for name, sums := range u.queues[queue] {
			use.This.add(name, sums.this)
			use.Last.add(name, sums.last)
		}
	}
	return use
}

func (q *QueueMonth) add(name string, amount Milli) {
	if amount > 0 {
		q.Cards[name] = min(q.Cards[name]+amount, maxMilli)
	}
}
