package cardseconds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
)

// start is when the tests begin to count.
var start = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// counting returns a meter with a first count.
func counting(at time.Time, counts map[Series]card.Count) *Meter {
	meter := &Meter{}
	meter.SetCounts(at, counts)
	return meter
}

// countEachMinute counts the same again for some minutes, and returns when they end.
func countEachMinute(meter *Meter, from time.Time, minutes int, counts map[Series]card.Count) time.Time {
	for range minutes {
		from = from.Add(time.Minute)
		meter.SetCounts(from, counts)
	}
	return from
}

// noEntry says that no day or month is closed.
func noEntry(Period) bool { return false }

// totalOf returns the total of a series, 0 without one.
func totalOf(meter *Meter, queue string) Milli {
	if s := meter.sums[seriesOf(queue)]; s != nil {
		return s.total
	}
	return 0
}

// milli returns card-seconds in thousandths.
func milli(cards int, d time.Duration) Milli { return Milli(int64(cards) * d.Milliseconds()) }

// TestAReplicaThatStoodStillAddsTwoMinutes: one count is taken as true for two minutes. A replica that stood still
// for an hour adds only these, because another one may have counted meanwhile. A clock that is set back adds nothing.
func TestAReplicaThatStoodStillAddsTwoMinutes(t *testing.T) {
	meter := counting(start, map[Series]card.Count{seriesOf("q"): 2})
	meter.Advance(start.Add(time.Hour))
	check.Equal(t, "card-seconds after an hour of silence", milli(2, maxCountAge), totalOf(meter, "q"))
	meter.Advance(start) // the clock was set back
	check.Equal(t, "card-seconds after the clock was set back", milli(2, maxCountAge), totalOf(meter, "q"))
}

// TestPartsOfMillisecondsAreNotLost: counts come every 1.0009 seconds, and sums are in whole milliseconds. What is
// left of a millisecond is in the next sum, so 1000 counts of 8 cards lose nothing: 1000.9 seconds. After the clock
// is set back, counting goes on from the earlier time.
func TestPartsOfMillisecondsAreNotLost(t *testing.T) {
	meter := &Meter{}
	now := start
	for range 1001 { // between 1001 counts are 1000 times 1.0009 seconds
		meter.SetCounts(now, map[Series]card.Count{seriesOf("q"): 8})
		now = now.Add(time.Second + 900*time.Microsecond)
	}
	check.Equal(t, "card-seconds of a thousand counts", milli(8, 1000*time.Second+900*time.Millisecond), totalOf(meter, "q"))

	meter.SetCounts(start, map[Series]card.Count{seriesOf("q"): 8}) // the clock was set back
	meter.Advance(start.Add(time.Second))
	check.Equal(t, "card-seconds after the clock was set back", milli(8, 1001*time.Second+900*time.Millisecond), totalOf(meter, "q"))
}

// TestAnOldCountIsNotTakenAsTrue: a replica stores its sums each half a minute, and does not count for an hour. It
// adds two minutes (maxCountAge), for which the last count is taken as true. After the next count it goes on.
func TestAnOldCountIsNotTakenAsTrue(t *testing.T) {
	meter := counting(start, map[Series]card.Count{seriesOf("q"): 2})
	for at := range 120 {
		meter.Advance(start.Add(time.Duration(at) * 30 * time.Second))
	}
	check.Equal(t, "card-seconds after an hour without a count", milli(2, maxCountAge), totalOf(meter, "q"))

	meter.SetCounts(start.Add(time.Hour), map[Series]card.Count{seriesOf("q"): 2})
	meter.Advance(start.Add(time.Hour + time.Minute))
	check.Equal(t, "card-seconds a minute after the next count", milli(2, maxCountAge+time.Minute), totalOf(meter, "q"))
}

