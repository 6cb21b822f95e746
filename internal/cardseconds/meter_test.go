package cardseconds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

var start = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// counting returns a meter with a first count.
func counting(at time.Time, counts map[Series]card.Count) *Meter {
	m := &Meter{}
	m.SetCounts(at, counts)
	return m
}

// countEachMinute counts the same again for some minutes, and returns when they end.
func countEachMinute(m *Meter, from time.Time, minutes int, counts map[Series]card.Count) time.Time {
	for range minutes {
		from = from.Add(time.Minute)
		m.SetCounts(from, counts)
	}
	return from
}

func noEntry(Period) bool { return false }

// totalOf returns the total of a series, 0 without one.
func totalOf(m *Meter, queue string) Milli {
	if s := m.sums[seriesOf(queue)]; s != nil {
		return s.total
	}
	return 0
}

// milli returns card-seconds in thousandths.
func milli(cards int, d time.Duration) Milli { return Milli(int64(cards) * d.Milliseconds()) }

func TestReplicaThatStoodStill(t *testing.T) {
	m := counting(start, map[Series]card.Count{seriesOf("q"): 2})
	m.Advance(start.Add(time.Hour))
	check.Equal(t, "card-seconds after an hour of silence", milli(2, maxCountAge), totalOf(m, "q"))
	m.Advance(start) // the clock was set back
	check.Equal(t, "card-seconds after the clock was set back", milli(2, maxCountAge), totalOf(m, "q"))
}

// TestCountsAreNotInWholeMilliseconds: what is left of a millisecond at one count is in the sum of the next.
func TestCountsAreNotInWholeMilliseconds(t *testing.T) {
	m := &Meter{}
	now := start
	for range 1001 {
		m.SetCounts(now, map[Series]card.Count{seriesOf("q"): 8})
		now = now.Add(time.Second + 900*time.Microsecond)
	}
	check.Equal(t, "card-seconds of a thousand counts", milli(8, 1000*time.Second+900*time.Millisecond), totalOf(m, "q"))
	m.SetCounts(start, map[Series]card.Count{seriesOf("q"): 8}) // the clock was set back
	m.Advance(start.Add(time.Second))
	check.Equal(t, "card-seconds after the clock was set back", milli(8, 1001*time.Second+900*time.Millisecond), totalOf(m, "q"))
}

// TestAnOldCountIsNotTakenAsTrue: a replica that stores its sums, and counts no more, knows nothing.
func TestAnOldCountIsNotTakenAsTrue(t *testing.T) {
	m := counting(start, map[Series]card.Count{seriesOf("q"): 2})
	for at := range 120 {
		m.Advance(start.Add(time.Duration(at) * 30 * time.Second))
	}
	check.Equal(t, "card-seconds after an hour without a count", milli(2, maxCountAge), totalOf(m, "q"))
	m.SetCounts(start.Add(time.Hour), map[Series]card.Count{seriesOf("q"): 2})
	m.Advance(start.Add(time.Hour + time.Minute))
	check.Equal(t, "card-seconds a minute after the next count", milli(2, maxCountAge+time.Minute), totalOf(m, "q"))
}

// TestDaysOnWhichClocksChange: at midnight, and at other times.
func TestDaysOnWhichClocksChange(t *testing.T) {
	for name, tc := range map[string]struct {
		zone, noon string
		hours      int
	}{
		"a usual day":             {"Europe/Berlin", "2026-11-23", 24},
		"forward":                 {"Europe/Berlin", "2026-03-29", 23},
		"back":                    {"Europe/Berlin", "2026-10-25", 25},
		"forward at midnight":     {"America/Santiago", "2019-09-08", 23},
		"back at midnight":        {"America/Santiago", "2019-04-06", 25},
		"back to midnight":        {"Asia/Amman", "2019-10-25", 25},
		"back to midnight, west":  {"America/Havana", "2019-11-03", 25},
		"before a day that is no": {"Pacific/Apia", "2011-12-29", 24},
	} {
		zone := check.Value(time.LoadLocation(tc.zone))(t)
		noon := check.Value(time.ParseInLocation(DayLayout+" 15", tc.noon+" 12", zone))(t)

		begin := Period(tc.noon).Begin(zone)
		end := nextDay(noon)
		check.Equal(t, name+": hours", time.Duration(tc.hours)*time.Hour, end.Sub(begin))
		check.Equal(t, name+": first second", tc.noon, begin.Format(DayLayout))
		check.Equal(t, name+": last second", tc.noon, end.Add(-time.Second).Format(DayLayout))
		check.That(t, end.Format(DayLayout) > tc.noon && begin.Add(-time.Second).
			Format(DayLayout) < tc.noon, "%s: from %s to %s", name, begin, end)
	}
}

