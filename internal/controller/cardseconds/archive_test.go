package cardseconds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/cardinventory"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
)

// useOneCardForMinutes lets one pod use a card for some minutes. Each minute the leader counts the pods and stores the sums.
func (s *scene) useOneCardForMinutes(minutes int) {
	for range minutes {
		s.at = s.at.Add(time.Minute)
		s.use(1)
		_ = s.k.storeSums(s.Context())
	}
}

// sums returns the sums that a report reads and that are not 0, of each day and month around the scene's time.
func (s *scene) sums() map[string]string {
	all := map[string]string{}
	for days := -60; days <= 2; days++ {
		day := cardseconds.DayOf(s.at).Add(days)
		for _, period := range []cardseconds.Period{day, day.Month()} {
			all[string(period)] = s.sum(period)
		}
	}

	maps.DeleteFunc(all, func(_, sum string) bool { return sum == "0" })
	return all
}

// sum returns the sum of a day or month that a report reads.
func (s *scene) sum(period cardseconds.Period) string {
	return check.Value(s.report().Sums(period))(s.T)[training].String()
}

// beforeMidnight is two minutes before 29 November ends.
var beforeMidnight = time.Date(2026, 11, 29, 23, 58, 0, 0, time.UTC)

// entries returns all entries of closed days and months by "<number of the ConfigMap> <key>". Numbers 0 to 15 are
// running parts, and 16 to 63 are the slots of entries.
func (s *scene) entries() map[string]string {
	all := map[string]string{}
	for i := range s.store.objects {
		for key, packed := range s.store.objects[i].entries {
			all[fmt.Sprint(i, " ", key)] = string(packed)
		}
	}
	return all
}

// TestADayAndAMonthAreWrittenOnce: when a day or a month ends in the time zone of the policy, its card-seconds become
// an entry of their own. The entry stays as it was written, also if leaders change. One pod uses a card: 2 minutes of
// 29 November, 3 minutes of the 30th, and 1 minute of December. A minute is 60 card-seconds. The key "16
// 2026-11-29.0" is the entry of that day in ConfigMap 16, the first slot, with the sums of part 0.
func TestADayAndAMonthAreWrittenOnce(t *testing.T) {
	s := newScene(t)
	s.zone = check.Value(time.LoadLocation("Europe/Berlin"))(t)
	s.at = time.Date(2026, 11, 29, 23, 58, 0, 0, s.zone)
	s.use(1)
	s.useOneCardForMinutes(3)
	check.Equal(t, "sums a minute after midnight", map[string]string{"2026-11-29": "120", "2026-11-30": "60", "2026-11": "180"}, s.sums())
	check.Equal(t, "entries", []string{"16 2026-11-29.0"}, slices.Collect(maps.Keys(s.entries())))
	written := s.entries()

	s.restart()
	s.use(1)
	s.useOneCardForMinutes(1)
	// No leader runs, and no pod uses the card, until a minute before the month ends.
	s.at = time.Date(2026, 11, 30, 23, 59, 0, 0, s.zone)
	s.restart()
	s.use(1)
	s.useOneCardForMinutes(2)
	check.Equal(t, "sums in the next month", map[string]string{
		"2026-11-29": "120", "2026-11-30": "180", "2026-11": "300",
		"2026-12-01": "60", "2026-12": "60",
	}, s.sums())
	for key, packed := range written {
		check.Equal(t, "entry "+key, packed, s.entries()[key])
	}
	check.Equal(t, "entries: two days and November", 3, len(s.entries()))
}