// TestDaysOnWhichClocksChange: a day of a bill begins and ends at midnight of the time zone. It has 23 or 25 hours
// when clocks change, in some zones at midnight itself, and 2011-12-30 does not exist in Apia.
func TestDaysOnWhichClocksChange(t *testing.T) {
	for name, tc := range map[string]struct {
		zone, day string
		wantHours int
	}{
		"a usual day":                                                {"Europe/Berlin", "2026-11-23", 24},
		"forward by an hour, at night":                               {"Europe/Berlin", "2026-03-29", 23},
		"back by an hour, at night":                                  {"Europe/Berlin", "2026-10-25", 25},
		"forward by an hour, at midnight":                            {"America/Santiago", "2019-09-08", 23},
		"back by an hour, from midnight to 23:00":                    {"America/Santiago", "2019-04-06", 25},
		"back by an hour, from 01:00 to midnight":                    {"Asia/Amman", "2019-10-25", 25},
		"back by an hour, from 01:00 to midnight, west of Greenwich": {"America/Havana", "2019-11-03", 25},
		"before a day that does not exist":                           {"Pacific/Apia", "2011-12-29", 24},
	} {
		zone := check.Value(time.LoadLocation(tc.zone))(t)
		noon := check.Value(time.ParseInLocation(DayLayout+" 15", tc.day+" 12", zone))(t)

		begin := Period(tc.day).Begin(zone)
		end := nextDay(noon)
		check.Equal(t, name+": hours", time.Duration(tc.wantHours)*time.Hour, end.Sub(begin))
		check.Equal(t, name+": first second", tc.day, begin.Format(DayLayout))
		check.Equal(t, name+": last second", tc.day, end.Add(-time.Second).Format(DayLayout))
		check.That(t, end.Format(DayLayout) > tc.day && begin.Add(-time.Second).
			Format(DayLayout) < tc.day, "%s: from %s to %s", name, begin, end)
	}
}

// TestTheCreditOfAGapIsBounded: a new leader credits what pods used while no leader counted. A pod has used 2 cards
// for 1000 hours. After a first installation nothing was billed before, so nothing is credited. Where sums are
// stored, a leader counted before, so the new one credits a day (maxUncounted). A second call of AddUncounted adds
// nothing.
func TestTheCreditOfAGapIsBounded(t *testing.T) {
	usages := []PodUsage{{seriesOf("q"), 2, start.Add(-1000 * time.Hour)}}
	meter := counting(start, nil)
	meter.AddUncounted(usages)
	check.Equal(t, "credit of a first installation", Milli(0), totalOf(meter, "q"))

	meter = counting(start, nil)
	check.NoError(t, meter.Load(0, `{"queue":"other","tenant":"t","type":"none","card":"A","cardSeconds":5,"at":1}`+"\n", noEntry))
	meter.AddUncounted(usages)
	meter.AddUncounted(usages)
	check.Equal(t, "credit after a long time", milli(2, maxUncounted), totalOf(meter, "q"))
}

// TestTimeInWhichALeaderCountedIsNotCredited: a leader counted a card of queue other for a minute. For ten hours it
// counted that no queue used cards, and then stored the time of its last count. A pod has used 8 cards since before,
// and was in no queue then. The next leader, a minute later, finds the pod in queue q. So it credits the queue only
// that minute.
func TestTimeInWhichALeaderCountedIsNotCredited(t *testing.T) {
	meter := counting(start, map[Series]card.Count{seriesOf("other"): 1})
	meter.AddUncounted(nil)

	now := countEachMinute(meter, start, 601, nil) // ten hours after the first count without cards
	meter.Place()
	next := &Meter{}
	check.NoError(t, next.Load(0, meter.Texts()[0].Text, noEntry))
	next.SetCounts(now.Add(time.Minute), map[Series]card.Count{seriesOf("q"): 8})
	next.AddUncounted([]PodUsage{{seriesOf("q"), 8, start}})
	check.Equal(t, "credit", milli(8, time.Minute), totalOf(next, "q"))
}

// TestEachPartIsCreditedSinceItsOwnTime: a leader stored part 1 with queue b after a minute, and part 0 with queue a
// after an hour, and then ended. It had counted 1 minute for b. For a it had counted 2, because a count is taken as
// true for two minutes. The next leader, two hours after the start, credits each queue since the time of its own
// part.
func TestEachPartIsCreditedSinceItsOwnTime(t *testing.T) {
	letPartsTakeOneSum(t)
	both := map[Series]card.Count{seriesOf("a"): 1, seriesOf("b"): 1}
	meter := counting(start, both)
	meter.AddUncounted(nil)
	meter.Advance(start.Add(time.Minute))
	meter.Place()
	before := meter.Texts()

	meter.SetCounts(start.Add(time.Hour), both)
	after := meter.Texts()
	next := &Meter{}
	check.NoError(t, next.Load(0, after[0].Text, noEntry))
	check.NoError(t, next.Load(1, before[1].Text, noEntry))

	next.SetCounts(start.Add(2*time.Hour), both)
	next.AddUncounted([]PodUsage{{seriesOf("a"), 1, start}, {seriesOf("b"), 1, start}})
	check.Equal(t, "card-seconds of a", milli(1, 2*time.Minute+time.Hour), totalOf(next, "a")) // 2 minutes of one count, and an hour
	check.Equal(t, "card-seconds of b", milli(1, 2*time.Hour), totalOf(next, "b"))
}

