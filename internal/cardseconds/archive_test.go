package cardseconds

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestEntriesFillTheFullestSlotWithRoom: closed days and months are entries in ConfigMaps, the slots. A slot has 800
// KiB. An entry goes to the fullest slot that has room. With 500 KiB in slot 3 and 700 KiB in slot 5, 50 KiB go to
// slot 5 and 200 KiB to slot 3. An entry beyond the size of a slot goes nowhere. The key of an entry is its period,
// and the part (0 to 15) of the sums that it has.
func TestEntriesFillTheFullestSlotWithRoom(t *testing.T) {
	var archive Archive
	check.Equal(t, "slots of an empty archive", Slots, len(archive.SlotsFor(MaxPartSize)))
	check.Equal(t, "slots for what fits nowhere", 0, len(archive.SlotsFor(MaxPartSize+1)))
	archive.Add(3, EntryKey{"2026-10-01", 0}, 500<<10)
	archive.Add(5, EntryKey{"2026-10-02", 0}, 700<<10)
	check.Equal(t, "slot for 50 KiB", 5, archive.SlotsFor(50 << 10)[0])
	check.Equal(t, "slot for 200 KiB", 3, archive.SlotsFor(200 << 10)[0])

	check.That(t, archive.Has(EntryKey{"2026-10-01", 0}), "the entry of part 0 is missing")
	check.That(t, !archive.Has(EntryKey{"2026-10-01", 1}), "part 1 has an entry that was not added")
}

// TestDaysAreDroppedBeforeMonths: when the archive is full, the oldest day is dropped from all slots, then the next.
// Months stay, because bills need them longest. Days are kept for 400 days, so on 2026-11-23 those up to 2025-10-18
// expire. The key of an entry is its day or month, and the part of the sums that it has.
func TestDaysAreDroppedBeforeMonths(t *testing.T) {
	var archive Archive
	check.Equal(t, "oldest day of an empty archive", Period(""), archive.OldestDay())

	archive.Add(0, EntryKey{"2026-09", 0}, 1)
	archive.Add(0, EntryKey{"2026-10-02", 0}, 1)
	archive.Add(1, EntryKey{"2026-10-01", 1}, 1)
	archive.Add(2, EntryKey{"2026-10-01", 0}, 1)
	check.Equal(t, "oldest day", Period("2026-10-01"), archive.OldestDay())
	check.Equal(t, "entries of the oldest day, by slot", map[int][]EntryKey{
		1: {{"2026-10-01", 1}},
		2: {{"2026-10-01", 0}},
	}, archive.DaysUntil("2026-10-01"))

	archive.Remove(1, EntryKey{"2026-10-01", 1})
	archive.ResetSlot(2)
	check.Equal(t, "oldest day once its entries are removed", Period("2026-10-02"), archive.OldestDay())

	archive.Remove(0, EntryKey{"2026-10-02", 0})
	check.Equal(t, "oldest day once all days are removed", Period(""), archive.OldestDay())
	check.Equal(t, "entries of months", []EntryKey{{"2026-09", 0}}, archive.Keys(0))
	check.Equal(t, "last day that expires", Period("2025-10-18"), ExpiredDay("2026-11-23"))
}

// TestParseEntryKeyAcceptsOnlyItsOwnForm: the key of an entry is its day or month, and its part from 0 to 15. Other
// keys of the ConfigMaps are no entries.
func TestParseEntryKeyAcceptsOnlyItsOwnForm(t *testing.T) {
	for _, text := range []string{"2026-10-01.0", "2026-10.15"} {
		key, ok := ParseEntryKey(text)
		check.That(t, ok, "%s is no entry", text)
		check.Equal(t, "written again", text, key.String())
	}
	for _, text := range []string{
		"", "writer", "2026-10-01", "2026-10-01.16", "2026-10-01.-1", "2026-10-01.01", "2026-13.0", "2026-10-32.0", "2026-10-01.x",
	} {
		_, ok := ParseEntryKey(text)
		check.That(t, !ok, "%s is an entry", text)
	}
}

// TestPeriodsAreDaysAndMonths: a period is a day or a month of the calendar, with its neighbors across months and
// years. Other texts are none.
func TestPeriodsAreDaysAndMonths(t *testing.T) {
	check.Equal(t, "the day after", Period("2026-03-01"), Period("2026-02-28").Add(1))
	check.Equal(t, "the month before", Period("2025-12"), Period("2026-01").Add(-1))
	check.Equal(t, "month of a day", Period("2026-01"), Period("2026-01-31").Month())

	for _, text := range []string{"2026-2-1", "2026-02-30", "", "today"} {
		_, err := ParseDay(text)
		check.That(t, err != nil, "%q is a day", text)
	}
	_, err := ParseMonth("2026-10-01")
	check.That(t, err != nil, "a day is a month")
}

// TestMilliIsWrittenInCardSeconds: sums are kept in thousandths of card-seconds, and written without zeros at the
// end.
func TestMilliIsWrittenInCardSeconds(t *testing.T) {
	for amount, want := range map[Milli]string{0: "0", 1000: "1", 1: "0.001", 1500: "1.5", 12340: "12.34"} {
		check.Equal(t, "card-seconds", want, amount.String())
	}
}

// TestLinesAreThoseOfPackageJSON: the operator writes each sum as a line of JSON, by hand for speed. Whatever
// characters names have, the line equals that of encoding/json.
func TestLinesAreThoseOfPackageJSON(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9-]{0,20}`))
		r := row{
			Queue:       text.Draw(t, "queue"),
			Tenant:      text.Draw(t, "tenant"),
			Project:     text.Draw(t, "project"),
			Namespace:   text.Draw(t, "namespace"),
			ServiceType: text.Draw(t, "type"),
			Card:        text.Draw(t, "card"),
			Seconds:     seconds(rapid.Int64Range(0, int64(maxMilli)).Draw(t, "seconds")),
			GrewAt:      rapid.Int64Range(0, 1e10).Draw(t, "at"),
			Open:        map[Period]seconds{},
		}

		for range rapid.IntRange(0, 3).Draw(t, "periods") {
			r.Open[rapid.SampledFrom([]Period{"2026-10", "2026-10-01", "2026-11"}).
				Draw(t, "period")] = seconds(rapid.Int64Range(0, 1e12).Draw(t, "amount"))
		}

		check.Equal(t, "line", string(check.Value(json.Marshal(r))(t))+"\n", r.line())
	})
}