// TestGapIsBounded: after a first installation nothing is credited, and after a long time a day.
func TestGapIsBounded(t *testing.T) {
	held := []Holding{{seriesOf("q"), 2, start.Add(-1000 * time.Hour)}}
	m := counting(start, nil)
	m.CreditGap(held)
	check.Equal(t, "credit of a first installation", Milli(0), totalOf(m, "q"))

	m = counting(start, nil)
	check.NoError(t, m.Load(0, `{"queue":"other","tenant":"t","type":"none","card":"A","cardSeconds":5,"at":1}`+"\n", noEntry))
	m.CreditGap(held)
	m.CreditGap(held)
	check.Equal(t, "credit after a long time", milli(2, maxGap), totalOf(m, "q"))
}

// TestTimeInWhichALeaderCountedIsNotCredited: it counted nothing for a pod outside of every queue, and wrote until
// when it had counted.
func TestTimeInWhichALeaderCountedIsNotCredited(t *testing.T) {
	m := counting(start, map[Series]card.Count{seriesOf("other"): 1})
	m.CreditGap(nil)

	now := countEachMinute(m, start, 601, nil)
	m.Place()
	next := &Meter{}
	check.NoError(t, next.Load(0, m.Texts()[0].Text, noEntry))
	next.SetCounts(now.Add(time.Minute), map[Series]card.Count{seriesOf("q"): 8})
	next.CreditGap([]Holding{{seriesOf("q"), 8, start}})
	check.Equal(t, "credit", milli(8, time.Minute), totalOf(next, "q"))
}

// TestEachPartIsCreditedSinceItsOwnTime: a leader ended between two writes.
func TestEachPartIsCreditedSinceItsOwnTime(t *testing.T) {
	smallParts(t)
	both := map[Series]card.Count{seriesOf("a"): 1, seriesOf("b"): 1}
	m := counting(start, both)
	m.CreditGap(nil)
	m.Advance(start.Add(time.Minute))
	m.Place()
	before := m.Texts()

	m.SetCounts(start.Add(time.Hour), both)
	after := m.Texts()
	next := &Meter{}
	check.NoError(t, next.Load(0, after[0].Text, noEntry))
	check.NoError(t, next.Load(1, before[1].Text, noEntry))

	next.SetCounts(start.Add(2*time.Hour), both)
	next.CreditGap([]Holding{{seriesOf("a"), 1, start}, {seriesOf("b"), 1, start}})
	check.Equal(t, "a", milli(1, 2*time.Minute+time.Hour), totalOf(next, "a")) // one count is true for two minutes
	check.Equal(t, "b", milli(1, 2*time.Hour), totalOf(next, "b"))
}

// openOf returns the sums of a day or a month that are not closed.
func openOf(m *Meter, period Period) map[Series]Milli {
	open := map[Series]Milli{}
	for series, s := range m.sums {
		if amount := s.open[period]; amount > 0 {
			open[series] = amount
		}
	}
	return open
}

// TestSumsOfAnEarlierVersionAreTakenOver: their total goes on, and was counted until it grew last.
func TestSumsOfAnEarlierVersionAreTakenOver(t *testing.T) {
	m := &Meter{}
	old := fmt.Sprintf(`{"queue":"q","tenant":"lab","project":"llm","type":"training","card":"NVIDIA-H200","cardSeconds":345.6,"at":%d}`+"\n",
		start.Unix())

	check.NoError(t, m.Load(3, old, noEntry))
	now := start.Add(time.Minute)
	m.SetCounts(now, map[Series]card.Count{seriesOf("q"): 1})
	m.CreditGap([]Holding{{seriesOf("q"), 1, start.Add(-time.Hour)}})
	check.Equal(t, "total", Milli(405_600), totalOf(m, "q"))
	check.Equal(t, "of the day", map[Series]Milli{seriesOf("q"): 60_000}, openOf(m, "2026-11-23"))
	check.Equal(t, "of the month", map[Series]Milli{seriesOf("q"): 60_000}, openOf(m, "2026-11"))
	header, _, _ := strings.Cut(m.Texts()[3].Text, "\n")
	check.Equal(t, "header", `{"countedUntil":"2026-11-23T09:01:00Z","timeZone":"UTC","since":"2026-11-23T09:01:00Z"}`, header)
}

func TestUnreadableLinesAreReported(t *testing.T) {
	m := &Meter{}
	err := m.Load(3, "{\n"+`{"queue":"negative","cardSeconds":-1}`+"\n"+`{"queue":"q","tenant":"lab","project":"llm","type":"training","card":"NVIDIA-H200","cardSeconds":5,"open":{"2026-13":1}}`+"\n",
		noEntry)
	check.Contains(t, "error", fmt.Sprint(err), "part 3", "-1 is no number of card-seconds", `"2026-13" is no day`)
	check.Equal(t, "what can be read", Milli(5000), totalOf(m, "q"))
}

