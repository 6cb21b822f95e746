package cardhours

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

const hour = cardseconds.Milli(3600 * 1000)

// november is a time in the middle of a month.
var november = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// useAt returns the use of a queue that has used so many H200 since the month before began.
func useAt(at time.Time, cards int) cardseconds.QueueMonths {
	begin := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	before := begin.AddDate(0, -1, 0)
	month := func(from, to time.Time) cardseconds.QueueMonth {
		used := map[string]cardseconds.Milli{}
		if cards > 0 {
			used["NVIDIA-H200"] = cardseconds.Milli(cards) * cardseconds.Milli(to.Sub(from).Milliseconds())
		}
		return cardseconds.QueueMonth{Month: cardseconds.Period(from.Format(cardseconds.MonthLayout)), Cards: used}
	}
	return cardseconds.QueueMonths{CountedUntil: at, Ends: begin.AddDate(0, 1, 0), This: month(begin, at), Last: month(before, begin)}
}

// TestAViewShowsWholeCardHours: a view, a LocalCardQuota, shows a tenant the hours of this month and the last,
// rounded down, and the time to the second. Cards are in the order of their names, and in the summary the card with
// most hours is first. A card name that is empty or has more than 160 characters does not count: the API server
// would refuse the whole status.
func TestAViewShowsWholeCardHours(t *testing.T) {
	use := cardseconds.QueueMonths{
		CountedUntil: november.Add(1500 * time.Millisecond),
		This: cardseconds.QueueMonth{Month: "2026-11", Cards: map[string]cardseconds.Milli{
			"B": 3*hour - 1, // a thousandth of a card-second less than 3 hours
			"A": hour,
			"C": 1,
			"":  hour, strings.Repeat("D", 161): hour,
		}},
		Last: cardseconds.QueueMonth{Month: "2026-10"},
	}

	want := &v1alpha1.CardHoursStatus{
		CountedUntil: metav1.NewTime(november.Add(time.Second)),
		ThisMonth: v1alpha1.MonthCardHours{
			Month: "2026-11", Summary: "2 B, 1 A, 0 C", Cards: []v1alpha1.CardHours{{Name: "A", Hours: 1}, {Name: "B", Hours: 2}, {Name: "C"}},
		},
		LastMonth: v1alpha1.MonthCardHours{Month: "2026-10", Summary: "none"},
	}
	check.Equal(t, "status", want, NewStatus(use))
}

// TestAViewShowsThe128CardsWithMostHours: the API server accepts at most 128 cards in a status, and a summary of at
// most 1024 bytes. Of 200 cards, card-N with N hours, those from 199 down to 72 are shown.
func TestAViewShowsThe128CardsWithMostHours(t *testing.T) {
	used := map[string]cardseconds.Milli{}
	for i := range 200 {
		used[fmt.Sprintf("card-%03d", i)] = hour * cardseconds.Milli(i)
	}

	shown := NewStatus(cardseconds.QueueMonths{Last: cardseconds.QueueMonth{Cards: used}}).LastMonth
	check.Must(t, len(shown.Cards) == 128, "%d cards", len(shown.Cards))
	check.Equal(t, "first card", v1alpha1.CardHours{Name: "card-072", Hours: 72}, shown.Cards[0])
	check.Equal(t, "last card", v1alpha1.CardHours{Name: "card-199", Hours: 199}, shown.Cards[127])
	check.That(t, len(shown.Summary) <= 1024, "summary %q", shown.Summary)
}