// openOf returns the sums of a day or a month that are not closed.
func openOf(meter *Meter, period Period) map[Series]Milli {
	open := map[Series]Milli{}
	for series, s := range meter.sums {
		if amount := s.open[period]; amount > 0 {
			open[series] = amount
		}
	}
	return open
}

// TestSumsOfAnEarlierVersionAreTakenOver: an earlier version stored a total without days and months, with the time
// until which it was counted. The pod has used its card for longer. The total of 345.6 goes on with the minute since
// then, 60 card-seconds, which are also those of the day and the month. The header of the part says until when it is
// counted, in which time zone, and since when days and months are counted.
func TestSumsOfAnEarlierVersionAreTakenOver(t *testing.T) {
	meter := &Meter{}
	old := fmt.Sprintf(`{"queue":"q","tenant":"lab","project":"llm","type":"training","card":"NVIDIA-H200","cardSeconds":345.6,"at":%d}`+"\n",
		start.Unix())

	check.NoError(t, meter.Load(3, old, noEntry))
	now := start.Add(time.Minute)
	meter.SetCounts(now, map[Series]card.Count{seriesOf("q"): 1})
	meter.AddUncounted([]PodUsage{{seriesOf("q"), 1, start.Add(-time.Hour)}})
	check.Equal(t, "total", Milli(405_600), totalOf(meter, "q"))
	check.Equal(t, "of the day", map[Series]Milli{seriesOf("q"): 60_000}, openOf(meter, "2026-11-23"))
	check.Equal(t, "of the month", map[Series]Milli{seriesOf("q"): 60_000}, openOf(meter, "2026-11"))

	header, _, _ := strings.Cut(meter.Texts()[3].Text, "\n")
	check.Equal(t, "header", `{"countedUntil":"2026-11-23T09:01:00Z","timeZone":"UTC","since":"2026-11-23T09:01:00Z"}`, header)
}

// TestUnreadableLinesAreReported: lines that are not valid are named in the error with their part, and what can be
// read of the others counts.
func TestUnreadableLinesAreReported(t *testing.T) {
	meter := &Meter{}
	err := meter.Load(3, strings.Join([]string{
		`{`,
		`{"queue":"negative","cardSeconds":-1}`,
		`{"queue":"q","tenant":"lab","project":"llm","type":"training","card":"NVIDIA-H200","cardSeconds":5,"open":{"2026-13":1}}`,
		"",
	}, "\n"), noEntry)
	check.Contains(t, "error", fmt.Sprint(err), "part 3", "-1 is no number of card-seconds", `"2026-13" is no day`)
	check.Equal(t, "what can be read", Milli(5000), totalOf(meter, "q"))
}

// TestIdleTotalsAreDropped: a total that does not grow for a week is not served to Prometheus any more. Its days and
// months stay until they are closed, and then the sum is dropped. Queue idle ran a card for one count, which is a
// minute here, and busy runs one for 8 days.
func TestIdleTotalsAreDropped(t *testing.T) {
	meter := counting(start, map[Series]card.Count{seriesOf("idle"): 1, seriesOf("busy"): 1})
	meter.AddUncounted(nil)
	countEachMinute(meter, start, 8*24*60, map[Series]card.Count{seriesOf("busy"): 1})
	meter.Place()
	_, isServed := meter.Texts()[0].Totals[seriesOf("idle")]
	check.That(t, !isServed, "an idle total is served")
	check.Equal(t, "total", Milli(0), totalOf(meter, "idle"))
	check.Equal(t, "of the month", milli(1, time.Minute), openOf(meter, "2026-11")[seriesOf("idle")])

	for _, period := range meter.ClosablePeriods(0, meter.at) {
		meter.Close(EntryKey{period, 0})
	}

	meter.Close(EntryKey{"2026-11", 0})
	meter.Place()
	check.That(t, meter.sums[seriesOf("idle")] == nil, "the idle sum is kept")
	check.That(t, meter.sums[seriesOf("busy")] != nil, "the busy sum is dropped")
}

