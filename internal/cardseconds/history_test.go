package cardseconds

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// disk is what the API server stores: the running parts, until when each is counted, and the closed entries.
type disk struct {
	texts       [Parts]string
	storedUntil [Parts]time.Time
	entries     map[EntryKey][]byte
}

// store writes what changed, as the operator does, but for the parts and entries that fail.
func (d *disk) store(t check.T, meter *Meter, fails, entryFails func(part int) bool) {
	check.Equal(t, "sums without room", 0, meter.Place())
	texts := meter.Texts()
	for i := range texts {
		if !fails(i) {
			d.texts[i] = texts[i].Text
			d.storedUntil[i] = texts[i].CountedUntil
		}
	}

	for i := range Parts {
		for _, period := range meter.ClosablePeriods(i, d.storedUntil[i]) {
			if entryFails(i) {
				break
			}
			key := EntryKey{period, i}
			packed := meter.Entry(key)

			_, exists := d.entries[key]
			check.That(t, !exists, "entry %s is written twice", key)
			d.entries[key] = packed
			meter.Close(key)
		}
	}
}

// load returns the meter of the next leader.
func (d *disk) load(t check.T) *Meter {
	meter := &Meter{}
	for key := range d.entries {
		meter.SetClosed(key.Part, key.Period)
	}
	for i, text := range d.texts {
		has := func(p Period) bool { _, has := d.entries[EntryKey{p, i}]; return has }
		check.NoError(t, meter.Load(i, text, has))
	}
	return meter
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

// never lets the writes of no part fail.
func never(int) bool { return false }

// letPartsTakeOneSum makes parts so small that each takes one sum, so that queues are in different parts.
func letPartsTakeOneSum(t *testing.T) {
	maxRunningSize = 300
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
var zones = []string{
	"UTC", "Europe/Berlin", "America/Havana", "Asia/Beirut", "Asia/Amman", "America/Santiago", "Asia/Kolkata", "Australia/Lord_Howe",
	"Pacific/Kiritimati",
}

func drawZone(t *rapid.T) *time.Location {
	return check.Value(time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone")))(t)
}

// drawStart draws an instant of a year in which all these zones change their clocks.
func drawStart(t *rapid.T) time.Time {
	return time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 365*24).Draw(t, "hours")) * time.Hour)
}

func seriesOf(queue string) Series {
	return Series{Tenant: "lab", Project: "llm", Queue: queue, Card: "NVIDIA-H200", ServiceType: "training"}
}

// history is what leaders count one after the other, and the same naively.
type history struct {
	*rapid.T
	zone   *time.Location
	now    time.Time
	queues []string
	counts map[Series]card.Count
	disk   *disk
	meter  *Meter
	// want is what the leader has, kept what is stored, each sum until its own time.
	want, kept naive
	keptUntil  map[Series]time.Time
}

func newHistory(t *rapid.T) *history {
	h := &history{
		T: t, zone: drawZone(t), now: drawStart(t), queues: []string{"a", "b", "c"}, counts: map[Series]card.Count{},
		disk: &disk{entries: map[EntryKey][]byte{}}, meter: &Meter{}, want: naive{}, kept: naive{}, keptUntil: map[Series]time.Time{},
	}
	h.drawCounts(1)
	h.meter.AddUncounted(nil)
	h.run(1)
	h.store(never, never)
	return h
}

func (h *history) count() {
	h.meter.SetZone(h.zone)
	h.meter.SetCounts(h.now, h.counts)
}

// drawCounts counts other cards from now on.
func (h *history) drawCounts(least int) {
	for _, queue := range h.queues {
		h.counts[seriesOf(queue)] = card.Count(rapid.IntRange(least, 9).Draw(h.T, queue))
	}
	h.count()
}

func (h *history) run(minutes int) {
	for range minutes {
		next := h.now.Add(time.Minute)
		for series, n := range h.counts {
			h.want.add(series, n, h.now, next, h.zone)
		}
		h.now = next
		h.count()
	}
}

func (h *history) store(fails, entryFails func(int) bool) {
	h.disk.store(h, h.meter, fails, entryFails)
	for series, s := range h.meter.sums {
		if !fails(s.part) {
			h.kept[series] = h.want.clone()[series]
			h.keptUntil[series] = h.now
		}
	}
}

// lead lets another leader count, after a time without one in which some pods ended.
func (h *history) lead() {
	h.now = h.now.Add(time.Duration(rapid.IntRange(0, 30*3600).Draw(h.T, "seconds without a leader")) * time.Second)
	h.meter = h.disk.load(h)
	h.want = h.kept.clone()

	var usages []PodUsage
	for _, queue := range h.queues {
		series := seriesOf(queue)
		n := h.counts[series]
		if n == 0 || rapid.Bool().Draw(h.T, "ended") {
			h.counts[series] = 0
			continue
		}

		since := h.now.Add(-time.Duration(rapid.IntRange(0, 40*3600).Draw(h.T, "used for")) * time.Second)
		usages = append(usages, PodUsage{series, n, since})
		from := slices.MaxFunc([]time.Time{h.keptUntil[series], since, h.now.Add(-maxUncounted)}, time.Time.Compare)
		h.want.add(series, n, from, h.now, h.zone)
	}

	h.count()
	h.meter.AddUncounted(usages)
}