// TestCardHoursAreRefreshedOnceAnHour: use grows every second, but each write of a status costs the API server. So a
// view keeps what it shows for an hour. From then on new hours go along with any other write of the status: they are
// not due. After the delay of this view, which is below 30 minutes, they are due, which means a write for them alone.
// Another month is due at once, and so are shown hours that were counted until more than an hour from now. Where
// nothing happens earlier, the operator looks again in wantWait, which is at least 30 seconds.
func TestCardHoursAreRefreshedOnceAnHour(t *testing.T) {
	const view = "lab/chat"
	delay := delayOf(view, refreshSpread)
	check.Must(t, delay > time.Minute && delay < refreshSpread-time.Minute, "delay %s", delay) // the rows wait for parts of it

	december := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	hoursAt := func(at time.Time) *v1alpha1.CardHoursStatus { return NewStatus(useAt(at, 8)) }
	hoursWithoutUse := NewStatus(useAt(november, 0))

	for t, tc := range check.Cases(t, map[string]struct {
		shown    *v1alpha1.CardHoursStatus
		now      time.Time
		cards    int  // that the queue uses
		wantNew  bool // hours, in the next write
		wantDue  bool // a write for them alone
		wantWait time.Duration
	}{
		"a new view shows nothing yet: due": {
			now: november, cards: 8, wantNew: true, wantDue: true, wantWait: time.Hour + delay,
		},
		"a minute after a refresh": {
			shown: hoursAt(november), now: november.Add(time.Minute), cards: 8, wantWait: 59*time.Minute + delay,
		},
		"a second less than an hour after a refresh": {
			shown: hoursAt(november), now: november.Add(time.Hour - time.Second), cards: 8, wantWait: time.Second + delay,
		},
		"an hour after a refresh: new hours go along, not due": {
			shown: hoursAt(november), now: november.Add(time.Hour), cards: 8, wantNew: true, wantWait: delay,
		},
		"a second before the delay is over: still not due, and the wait is at least 30 seconds": {
			shown: hoursAt(november), now: november.Add(time.Hour + delay - time.Second), cards: 8, wantNew: true, wantWait: 30 * time.Second,
		},
		"the delay is over: due": {
			shown: hoursAt(november), now: november.Add(time.Hour + delay), cards: 8, wantNew: true, wantDue: true, wantWait: time.Hour + delay,
		},
		"ten hours without use: only countedUntil is new, never due": {
			shown: hoursWithoutUse, now: november.Add(10 * time.Hour), wantNew: true, wantWait: time.Hour + delay,
		},
		"two minutes before the month ends: look again when it has ended, with a delay below a minute": {
			shown: hoursAt(december.Add(-10 * time.Minute)), now: december.Add(-2 * time.Minute), cards: 8,
			wantWait: 2*time.Minute + delayOf(view, turnSpread),
		},
		"the month has just begun, 10 minutes after a refresh: due": {
			shown: hoursAt(december.Add(-10 * time.Minute)), now: december, cards: 8, wantNew: true, wantDue: true, wantWait: time.Hour + delay,
		},
		"the month has just begun, and there was no use: due": {
			shown: hoursWithoutUse, now: december, wantNew: true, wantDue: true, wantWait: time.Hour + delay,
		},
		"the clock goes back by a minute: the hour is a minute longer": {
			shown: hoursAt(november), now: november.Add(-time.Minute), cards: 8, wantWait: time.Hour + time.Minute + delay,
		},
		"the clock was three days fast and is right again: due": {
			shown: hoursAt(november.Add(72 * time.Hour)), now: november, cards: 8, wantNew: true, wantDue: true, wantWait: time.Hour + delay,
		},
		"the clock goes back from December to an hour before its begin: due, and the month ends in an hour": {
			shown: hoursAt(december.Add(time.Minute)), now: december.Add(-time.Hour), cards: 8, wantNew: true, wantDue: true,
			wantWait: time.Hour + delayOf(view, turnSpread),
		},
	}) {
		use := useAt(tc.now, tc.cards)
		got := Next(tc.shown, use, view)
		want := tc.shown
		if tc.wantNew {
			want = NewStatus(use)
		}

		check.Equal(t, "refresh", Refresh{Status: want, IsDue: tc.wantDue, Wait: tc.wantWait}, got)
	}
}

// TestManyViewsAreNotWrittenInTheSameMinute: each view has a delay of its own, by its name, so the writes of
// many views are spread. 1,000 views of busy queues begin in the same minute. The operator looks at each when
// Next says so, for 6 hours. A view is written every 60 to 90 minutes, so 3 to 5 times after the first. The
// writes are spread over 30 minutes, a thirtieth of the views in each if evenly. No minute has more than
// twice as many.
func TestManyViewsAreNotWrittenInTheSameMinute(t *testing.T) {
	const views = 1000
	shown := make([]*v1alpha1.CardHoursStatus, views)
	next := make([]time.Time, views)
	total := 0
	writes := map[time.Time]int{} // by minute
	for at := november; at.Before(november.Add(6 * time.Hour)); at = at.Add(10 * time.Second) {
		for i := range views {
			if at.Before(next[i]) {
				continue
			}

			refresh := Next(shown[i], useAt(at, 8), fmt.Sprintf("lab-%d/llm-%d", i/3, i))
			next[i] = at.Add(refresh.Wait)
			if refresh.IsDue {
				shown[i] = refresh.Status
				writes[at.Truncate(time.Minute)]++
				total++
			}
		}
	}

	check.Equal(t, "writes in the first minute", views, writes[november])
	delete(writes, november)
	total -= views
	check.That(t, total >= 3*views && total <= 5*views, "%d writes of %d views in 6 hours", total, views)
	most := slices.Max(slices.Collect(maps.Values(writes)))
	check.That(t, most <= views/15, "%d writes in one minute", most)
}

// TestAViewIsAtMostTwoHoursOldAndRefreshedOnceAnHour: the queue uses 8 cards all the time. The operator looks at the
// view when Next says so, and whenever it writes the status for another reason. At each write the shown hours are
// less than two hours old and of the current month. Two refreshes in one month are at least an hour apart.
func TestAViewIsAtMostTwoHoursOldAndRefreshedOnceAnHour(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		at := november.Add(time.Duration(rapid.IntRange(0, 30*24*60).Draw(t, "minutes")) * time.Minute)
		var shown *v1alpha1.CardHoursStatus

		next := at
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			isOtherWrite := rapid.Bool().Draw(t, "other write")
			pause := next.Sub(at)
			if isOtherWrite {
				pause = min(pause, time.Duration(rapid.IntRange(1, 3000).Draw(t, "seconds"))*time.Second)
			}

			at = at.Add(pause)
			refresh := Next(shown, useAt(at, 8), "lab/llm")
			next = at.Add(refresh.Wait)
			if !refresh.IsDue && !isOtherWrite {
				continue
			}

			if shown != nil && shown != refresh.Status && shown.ThisMonth.Month == refresh.Status.ThisMonth.Month {
				since := refresh.Status.CountedUntil.Sub(shown.CountedUntil.Time)
				check.That(t, since >= time.Hour, "refreshed after %s, at %s", since, at)
			}

			shown = refresh.Status
			latest := NewStatus(useAt(at, 8))
			age := latest.CountedUntil.Sub(shown.CountedUntil.Time)
			check.Equal(t, "month", latest.ThisMonth.Month, shown.ThisMonth.Month)
			check.That(t, age < 2*time.Hour, "%s old", age)
		}
	})
}
