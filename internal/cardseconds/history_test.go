package cardseconds

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// disk is what the API server has.
type disk struct {
	texts       [Parts]string
	storedUntil [Parts]time.Time
	entries     map[EntryKey][]byte
}

// store writes what changed, as the operator does, but for the parts and entries that fail.
func (d *disk) store(t check.T, m *Meter, fails, entryFails func(part int) bool) {
	check.Equal(t, "sums without room", 0, m.Place())
	texts := m.Texts()
	for i := range texts {
		if !fails(i) {
			d.texts[i], d.storedUntil[i] = texts[i].Text, texts[i].CountedUntil
		}
	}
	for i := range Parts {
		for _, period := range m.ClosablePeriods(i, d.storedUntil[i]) {
			if entryFails(i) {
				break
			}
			key := EntryKey{period, i}
			packed, err := m.Entry(key)
			check.NoError(t, err)
			_, exists := d.entries[key]
			check.That(t, !exists, "entry %s is written twice", key)
			d.entries[key] = packed
			m.Close(key)
		}
	}
}

// load returns the meter of the next leader.
func (d *disk) load(t check.T) *Meter {
	m := &Meter{}
	for key := range d.entries {
		m.SetClosed(key.Part, key.Period)
	}
	for i, text := range d.texts {
		has := func(p Period) bool { _, has := d.entries[EntryKey{p, i}]; return has }
		check.NoError(t, m.Load(i, text, has))
	}
	return m
}

// stored returns what a report reads.
func (d *disk) stored(t check.T) *Stored {
	s := &Stored{}
	for i, text := range d.texts {
		check.NoError(t, s.AddRunning(i, text))
	}
	for key, packed := range d.entries {
		s.AddEntry(key, packed)
	}
	return s
}

func never(int) bool { return false }

// smallParts lets each part take one sum.
func smallParts(t *testing.T) {
	t.Helper()
	maxRunningSize = 200
	t.Cleanup(func() { maxRunningSize = MaxPartSize })
}

// naive are card-seconds by series and day, added second by second.
type naive map[Series]map[Period]Milli

func (n naive) add(series Series, count card.Count, from, to time.Time, zone *time.Location) {
	if n[series] == nil {
		n[series] = map[Period]Milli{}
	}
	for at := from; at.Before(to); at = at.Add(time.Second) {
		n[series][Period(at.In(zone).Format(DayLayout))] += 1000 * Milli(count)
	}
}

func (n naive) clone() naive {
	out := naive{}
	for series, days := range n {
		out[series] = maps.Clone(days)
	}
	return out
}

// zones have days of 23, 24 and 25 hours, at midnight and at other times.
var zones = []string{"UTC", "Europe/Berlin", "America/Havana", "Asia/Beirut", "Asia/Amman", "America/Santiago", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Kiritimati"}

func drawZone(t *rapid.T) *time.Location {
	zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
	check.NoError(t, err)
	return zone
}

// drawStart draws an instant of a year in which all these zones change their clocks.
func drawStart(t *rapid.T) time.Time {
	return time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 365*24).Draw(t, "hours")) * time.Hour)
}

func seriesOf(queue string) Series {
	return Series{Tenant: "lab", Project: "llm", Queue: queue, Card: "NVIDIA-H200", ServiceType: "training"}
}

