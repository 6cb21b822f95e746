package cardseconds

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestNoMonthIsLostWhenAllSlotsAreFull: all slots are full of old months, except for at most 3,000 bytes in the last
// one. On each of up to 50 days a pod uses a card for a minute or two. The leader changes and writes of the last slot
// fail now and then. The sum of each month is always that of the naive count in the map used. So is the sum of each day
// that the report does not call dropped.
func TestNoMonthIsLostWhenAllSlotsAreFull(t *testing.T) {
	var dropped, kept int

	seed.Check(t, func(r *rapid.T) {
		s := newScene(t)
		s.fillSlots("2020-01", rapid.IntRange(0, 3000).Draw(r, "bytes left"))
		used := map[cardseconds.Period]int{}
		day := time.Date(2026, 9, 15, 12, 0, 0, 0, time.UTC)

		days := rapid.IntRange(1, 50).Draw(r, "days")
		for i := range days {
			day = day.AddDate(0, 0, 1)
			s.at = day
			if rapid.IntRange(0, 9).Draw(r, "restarts") == 0 {
				s.restart()
			}

			if rapid.IntRange(0, 9).Draw(r, "refuses") == 0 {
				s.store.refused[slotNumber(cardseconds.Slots-1)] = immutable("slot")
			}

			minutes := rapid.IntRange(1, 2).Draw(r, "minutes")
			s.use(1)
			s.useOneCardForMinutes(minutes)
			clear(s.store.refused)
			s.use(0)
			for range 2 { // the first store records that a day is dropped, the second one drops it
				_ = s.k.storeSums(t.Context())
			}

			used[cardseconds.DayOf(day)] += 60 * minutes
			used[cardseconds.DayOf(day).Month()] += 60 * minutes
			if i%16 == 15 || i == days-1 { // a report of all months takes long, so not each day
				s.expectSums(r, used, &dropped, &kept)
			}
		}
	})
	check.That(t, dropped > 0 && kept > 0, "%d days were dropped, and %d kept", dropped, kept)
}

// expectSums compares what a report reads with what was used.
func (s *scene) expectSums(r check.T, used map[cardseconds.Period]int, dropped, kept *int) {
	stored := s.report()
	for period, seconds := range used {
		if period.IsDay() && period <= stored.Coverage().DaysDropped {
			*dropped++
			continue
		}

		*kept++
		check.Equal(r, string(period), fmt.Sprint(seconds), check.Value(stored.Sums(period))(r)[training].String())
	}
}