// TestEachLeaderKnowsTheUseOfTwoMonths: a leader knows how much a queue used cards in this month and the last
// one, as soon as it has loaded the stored sums. The pod of queue q uses a card in the last 2 minutes of
// November, and in the first one of December. A minute is 60,000 thousandths of a card-second.
func TestEachLeaderKnowsTheUseOfTwoMonths(t *testing.T) {
	s := newSceneAt(t, time.Date(2026, 11, 30, 23, 58, 0, 0, time.UTC))
	s.useOneCardForMinutes(3)
	want := cardseconds.QueueMonths{
		CountedUntil: s.at, Ends: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		This: cardseconds.QueueMonth{Month: "2026-12", Cards: map[string]cardseconds.Milli{"A": 60_000}},
		Last: cardseconds.QueueMonth{Month: "2026-11", Cards: map[string]cardseconds.Milli{"A": 120_000}},
	}
	use, known := s.k.MonthlyUse("q")
	check.That(t, known, "the use of months is not known")
	check.Equal(t, "use of months", want, use)

	s.restart()
	_, known = s.k.MonthlyUse("q")
	check.That(t, !known, "the use of months is known before it is loaded")
	s.use(1)
	_ = s.k.storeSums(t.Context())
	use, _ = s.k.MonthlyUse("q")
	check.Equal(t, "use of months that the next leader loaded", want, use)
}

// TestALeaderThatEndsAfterAnEntryCountsNothingTwice: a leader dies right after it wrote the entry of a day. The running
// part, the ConfigMap of the sums that still grow, has the same 120 seconds. The next leader, a minute later, counts
// the day once: 120 + 60 seconds in all.
func TestALeaderThatEndsAfterAnEntryCountsNothingTwice(t *testing.T) {
	s := newSceneAt(t, beforeMidnight) // 29 November, 23:58
	s.useOneCardForMinutes(2)
	check.Equal(t, "entries", 1, len(s.entries()))
	check.Contains(t, "running part", s.store.objects[0].text, `"2026-11-29":120`)

	s.restartAfter(time.Minute)
	s.useSince(1, s.at.Add(-time.Hour)) // the same pod, which has had its card for an hour
	check.NoError(t, s.k.storeSums(t.Context()))

	check.Equal(t, "sums", map[string]string{"2026-11-29": "120", "2026-11-30": "60", "2026-11": "180"}, s.sums())
	check.Equal(t, "total", 180.0, s.stored())
}

// TestAPartThatCannotBeWrittenClosesNoDay: the entry of a day is written only after the running part, the ConfigMap of
// the sums that still grow, has the same sums. Else the entry would have more than the part. A leader that dies in
// between would lose the difference in the sum of the month. Here the part is refused for the 2 minutes around
// midnight; then all 5 minutes are there.
func TestAPartThatCannotBeWrittenClosesNoDay(t *testing.T) {
	s := newSceneAt(t, beforeMidnight) // 29 November, 23:58
	s.useOneCardForMinutes(1)          // 23:59
	s.store.refused[0] = errors.New("ConfigMap is immutable")
	s.useOneCardForMinutes(2) // until 0:01
	check.Equal(t, "entries while the part cannot be written", 0, len(s.entries()))

	delete(s.store.refused, 0)
	s.useOneCardForMinutes(2) // until 0:03
	// 2 minutes before midnight, 3 after it
	check.Equal(t, "sums", map[string]string{"2026-11-29": "120", "2026-11-30": "180", "2026-11": "300"}, s.sums())
	check.Equal(t, "entries", 1, len(s.entries()))
}

// TestAnEntryGoesIntoTheNextSlotWhenAWriteFails: an administrator made the first slot, ConfigMap 16, immutable, so
// the entry of the day ("17 2026-11-29.0") goes into ConfigMap 17. The API server loses the answer of that write. The
// leader may write the entry again, but the day counts once: 2 minutes before midnight, and 3 after it.
func TestAnEntryGoesIntoTheNextSlotWhenAWriteFails(t *testing.T) {
	s := newSceneAt(t, beforeMidnight)                                        // 29 November, 23:58
	s.useOneCardForMinutes(1)                                                 // 23:59
	s.store.refused[cardseconds.Parts] = errors.New("ConfigMap is immutable") // 16
	s.useOneCardForMinutes(1)                                                 // 0:00
	s.store.losesAnswers = true
	s.useOneCardForMinutes(1) // 0:01
	s.store.losesAnswers = false
	s.useOneCardForMinutes(2) // until 0:03

	check.Equal(t, "sums", map[string]string{"2026-11-29": "120", "2026-11-30": "180", "2026-11": "300"}, s.sums())
	check.Contains(t, "entries", strings.Join(slices.Collect(maps.Keys(s.entries())), ", "), "17 2026-11-29.0")
}

