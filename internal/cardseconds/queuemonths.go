package cardseconds

import "time"

// QueueMonths is the use of a queue in this month and in the last one.
type QueueMonths struct {
	// CountedUntil is until when this month is counted.
	CountedUntil time.Time
	This, Last   QueueMonth
}

// QueueMonth is the use of a queue in a month, by card.
type QueueMonth struct {
	Month Period
	Cards map[string]Milli
}

// QueueMonths returns the use of a queue. closed returns the sums of a month that have left the meter.
func (m *Meter) QueueMonths(queue string, closed func(Period) []map[Series]Milli) QueueMonths {
	month := dayOf(m.at.In(m.location())).Month()
	use := QueueMonths{
		CountedUntil: m.at,
		This:         QueueMonth{month, map[string]Milli{}},
		Last:         QueueMonth{month.Add(-1), map[string]Milli{}},
	}
	for _, q := range []QueueMonth{use.This, use.Last} {
		for series, s := range m.sums {
			q.add(queue, series, s.open[q.Month])
		}
		for _, sums := range closed(q.Month) {
			for series, amount := range sums {
				q.add(queue, series, amount)
			}
		}
	}
	return use
}

func (q *QueueMonth) add(queue string, series Series, amount Milli) {
	if series.Queue == queue && amount > 0 {
		q.Cards[series.Card] = min(q.Cards[series.Card]+amount, maxMilli)
	}
}