// TestSumsOfDaysAndMonthsAreThoseOfEachSecond compares with a sum second by second, over changes of the
// leader, writes that fail, and days on which clocks change. Each leader credits what its pods held since the
// time until which the part of their sum was stored.
func TestSumsOfDaysAndMonthsAreThoseOfEachSecond(t *testing.T) {
	smallParts(t)
	seed.Check(t, func(t *rapid.T) {
		zone, begin := drawZone(t), drawStart(t)
		now := begin
		queues := []string{"a", "b", "c"}
		d, m := &disk{entries: map[EntryKey][]byte{}}, &Meter{}
		counts := map[Series]card.Count{}
		// want is what the leader has, kept what is stored, each sum until its own time.
		want, kept, keptUntil := naive{}, naive{}, map[Series]time.Time{}
		count := func(m *Meter) { m.SetZone(zone); m.SetCounts(now, counts) }
		for _, queue := range queues {
			counts[seriesOf(queue)] = card.Count(rapid.IntRange(1, 9).Draw(t, queue))
		}
		count(m)
		m.CreditGap(nil)
		run := func(minutes int) {
			for range minutes {
				next := now.Add(time.Minute)
				for series, n := range counts {
					want.add(series, n, now, next, zone)
				}
				now = next
				count(m)
			}
		}
		run(1)
		save := func(fails, entryFails func(int) bool) {
			d.store(t, m, fails, entryFails)
			for series, s := range m.sums {
				if !fails(s.part) {
					kept[series], keptUntil[series] = want.clone()[series], now
				}
			}
		}
		save(never, never)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if now.Sub(begin) > idleTime-2*24*time.Hour {
				break // idle sums are another test
			}
			switch rapid.SampledFrom([]string{"run", "count", "store", "lead"}).Draw(t, "step") {
			case "run":
				run(15 * rapid.IntRange(1, 10).Draw(t, "quarters of an hour"))
			case "count":
				for _, queue := range queues {
					counts[seriesOf(queue)] = card.Count(rapid.IntRange(0, 9).Draw(t, queue))
				}
				count(m)
			case "store":
				broken := rapid.SampledFrom([]int{-1, 0, 1, 2}).Draw(t, "broken part")
				without := rapid.SampledFrom([]int{-1, 0, 1, 2}).Draw(t, "part whose entries fail")
				save(func(part int) bool { return part == broken }, func(part int) bool { return part == without })
			case "lead":
				now = now.Add(time.Duration(rapid.IntRange(0, 30*3600).Draw(t, "seconds without a leader")) * time.Second)
				m = d.load(t)
				var holdings []Holding
				want = kept.clone()
				for _, queue := range queues {
					series := seriesOf(queue)
					n := counts[series]
					if n == 0 || rapid.Bool().Draw(t, "ended") {
						counts[series] = 0
						continue
					}
					since := now.Add(-time.Duration(rapid.IntRange(0, 40*3600).Draw(t, "held for")) * time.Second)
					holdings = append(holdings, Holding{series, n, since})
					from := keptUntil[series]
					if since.After(from) {
						from = since
					}
					if least := now.Add(-maxGap); from.Before(least) {
						from = least
					}
					want.add(series, n, from, now, zone)
				}
				count(m)
				m.CreditGap(holdings)
			}
		}
		save(never, never)
		stored := d.stored(t)
		for _, months := range []bool{false, true} {
			got, expected := map[string]Milli{}, map[string]Milli{}
			for series, days := range want {
				for day, amount := range days {
					if months {
						day = day.Month()
					}
					expected[fmt.Sprint(series.Queue, " ", day)] += amount
				}
			}
			for period := range stored.Periods() {
				if period.IsDay() == months {
					continue
				}
				sums, err := stored.Sums(period)
				check.NoError(t, err)
				for series, amount := range sums {
					got[fmt.Sprint(series.Queue, " ", period)] += amount
				}
			}
			maps.DeleteFunc(expected, func(_ string, m Milli) bool { return m == 0 })
			check.Equal(t, fmt.Sprintf("card-milliseconds, months %t", months), expected, got)
		}
		for series, days := range want {
			total := Milli(0)
			for _, amount := range days {
				total += amount
			}
			if s := m.sums[series]; s != nil {
				check.Equal(t, "total of "+series.Queue, total, s.total)
			}
		}
	})
}

// TestNoChangeOfClockOrZoneLosesASecond: days add up to what was used, and so do months, whatever the clock and
// the time zone say. An entry that was written never changes.
func TestNoChangeOfClockOrZoneLosesASecond(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		now := drawStart(t)
		d, m := &disk{entries: map[EntryKey][]byte{}}, &Meter{}
		q := seriesOf("q")
		m.SetZone(drawZone(t))
		m.SetCounts(now, map[Series]card.Count{q: 2})
		m.CreditGap(nil)
		total := Milli(0)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"run", "zone", "clock"}).Draw(t, "step") {
			case "run":
				for range rapid.IntRange(1, 20).Draw(t, "hours") * 30 {
					now = now.Add(2 * time.Minute)
					m.SetCounts(now, map[Series]card.Count{q: 2})
					total += 2 * 120 * 1000
				}
			case "zone":
				m.SetZone(drawZone(t))
			case "clock": // nothing is counted meanwhile
				now = now.Add(time.Duration(rapid.IntRange(-50, 50).Draw(t, "hours")) * time.Hour)
				m.countedAt, m.at = now, now
			}
			before := maps.Clone(d.entries)
			d.store(t, m, never, never)
			for key, packed := range before {
				check.Equal(t, "entry "+key.String(), string(packed), string(d.entries[key]))
			}
		}
		d.store(t, m, never, never)
		stored, days, months := d.stored(t), Milli(0), Milli(0)
		for period := range stored.Periods() {
			sums, err := stored.Sums(period)
			check.NoError(t, err)
			if period.IsDay() {
				days += sums[q]
			} else {
				months += sums[q]
			}
		}
		check.Equal(t, "days", total, days)
		check.Equal(t, "months", total, months)
	})
}