// fillSlots fills each of the 48 slots with the entry of one period, from the first one on. The last slot has so many
// bytes left.
func (s *scene) fillSlots(first cardseconds.Period, left int) {
	full := make([]byte, cardseconds.MaxPartSize)
	for i := range cardseconds.Slots {
		s.store.objects[slotNumber(i)] = object{version: "1", entries: map[string][]byte{fmt.Sprint(first.Add(i), ".0"): full}}
	}
	s.store.objects[slotNumber(cardseconds.Slots-1)].entries[fmt.Sprint(first.Add(cardseconds.Slots-1), ".0")] = full[left:]
	s.store.writes = 100
}

// TestTheOldestDaysAreDroppedWhenSlotsAreFull: closed days are entries in slots, of which there are 48. All are full of
// the days from 1 October on. One pod uses a card around midnight, so the entry of 29 November needs a slot, and that
// of 1 October is dropped. The running part, the ConfigMap of the sums that still grow, records that before. So a
// report never takes the missing day for one without use. No month is lost.
func TestTheOldestDaysAreDroppedWhenSlotsAreFull(t *testing.T) {
	s := newSceneAt(t, beforeMidnight) // 29 November, 23:58
	s.fillSlots("2026-10-01", 0)       // with days, no bytes are left
	s.useOneCardForMinutes(2)
	check.Equal(t, "entries before the day is closed", cardseconds.Slots, len(s.entries()))
	check.Equal(t, "dropped days before the day is closed", cardseconds.Period(""), s.report().Coverage().DaysDropped)

	s.useOneCardForMinutes(3)
	check.Equal(t, "entries", cardseconds.Slots, len(s.entries()))
	check.Equal(t, "dropped days", cardseconds.Period("2026-10-01"), s.report().Coverage().DaysDropped)
	check.Equal(t, "they were dropped because slots were full", true, s.report().Coverage().LackedRoom)
	check.Equal(t, "problems", cardinventory.Bills{Refused: map[string]metav1.StatusReason{}, DaysDropped: "2026-10-01"}, s.k.StorageProblems())

	check.Equal(t, "sum of 29 November: 2 minutes", "120", s.sum("2026-11-29"))
	check.Equal(t, "sum of November: 5 minutes", "300", s.sum("2026-11"))
}

// TestAMonthStaysInItsRunningPartWhenMonthsFillAllSlots: all slots are full of months from January 2020 on, and months
// are never dropped for other months. October has no slot, so it stays in the running part, the ConfigMap of the sums
// that still grow, and the CardInventory reports that. Days are not kept then, here 31 October.
func TestAMonthStaysInItsRunningPartWhenMonthsFillAllSlots(t *testing.T) {
	s := newSceneAt(t, time.Date(2026, 10, 31, 23, 58, 0, 0, time.UTC))
	s.fillSlots("2020-01", 0) // with months, no bytes are left
	s.useOneCardForMinutes(6)
	check.Equal(t, "entries", cardseconds.Slots, len(s.entries()))
	check.Equal(t, "months without a slot", 1, s.k.StorageProblems().MonthsWithoutRoom)

	check.Equal(t, "sum of October: 2 minutes", "120", s.sum("2026-10"))
	check.Equal(t, "sum of November: 4 minutes", "240", s.sum("2026-11"))
	check.Equal(t, "last day that is dropped", cardseconds.Period("2026-10-31"), s.report().Coverage().DaysDropped)
}

// TestDaysExpire: it is November 2026. The entry of a day is dropped after more than a year, here that of 1
// January 2024 in ConfigMap 20, a slot. The entry of its month ("20 2024-01.0") is kept. The report says that days
// were dropped, but not that slots were full.
func TestDaysExpire(t *testing.T) {
	s := newScene(t)
	s.store.objects[20] = object{version: "1", entries: map[string][]byte{"2024-01-01.0": {1}, "2024-01.0": {1}}}
	s.use(1)
	s.useOneCardForMinutes(3) // with a store after each

	check.Equal(t, "entries", []string{"20 2024-01.0"}, slices.Collect(maps.Keys(s.entries())))
	coverage := s.report().Coverage()
	check.That(t, coverage.DaysDropped > "2024-01-01", "days are dropped until %s", coverage.DaysDropped)
	check.Equal(t, "they were dropped because slots were full", false, coverage.LackedRoom)
}

