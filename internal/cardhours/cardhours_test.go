package cardhours

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

const hour = cardseconds.Milli(3600 * 1000)

var november = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// useAt returns the use of a queue that has held so many cards since the month before began.
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

func TestAViewShowsWholeCardHours(t *testing.T) {
	use := useAt(november.Add(1500*time.Millisecond), 0)
	use.This.Cards = map[string]cardseconds.Milli{"B": 3*hour - 1, "A": hour, "C": 1, "": hour, strings.Repeat("D", 161): hour}

	want := &v1alpha1.CardHoursStatus{
		CountedUntil: metav1.NewTime(november.Add(time.Second)),
		ThisMonth: v1alpha1.MonthCardHours{
			Month: "2026-11", Summary: "2 B, 1 A, 0 C", Cards: []v1alpha1.CardHours{{Name: "A", Hours: 1}, {Name: "B", Hours: 2}, {Name: "C"}},
		},
		LastMonth: v1alpha1.MonthCardHours{Month: "2026-10", Summary: "none"},
	}
	check.Equal(t, "status", want, NewStatus(use))

	for i := range 200 {
		use.Last.Cards[fmt.Sprintf("card-%03d", i)] = hour * cardseconds.Milli(i)
	}

	last := NewStatus(use).LastMonth
	check.That(t, len(last.Cards) == cardquota.MaxStatusCards && last.Cards[0].Name == "card-072" && last.Cards[127].Hours == 199, "cards %v", last.Cards)
	check.That(t, len(last.Summary) <= 1024, "summary %q", last.Summary)
}

// TestWhenAViewIsRefreshed: use grows every second, and is no reason to write a status every time.
func TestWhenAViewIsRefreshed(t *testing.T) {
	const view = "lab/chat"
	delay := delayOf(view, refreshSpread)
	check.Must(t, delay > time.Minute && delay < refreshSpread-time.Minute, "delay %s", delay)

	turn := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	shown := func(at time.Time) *v1alpha1.CardHoursStatus { return NewStatus(useAt(at, 8)) }
	idle := NewStatus(useAt(november, 0))

	for t, tc := range check.Cases(t, map[string]struct {
		shown       *v1alpha1.CardHoursStatus
		at          time.Time
		cards       int
		isDue, isIn bool
		wait        time.Duration
	}{
		"nothing is shown":                   {nil, november, 8, true, true, time.Hour + delay},
		"right after a refresh":              {shown(november), november.Add(time.Minute), 8, false, false, 59*time.Minute + delay},
		"less than an hour after":            {shown(november), november.Add(time.Hour - time.Second), 8, false, false, time.Second + delay},
		"an hour after, it rides along":      {shown(november), november.Add(time.Hour), 8, false, true, delay},
		"its delay is not over":              {shown(november), november.Add(time.Hour + delay - time.Second), 8, false, true, leastWait},
		"its delay is over":                  {shown(november), november.Add(time.Hour + delay), 8, true, true, time.Hour + delay},
		"without use nothing is written":     {idle, november.Add(10 * time.Hour), 0, false, true, time.Hour + delay},
		"before the month ends":              {shown(turn.Add(-10 * time.Minute)), turn.Add(-2 * time.Minute), 8, false, false, 2*time.Minute + delayOf(view, turnSpread)},
		"the month has just begun":           {shown(turn.Add(-10 * time.Minute)), turn, 8, true, true, time.Hour + delay},
		"a month begins without use":         {idle, turn, 0, true, true, time.Hour + delay},
		"the clock goes back a little":       {shown(november), november.Add(-time.Minute), 8, false, false, time.Hour + time.Minute + delay},
		"the clock was days fast":            {shown(november.Add(72 * time.Hour)), november, 8, true, true, time.Hour + delay},
		"the time zone takes the month back": {shown(turn.Add(time.Minute)), turn.Add(-time.Hour), 8, true, true, time.Hour + delayOf(view, turnSpread)},
	}) {
		use := useAt(tc.at, tc.cards)
		got := Next(tc.shown, use, view)
		want := tc.shown
		if tc.isIn {
			want = NewStatus(use)
		}

		check.Equal(t, "status", want, got.Status)
		check.Equal(t, "is due", tc.isDue, got.IsDue)
		check.Equal(t, "looks again", tc.wait, got.Wait)
	}
}

// TestManyViewsAreNotWrittenInTheSameMinute: all were written at the same time once.
func TestManyViewsAreNotWrittenInTheSameMinute(t *testing.T) {
	const views = 1000
	shown := make([]*v1alpha1.CardHoursStatus, views)
	next := make([]time.Time, views)

	writes := map[time.Time]int{}
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
			}
		}
	}

	check.Equal(t, "writes in the first minute", views, writes[november])
	delete(writes, november)
	sum := 0
	most := 0
	for _, n := range writes {
		sum += n
		most = max(most, n)
	}

	check.That(t, sum >= 3*views && sum <= 5*views, "%d writes of %d views in 6 hours", sum, views)
	check.That(t, most <= views/15, "%d writes in one minute", most)
}

// TestAViewIsAtMostTwoHoursOldAndWrittenOnceAnHour: whatever else is written, whenever the operator does not know
// the use.
func TestAViewIsAtMostTwoHoursOldAndWrittenOnceAnHour(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		at := november.Add(time.Duration(rapid.IntRange(0, 30*24*60).Draw(t, "minutes")) * time.Minute)
		var shown *v1alpha1.CardHoursStatus
		var refreshes []*v1alpha1.CardHoursStatus

		again := at
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			isWritten := rapid.Bool().Draw(t, "other write")
			pause := again.Sub(at)
			if isWritten {
				pause = min(pause, time.Duration(rapid.IntRange(1, 3000).Draw(t, "seconds"))*time.Second)
			}

			at = at.Add(pause)
			refresh := Next(shown, useAt(at, 8), "lab/llm")
			again = at.Add(refresh.Wait)
			if !refresh.IsDue && !isWritten {
				continue
			}

			if shown != refresh.Status {
				refreshes = append(refreshes, refresh.Status)
			}

			shown = refresh.Status
			latest := NewStatus(useAt(at, 8))
			check.Equal(t, "month", latest.ThisMonth.Month, shown.ThisMonth.Month)
			check.That(t, latest.CountedUntil.Sub(shown.CountedUntil.Time) < 2*time.Hour, "%s old", latest.CountedUntil.Sub(shown.CountedUntil.Time))
		}

		slices.Reverse(refreshes)
		for i := range len(refreshes) - 1 {
			newer := refreshes[i]
			older := refreshes[i+1]
			isTurn := newer.ThisMonth.Month != older.ThisMonth.Month
			check.That(t, isTurn || newer.CountedUntil.Sub(older.CountedUntil.Time) >= time.Hour, "refreshed at %s and at %s", older.CountedUntil, newer.CountedUntil)
		}
	})
}