// TestIdleTotalsAreDropped: their days and months are not.
func TestIdleTotalsAreDropped(t *testing.T) {
	m := counting(start, map[Series]card.Count{seriesOf("idle"): 1, seriesOf("busy"): 1})
	m.CreditGap(nil)
	countEachMinute(m, start, 8*24*60, map[Series]card.Count{seriesOf("busy"): 1})
	m.Place()
	_, isServed := m.Texts()[0].Totals[seriesOf("idle")]
	check.That(t, !isServed, "an idle total is served")
	check.Equal(t, "total", Milli(0), totalOf(m, "idle"))
	check.Equal(t, "of the month", milli(1, time.Minute), openOf(m, "2026-11")[seriesOf("idle")])

	for _, period := range m.ClosablePeriods(0, m.at) {
		m.Close(EntryKey{period, 0})
	}

	m.Close(EntryKey{"2026-11", 0})
	m.Place()
	check.That(t, m.sums[seriesOf("idle")] == nil && m.sums[seriesOf("busy")] != nil, "sums %v", m.sums)
}

// TestSumsStayInTheirPart: a writer that stops between two parts loses no sum.
func TestSumsStayInTheirPart(t *testing.T) {
	counts := map[Series]card.Count{}
	for i := range 3 * MaxPartSize / 150 {
		counts[seriesOf(fmt.Sprintf("queue-%05d", i))] = 1
	}

	m := counting(start, counts)
	m.Advance(start.Add(time.Second))
	check.Equal(t, "sums without room", 0, m.Place())

	before := m.Texts()
	check.That(t, before[2].Rows != "", "part 2 has no sums")
	for i := range before {
		check.That(t, len(before[i].Rows) <= MaxPartSize, "part %d has %d bytes", i, len(before[i].Rows))
	}

	counts[seriesOf("a-new-one")] = 1
	m.SetCounts(start.Add(2*time.Second), counts)
	m.Advance(start.Add(3 * time.Second))
	m.Place()
	after := m.Texts()
	for i := range after {
		had := strings.Count(before[i].Rows, "\n")
		has := strings.Count(after[i].Rows, "\n")
		check.That(t, has == had || (has == had+1 && strings.Contains(after[i].Rows, "a-new-one")), "part %d has %d sums, had %d", i,
			has, had)
	}
}

// TestTenThousandQueuesHaveRoom: docs/metrics.md states how many sums there is room for.
func TestTenThousandQueuesHaveRoom(t *testing.T) {
	counts := map[Series]card.Count{}
	for i := range 10000 {
		for _, name := range []string{"NVIDIA-H200", "NVIDIA-H800", "NVIDIA-A100", "NVIDIA-GeForce-RTX-4090"} {
			counts[Series{
				Tenant:      fmt.Sprintf("tenant-%04d", i/10),
				Project:     "project",
				Queue:       fmt.Sprintf("tenant-%04d-project-%d", i/10, i%10),
				Card:        name,
				ServiceType: "inference",
			}] = 8
		}
	}
	m := counting(start, counts)
	m.Advance(start.Add(time.Minute))

	check.Equal(t, "sums without room", 0, m.Place())
}

// TestAFullPartKeepsRoomForItsRows: rows get their part while their numbers are small. The API server takes a
// ConfigMap of 1 MiB, also when a month begins and the one before is not closed yet.
func TestAFullPartKeepsRoomForItsRows(t *testing.T) {
	few := map[Series]card.Count{}
	many := map[Series]card.Count{}
	for i := range 20000 {
		series := Series{Tenant: "t", Queue: fmt.Sprintf("q%05d", i), Card: "A100", ServiceType: "training"}
		few[series] = 1
		many[series] = 1_000_000
	}

	monthEnd := time.Date(2026, 11, 30, 23, 58, 0, 0, time.UTC)
	m := counting(monthEnd, few)
	m.Advance(monthEnd.Add(time.Millisecond))
	check.Equal(t, "sums without room", 0, m.Place())

	for minute := range 4 {
		m.SetCounts(monthEnd.Add(time.Duration(minute)*time.Minute+time.Millisecond), many)
		m.Advance(monthEnd.Add(time.Duration(minute+1) * time.Minute))
	}

	largest := 0
	for _, part := range m.Texts() {
		largest = max(largest, len(part.Text))
	}

	t.Logf("the largest part has %d bytes", largest)
	check.That(t, largest > MaxPartSize/2 && largest < 1<<20-16<<10, "the largest part has %d bytes", largest)
}

func TestSumsWithoutRoomAreCounted(t *testing.T) {
	counts := map[Series]card.Count{}
	long := strings.Repeat("x", MaxPartSize/2)
	for i := range 3 * Parts {
		counts[Series{Queue: fmt.Sprint(i), Tenant: long}] = 1
	}
	m := counting(start, counts)
	m.Advance(start.Add(time.Second))
	check.Equal(t, "sums without room", 2*Parts, m.Place())
}
