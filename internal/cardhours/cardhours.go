// Package cardhours returns what a LocalCardQuota shows of the use of its queue in this month and in the last
// one, and when it is written again. It is pure.
package cardhours

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cardseconds"
)

const (
	// refreshInterval is the least time between two refreshes of the card-hours of a view.
	refreshInterval = time.Hour
	// refreshSpread is how much later a view is written only for its card-hours. Each view has a delay of its
	// own, so that not all are written in the same minute of the hour.
	refreshSpread = 30 * time.Minute
	// turnSpread is how much later a view is written after a month began.
	turnSpread = time.Minute
	// leastWait is the least time until the card-hours are looked at again.
	leastWait = 30 * time.Second
	// milliPerHour is a card-hour in thousandths of a card-second, in which use is counted.
	milliPerHour = 1000 * 3600
)

// Refresh is what a view shows next of the use of its queue.
type Refresh struct {
	Status *v1alpha1.CardHoursStatus
	// IsDue reports whether it is a reason to write the status. Otherwise it goes with another write.
	IsDue bool
	// Wait is when to look again.
	Wait time.Duration
}

// Next returns the card-hours that a view, a LocalCardQuota, shows next. shown are those that it has, nil for
// none. view is its namespace and name, by which each view has a delay of its own. Use grows every second, so
// a view keeps what it shows for an hour, but for the turn of a month.
func Next(shown *v1alpha1.CardHoursStatus, use cardseconds.QueueMonths, view string) Refresh {
	delay := delayOf(view, refreshSpread)
	next := Refresh{Status: NewStatus(use), Wait: refreshInterval + delay}
	switch {
	case shown == nil || shown.ThisMonth.Month != next.Status.ThisMonth.Month:
		next.IsDue = true
	default:
		age := next.Status.CountedUntil.Sub(shown.CountedUntil.Time)
		isFromFuture := age < -refreshInterval // the clock was wrong, so the view is corrected now
		switch {
		case age < refreshInterval && !isFromFuture: // it stays as it is
			next.Status = shown
			next.Wait -= age
		case hasSameUse(shown, next.Status): // countedUntil alone is no reason for a write
		case age < refreshInterval+delay && !isFromFuture: // not due yet, but another write takes it along
			next.Wait -= age
		default:
			next.IsDue = true
		}
	}

	untilNextMonth := use.Ends.Sub(use.CountedUntil) + delayOf(view, turnSpread)
	next.Wait = max(min(next.Wait, untilNextMonth), leastWait)
	return next
}

// delayOf returns the delay of a view, less than a bound. A hash of its name spreads the views and always gives one
// of them the same delay.
func delayOf(view string, bound time.Duration) time.Duration {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(view)) // never fails
	return bound * time.Duration(sum.Sum32()%1000) / 1000
}

// hasSameUse reports whether two statuses differ in countedUntil at most.
func hasSameUse(a, b *v1alpha1.CardHoursStatus) bool {
	return equality.Semantic.DeepEqual(a.ThisMonth, b.ThisMonth) && equality.Semantic.DeepEqual(a.LastMonth, b.LastMonth)
}

// NewStatus returns the use of a queue as a view shows it.
func NewStatus(use cardseconds.QueueMonths) *v1alpha1.CardHoursStatus {
	return &v1alpha1.CardHoursStatus{
		CountedUntil: metav1.NewTime(use.CountedUntil.UTC().Truncate(time.Second)),
		ThisMonth:    newMonth(use.This),
		LastMonth:    newMonth(use.Last),
	}
}

// newMonth returns the use in a month, in whole card-hours: at most MaxStatusCards cards, and a summary.
func newMonth(use cardseconds.QueueMonth) v1alpha1.MonthCardHours {
	var cards []v1alpha1.CardHours
	for name, amount := range use.Cards {
		// A longer name, from a ConfigMap that was edited, would make the API server refuse the whole status.
		if name == "" || len(name) > card.MaxNameLength {
			continue
		}
		cards = append(cards, v1alpha1.CardHours{Name: name, Hours: int64(amount) / milliPerHour})
	}

	// The largest come first, so that the bound cuts cards that cost least.
	slices.SortFunc(cards, func(a, b v1alpha1.CardHours) int {
		return cmp.Or(cmp.Compare(b.Hours, a.Hours), cmp.Compare(a.Name, b.Name))
	})
	cards = cards[:min(len(cards), cardquota.MaxStatusCards)]

	var parts []string
	for _, c := range cards {
		parts = append(parts, fmt.Sprintf("%d %s", c.Hours, c.Name))
	}

	// The API lists cards by name. Only the bound and the summary are by amount.
	slices.SortFunc(cards, func(a, b v1alpha1.CardHours) int { return cmp.Compare(a.Name, b.Name) })
	return v1alpha1.MonthCardHours{Month: string(use.Month), Summary: cardquota.JoinSummary(parts, "none"), Cards: cards}
}