// TestSlotsThatMayNotBeReadAreNotUsed: the Role of an earlier version allows the first 8 ConfigMaps. After an upgrade
// without the new Role, the operator may not read the slots, which are later ConfigMaps. Sums go on in the first ones,
// and the metric serves them: 3 minutes are 180 seconds. The use of months could lack a closed month, so it is unknown.
func TestSlotsThatMayNotBeReadAreNotUsed(t *testing.T) {
	s := newSceneAt(t, beforeMidnight) // 29 November, 23:58
	s.k.store = &forbidden{s.store, apierrors.NewForbidden(corev1.Resource("configmaps"), "x", errors.New("no Role"))}
	s.useOneCardForMinutes(3)

	check.Equal(t, "entries", 0, len(s.entries()))
	check.Equal(t, "sums", map[string]string{"2026-11-29": "120", "2026-11-30": "60", "2026-11": "180"}, s.sums())
	check.Equal(t, "served", 180.0, s.served(training))
	_, known := s.k.MonthlyUse("q")
	check.Equal(t, "the use of months is known", false, known)
}

// TestMonthlyUseIsLessThanAMinuteOld: views of tenants show the use of this month and the last one. The leader
// stores every 20 seconds, over a change of the month. At any time the use is counted until less than a minute
// ago. The sum of both months is the time from 23:50, when a pod got one card, until then.
func TestMonthlyUseIsLessThanAMinuteOld(t *testing.T) {
	begin := time.Date(2026, 11, 30, 23, 50, 0, 0, time.UTC)
	s := newSceneAt(t, begin)
	for range 40 {
		s.at = s.at.Add(20 * time.Second)
		s.use(1)
		_ = s.k.storeSums(t.Context())

		use, known := s.k.MonthlyUse("q", "of no pod") // two queues: no pod is in the second one
		check.That(t, known, "the use of months is not known at %s", s.at)
		check.That(t, s.at.Sub(use.CountedUntil) < time.Minute, "counted until %s at %s", use.CountedUntil, s.at)
		check.Equal(t, "sum of both months", use.CountedUntil.Sub(begin).Milliseconds(), int64(use.This.Cards["A"]+use.Last.Cards["A"]))
	}

	use, _ := s.k.MonthlyUse("q")
	check.Equal(t, "months", []cardseconds.Period{"2026-12", "2026-11"}, []cardseconds.Period{use.This.Month, use.Last.Month})
}

// TestTheZoneOfThePolicyCutsDays: a day ends at midnight in the time zone of the policy, and a change of the
// zone loses nothing. It is 22:00 UTC. The change at 22:10 to a zone 3 hours east ends 29 November at the next
// count, a minute later. So 11 minutes count on the 29th, and 9 on the 30th. When the zone is UTC again, the
// closed day does not go on: the last 10 minutes also count on the 30th.
func TestTheZoneOfThePolicyCutsDays(t *testing.T) {
	s := newSceneAt(t, time.Date(2026, 11, 29, 22, 0, 0, 0, time.UTC))
	s.useOneCardForMinutes(10)
	s.zone = time.FixedZone("east", 3*3600)
	s.useOneCardForMinutes(10)
	check.Equal(t, "sums in the east", map[string]string{"2026-11-29": "660", "2026-11-30": "540", "2026-11": "1200"}, s.sums())

	s.zone = nil
	s.useOneCardForMinutes(10)
	check.Equal(t, "sums in UTC", map[string]string{"2026-11-29": "660", "2026-11-30": "1140", "2026-11": "1800"}, s.sums())
}

// forbidden refuses everything but the first 8 ConfigMaps.
type forbidden struct {
	*fakeStore
	refusal error
}

func (s *forbidden) read(ctx context.Context, i int) (object, error) {
	if i >= 8 {
		return object{}, s.refusal
	}
	return s.fakeStore.read(ctx, i)
}

func (s *forbidden) write(ctx context.Context, i int, version string, c change) (string, error) {
	if i >= 8 {
		return "", s.refusal
	}
	return s.fakeStore.write(ctx, i, version, c)
}