// TestSumsStayInTheirPart: the operator writes its parts one after the other, so a sum that moved between them could
// get lost. With sums in three parts, a new queue adds a sum, and all others stay in their part.
func TestSumsStayInTheirPart(t *testing.T) {
	counts := map[Series]card.Count{}
	for i := range 3 * MaxPartSize / 150 { // a sum has about 150 bytes, so these take three parts
		counts[seriesOf(fmt.Sprintf("queue-%05d", i))] = 1
	}

	meter := counting(start, counts)
	meter.Advance(start.Add(time.Second))
	check.Equal(t, "sums without room", 0, meter.Place())

	texts := meter.Texts()
	check.That(t, texts[2].Rows != "", "part 2 has no sums")
	for i := range texts {
		check.That(t, len(texts[i].Rows) <= MaxPartSize, "part %d has %d bytes", i, len(texts[i].Rows))
	}

	before := partsOf(texts)

	counts[seriesOf("a-new-one")] = 1
	meter.SetCounts(start.Add(2*time.Second), counts)
	meter.Advance(start.Add(3 * time.Second))
	meter.Place()
	after := partsOf(meter.Texts())
	check.Equal(t, "sums with the new one", len(before)+1, len(after))
	for queue, part := range before {
		check.Must(t, after[queue] == part, "the sum of %s moved from part %d to %d", queue, part, after[queue])
	}
}

// partsOf returns the part of each queue. A row begins with its queue.
func partsOf(texts [Parts]Part) map[string]int {
	parts := map[string]int{}
	for i := range texts {
		for row := range strings.Lines(texts[i].Rows) {
			queue, _, _ := strings.Cut(row, ",")
			parts[queue] = i
		}
	}
	return parts
}

// TestTenThousandQueuesHaveRoom: the operator stores the running sums in ConfigMaps of limited size. docs/metrics.md
// promises room for 10,000 queues of four cards each. After a minute of use each of these 40,000 series has a sum,
// and Place, which returns how many sums found no room, returns 0.
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
	meter := counting(start, counts)
	meter.Advance(start.Add(time.Minute))

	check.Equal(t, "sums without room", 0, meter.Place())
}

// TestAFullPartKeepsRoomForItsRows: sums get their part (a ConfigMap, which takes 1 MiB) while their numbers
// are small. 4,000 queues are more than one part takes. Then their numbers grow from 1 to a million cards,
// while a month begins and the one before is not closed. The largest part stays below 1 MiB with 16 KiB for
// its metadata. It is more than half full, so that the parts are not kept too small.
func TestAFullPartKeepsRoomForItsRows(t *testing.T) {
	few := map[Series]card.Count{}
	many := map[Series]card.Count{}
	for i := range 4000 {
		series := Series{Tenant: "t", Queue: fmt.Sprintf("q%05d", i), Card: "A100", ServiceType: "training"}
		few[series] = 1
		many[series] = 1_000_000
	}

	monthEnd := time.Date(2026, 11, 30, 23, 58, 0, 0, time.UTC)
	meter := counting(monthEnd, few)
	meter.Advance(monthEnd.Add(time.Millisecond))
	check.Equal(t, "sums without room", 0, meter.Place())

	for minute := range 4 {
		meter.SetCounts(monthEnd.Add(time.Duration(minute)*time.Minute+time.Millisecond), many)
		meter.Advance(monthEnd.Add(time.Duration(minute+1) * time.Minute))
	}

	largest := 0
	for _, part := range meter.Texts() {
		largest = max(largest, len(part.Text))
	}

	check.That(t, largest > MaxPartSize/2 && largest < 1<<20-16<<10, "the largest part has %d bytes", largest)
}

// TestSumsWithoutRoomAreCounted: the card-seconds of each series are stored in one of 16 parts, a ConfigMap each. The
// name of the tenant alone takes half of a part, so a series takes a little more. Each part has room for one of the
// 48 series, and Place returns how many are left: 32.
func TestSumsWithoutRoomAreCounted(t *testing.T) {
	counts := map[Series]card.Count{}
	long := strings.Repeat("x", MaxPartSize/2)
	for i := range 3 * Parts {
		counts[Series{Queue: fmt.Sprint(i), Tenant: long}] = 1
	}
	meter := counting(start, counts)
	meter.Advance(start.Add(time.Second))
	check.Equal(t, "sums without room", 2*Parts, meter.Place())
}