// wanted returns the sums of days or months that are expected.
func (h *history) wanted(months bool) map[string]Milli {
	sums := map[string]Milli{}
	for series, days := range h.want {
		for day, amount := range days {
			if months {
				day = day.Month()
			}
			sums[fmt.Sprint(series.Queue, " ", day)] += amount
		}
	}
	maps.DeleteFunc(sums, func(_ string, m Milli) bool { return m == 0 })
	return sums
}

// storedPeriods returns the days and months that are stored.
func storedPeriods(s *Stored) map[Period]bool {
	periods := map[Period]bool{}
	for key := range maps.Keys(s.entries) {
		periods[key.Period] = true
	}

	for i := range s.running {
		for j := range s.running[i].Rows {
			for period := range s.running[i].Rows[j].Open {
				periods[period] = true
			}
		}
	}

	return periods
}

// reported returns the sums of days or months that a report reads.
func (h *history) reported(months bool) map[string]Milli {
	stored := h.disk.stored(h)
	sums := map[string]Milli{}
	for period := range storedPeriods(stored) {
		if period.IsDay() == months {
			continue
		}
		for series, amount := range check.Value(stored.Sums(period))(h) {
			sums[fmt.Sprint(series.Queue, " ", period)] += amount
		}
	}

	return sums
}

// TestSumsOfDaysAndMonthsAreThoseOfEachSecond: bills add up the card-seconds of each queue by day and month, in the
// time zone of the cluster. The meter stores running sums in parts (ConfigMaps), and those of an ended day or month as
// an entry. On random histories the stored sums equal a sum second by second: over days on which clocks change, writes
// that fail for a part or its entries, and changes of the leader. A new leader credits what its pods used since the
// part of their sum was stored, at most a day. The total of each queue, over all days, equals that sum too.
func TestSumsOfDaysAndMonthsAreThoseOfEachSecond(t *testing.T) {
	letPartsTakeOneSum(t)

	seed.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		begin := h.now
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if h.now.Sub(begin) > idleTime-2*24*time.Hour {
				break // TestIdleTotalsAreDropped is about sums that do not grow
			}

			switch rapid.SampledFrom([]string{"run", "count", "store", "lead"}).Draw(t, "step") {
			case "run":
				h.run(15 * rapid.IntRange(1, 10).Draw(t, "quarters of an hour"))
			case "count":
				h.drawCounts(0) // of any number of cards, also none
			case "store":
				broken := rapid.SampledFrom([]int{-1, 0, 1, 2}).Draw(t, "broken part") // -1 for none
				unwritten := rapid.SampledFrom([]int{-1, 0, 1, 2}).Draw(t, "part whose entries fail")
				h.store(func(part int) bool { return part == broken }, func(part int) bool { return part == unwritten })
			case "lead":
				h.lead()
			}
		}

		h.store(never, never)
		check.Equal(t, "days", h.wanted(false), h.reported(false))
		check.Equal(t, "months", h.wanted(true), h.reported(true))
		for series, days := range h.want {
			total := Milli(0)
			for _, amount := range days {
				total += amount
			}
			if s := h.meter.sums[series]; s != nil {
				check.Equal(t, "total of "+series.Queue, total, s.total)
			}
		}
	})
}

// TestNoChangeOfClockOrZoneLosesASecond: an administrator may change the time zone, and a clock may jump by up to 50
// hours. Days still add up to what was counted, 2 cards all the time, and so do months. A jump forward counts at most
// maxCountAge, for which a count is valid. An entry (the sums of a day or month that has ended) never changes.
func TestNoChangeOfClockOrZoneLosesASecond(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		now := drawStart(t)
		disk := &disk{entries: map[EntryKey][]byte{}}
		meter := &Meter{}
		q := seriesOf("q")
		twoCards := map[Series]card.Count{q: 2}

		meter.SetZone(drawZone(t))
		meter.SetCounts(now, twoCards)
		meter.AddUncounted(nil)

		total := Milli(0)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"run", "zone", "clock"}).Draw(t, "step") {
			case "run":
				for range rapid.IntRange(1, 20).Draw(t, "hours") * 30 {
					now = now.Add(2 * time.Minute)
					meter.SetCounts(now, twoCards)
					total += 2 * 120 * 1000
				}
			case "zone":
				meter.SetZone(drawZone(t))
			case "clock":
				jump := time.Duration(rapid.IntRange(-50, 50).Draw(t, "hours")) * time.Hour
				now = now.Add(jump)
				meter.SetCounts(now, twoCards)
				total += 2 * Milli(max(0, min(jump, maxCountAge)).Milliseconds())
			}

			before := maps.Clone(disk.entries)
			disk.store(t, meter, never, never)
			for key, packed := range before {
				check.Equal(t, "entry "+key.String(), string(packed), string(disk.entries[key]))
			}
		}

		disk.store(t, meter, never, never)
		stored := disk.stored(t)
		var days, months Milli
		for period := range storedPeriods(stored) {
			sums := check.Value(stored.Sums(period))(t)
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
