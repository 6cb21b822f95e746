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

// count lets one pod hold a card, and stores, each minute.
func (s *scene) count(minutes int) {
	for range minutes {
		s.at = s.at.Add(time.Minute)
		s.use(1)
		_ = s.k.storeSums(s.Context())
	}
}

// sums returns the sum of each day and month that a report reads.
func (s *scene) sums() map[string]string {
	all := map[string]string{}
	for period := range s.report().Periods() {
		all[string(period)] = s.sum(period)
	}
	return all
}

// sum returns the sum of a day or month that a report reads.
func (s *scene) sum(period cardseconds.Period) string {
	return check.Value(s.report().Sums(period))(s.T)[training].String()
}

// beforeMidnight is two minutes before a day ends.
var beforeMidnight = time.Date(2026, 11, 29, 23, 58, 0, 0, time.UTC)

// entries returns all entries, with their slots.
func (s *scene) entries() map[string]string {
	all := map[string]string{}
	for i := range s.store.objects {
		for key, packed := range s.store.objects[i].entries {
			all[fmt.Sprint(i, " ", key)] = string(packed)
		}
	}
	return all
}

// TestADayAndAMonthAreWrittenOnce: only the running day is written again, also if leaders change in between.
func TestADayAndAMonthAreWrittenOnce(t *testing.T) {
	s := newScene(t)
	berlin := check.Value(time.LoadLocation("Europe/Berlin"))(t)

	s.zone = berlin
	s.at = time.Date(2026, 11, 29, 23, 58, 0, 0, berlin)
	s.use(1)
	s.count(3)
	check.Equal(t, "a minute after midnight", map[string]string{"2026-11-29": "120", "2026-11-30": "60", "2026-11": "180"}, s.sums())
	check.Equal(t, "entries", []string{"16 2026-11-29.0"}, slices.Collect(maps.Keys(s.entries())))
	written := s.entries()

	s.restart()
	s.use(1)
	s.count(1)
	s.at = time.Date(2026, 11, 30, 23, 59, 0, 0, berlin)
	s.restart() // a day without a leader, in which nothing held the card
	s.use(1)

	s.count(2)
	check.Equal(t, "in the next month", map[string]string{"2026-11-29": "120", "2026-11-30": "180", "2026-11": "300", "2026-12-01": "60", "2026-12": "60"}, s.sums())
	for key, packed := range written {
		check.Equal(t, "entry "+key, packed, s.entries()[key])
	}
	check.Equal(t, "entries", 3, len(s.entries()))

	use, known := s.k.MonthlyUse("q")
	want := cardseconds.QueueMonths{
		CountedUntil: s.at, Ends: time.Date(2027, 1, 1, 0, 0, 0, 0, berlin),
		This: cardseconds.QueueMonth{Month: "2026-12", Cards: map[string]cardseconds.Milli{"A": 60_000}},
		Last: cardseconds.QueueMonth{Month: "2026-11", Cards: map[string]cardseconds.Milli{"A": 300_000}},
	}

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

// TestALeaderThatEndsAfterAnEntryCountsNothingTwice: the running part has the day still, and all of it.
func TestALeaderThatEndsAfterAnEntryCountsNothingTwice(t *testing.T) {
	s := newSceneAt(t, beforeMidnight)
	s.count(2)
	check.Equal(t, "entries", 1, len(s.entries()))
	check.Contains(t, "running part", s.store.objects[0].text, `"2026-11-29":120`)

	s.restartAfter(time.Minute)
	s.useSince(1, s.at.Add(-time.Hour))
	check.NoError(t, s.k.storeSums(t.Context()))
	check.Equal(t, "sums", map[string]string{"2026-11-29": "120", "2026-11-30": "60", "2026-11": "180"}, s.sums())
	check.Equal(t, "total", 180.0, s.stored())
}

// TestAPartThatCannotBeWrittenClosesNoDay: its entry would have more than the part, and a leader that ends in between
// would lose it in the month.
func TestAPartThatCannotBeWrittenClosesNoDay(t *testing.T) {
	s := newSceneAt(t, beforeMidnight)
	s.count(1)
	s.store.refused[0] = errors.New("ConfigMap is immutable")
	s.count(2)
	check.Equal(t, "entries", 0, len(s.entries()))
	delete(s.store.refused, 0)
	s.count(2)
	check.Equal(t, "sums", map[string]string{"2026-11-29": "120", "2026-11-30": "180", "2026-11": "300"}, s.sums())
	check.Equal(t, "entries", 1, len(s.entries()))
}

// TestAnEntryWithALostAnswerIsWrittenOnce: and one that cannot be written goes into the next slot.
func TestAnEntryWithALostAnswerIsWrittenOnce(t *testing.T) {
	s := newSceneAt(t, beforeMidnight)
	s.count(1)
	s.store.refused[cardseconds.Parts] = errors.New("ConfigMap is immutable")

	s.count(1)
	s.store.losesAnswers = true
	s.count(1)
	s.store.losesAnswers = false
	s.count(2)
	check.Equal(t, "sums", map[string]string{"2026-11-29": "120", "2026-11-30": "180", "2026-11": "300"}, s.sums())

	check.Contains(t, "entries", strings.Join(slices.Collect(maps.Keys(s.entries())), ", "), "17 2026-11-29.0")
}

// fillSlots fills each slot with one of the periods that begin with the first, but for some bytes in the last slot.
func (s *scene) fillSlots(first cardseconds.Period, left int) {
	full := make([]byte, cardseconds.MaxPartSize)
	for i := range cardseconds.Slots {
		s.store.objects[slotNumber(i)] = object{version: "1", entries: map[string][]byte{fmt.Sprint(first.Add(i), ".0"): full}}
	}
	s.store.objects[slotNumber(cardseconds.Slots-1)].entries[fmt.Sprint(first.Add(cardseconds.Slots-1), ".0")] = full[left:]
	s.store.writes = 100
}

// TestWithoutRoomTheOldestDaysAreDropped: a running part says so before, and no month is lost.
func TestWithoutRoomTheOldestDaysAreDropped(t *testing.T) {
	s := newSceneAt(t, beforeMidnight)
	s.fillSlots("2026-10-01", 0)
	s.count(2)
	check.Equal(t, "slots", cardseconds.Slots, len(s.entries()))
	check.Equal(t, "said", cardseconds.Period(""), s.report().Coverage().DaysDropped)

	s.count(3)
	coverage := s.report().Coverage()
	check.That(t, coverage.DaysDropped == "2026-10-01" && coverage.LackedRoom, "coverage %v", coverage)
	check.Equal(t, "slots", cardseconds.Slots, len(s.entries()))

	check.Equal(t, "of the day", "120", s.sum("2026-11-29"))
	check.Equal(t, "of the month", "300", s.sum("2026-11"))
	check.Equal(t, "problems", cardinventory.Bills{Refused: map[string]metav1.StatusReason{}, DaysDropped: "2026-10-01"}, s.k.StorageProblems())
}

// TestAMonthWithoutRoomStays: in its running part, when months fill all slots. Days are not kept then.
func TestAMonthWithoutRoomStays(t *testing.T) {
	s := newSceneAt(t, time.Date(2026, 10, 31, 23, 58, 0, 0, time.UTC))
	s.fillSlots("2020-01", 0)
	s.count(6)
	check.Equal(t, "slots", cardseconds.Slots, len(s.entries()))
	check.Equal(t, "months without room", 1, s.k.StorageProblems().MonthsWithoutRoom)

	check.Equal(t, "of the month before", "120", s.sum("2026-10"))
	check.Equal(t, "of the month", "240", s.sum("2026-11"))
	check.Equal(t, "last day that is dropped", cardseconds.Period("2026-10-31"), s.report().Coverage().DaysDropped)
}

// TestDaysExpire: after more than a year, which is no lack of room.
func TestDaysExpire(t *testing.T) {
	s := newScene(t)
	s.store.objects[20] = object{version: "1", entries: map[string][]byte{"2024-01-01.0": {1}, "2024-01.0": {1}}}
	s.use(1)
	s.count(3)
	check.Equal(t, "entries", []string{"20 2024-01.0"}, slices.Collect(maps.Keys(s.entries())))
	coverage := s.report().Coverage()
	check.That(t, coverage.DaysDropped > "2024-01-01" && !coverage.LackedRoom, "coverage %v", coverage)
}

// TestSlotsThatMayNotBeReadAreNotUsed: after an upgrade without its Role, sums go on in the old ConfigMaps.
func TestSlotsThatMayNotBeReadAreNotUsed(t *testing.T) {
	s := newSceneAt(t, beforeMidnight)
	s.k.store = &forbidden{s.store, apierrors.NewForbidden(corev1.Resource("configmaps"), "x", errors.New("no Role"))}
	s.count(3)
	check.Equal(t, "entries", 0, len(s.entries()))
	check.Equal(t, "sums", map[string]string{"2026-11-29": "120", "2026-11-30": "60", "2026-11": "180"}, s.sums())
	check.Equal(t, "served", 180.0, s.served(training))
	_, known := s.k.MonthlyUse("q")
	check.That(t, !known, "the use of months is known, and could lack a closed month")
}

// TestMonthlyUseIsThatOfAMinuteAgoAtMost: and right when a month begins.
func TestMonthlyUseIsThatOfAMinuteAgoAtMost(t *testing.T) {
	s := newSceneAt(t, time.Date(2026, 11, 30, 23, 50, 0, 0, time.UTC))
	for range 40 {
		s.at = s.at.Add(20 * time.Second)
		s.use(1)
		_ = s.k.storeSums(t.Context())
		use, known := s.k.MonthlyUse("q", "of no pod")
		used := use.CountedUntil.Sub(time.Date(2026, 11, 30, 23, 50, 0, 0, time.UTC))
		check.That(t, known && s.at.Sub(use.CountedUntil) < time.Minute, "known %t, counted until %s at %s", known, use.CountedUntil, s.at)
		check.Equal(t, "sum", used.Milliseconds(), int64(use.This.Cards["A"]+use.Last.Cards["A"]))
	}

	use, _ := s.k.MonthlyUse("q")
	check.Equal(t, "months", []cardseconds.Period{"2026-12", "2026-11"}, []cardseconds.Period{use.This.Month, use.Last.Month})
}

// TestTheZoneOfThePolicyCutsDays: a change of the zone loses nothing.
func TestTheZoneOfThePolicyCutsDays(t *testing.T) {
	s := newSceneAt(t, time.Date(2026, 11, 29, 22, 0, 0, 0, time.UTC))
	s.count(10)
	s.zone = time.FixedZone("east", 3*3600)
	s.count(10)
	check.Equal(t, "a day begins early", map[string]string{"2026-11-29": "660", "2026-11-30": "540", "2026-11": "1200"}, s.sums())
	s.zone = nil
	s.count(10)
	check.Equal(t, "a closed day does not go on", map[string]string{"2026-11-29": "660", "2026-11-30": "1140", "2026-11": "1800"}, s.sums())
}

// forbidden refuses everything but the first ConfigMaps.
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
