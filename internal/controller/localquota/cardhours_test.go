package localquota

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/waiting"
)

// leader is an operator with a clock of its own, which sums up what a queue uses.
type leader struct {
	meter   *cardseconds.Meter
	at      time.Time
	isKnown bool
}

func newLeader(at time.Time) *leader {
	return &leader{meter: &cardseconds.Meter{}, at: at, isKnown: true}
}

// useCards lets a queue use cards for a time.
func (l *leader) useCards(queue string, count card.Count, length time.Duration) {
	series := cardseconds.Series{Queue: queue, Card: "A", ServiceType: "inference"}
	for end := l.at.Add(length); l.at.Before(end); l.at = l.at.Add(time.Minute) {
		l.meter.SetCounts(l.at, map[cardseconds.Series]card.Count{series: count})
	}
	l.meter.SetCounts(l.at, nil)
}

func (l *leader) MonthlyUse(queues ...string) (cardseconds.QueueMonths, bool) {
	closed := func(cardseconds.Period) []map[cardseconds.Series]cardseconds.Milli { return nil }
	return l.meter.MonthlyUse(closed).Queues(queues...), l.isKnown
}

// newBilledView returns a view (LocalCardQuota) of queue chat in namespace a that was written, and its leader. The
// queue has used 2 cards for an hour since the given time.
func newBilledView(t *testing.T, at time.Time) (*fixture, *leader) {
	f := newFixture(t, writtenAtOnce, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"))
	bills := newLeader(at)
	bills.useCards("chat", 2, time.Hour)
	f.reconciler.bills = bills
	f.reconcileTimes(2) // creates the view, and writes it
	return f, bills
}

// view returns the card-hours of the view as this and last month, and how often it was written.
func (f *fixture) view() (cardHours, version string) {
	var view v1alpha1.LocalCardQuota
	check.NoError(f, f.Get(f.Context(), client.ObjectKey{Namespace: "a", Name: "chat"}, &view))
	hours := view.Status.CardHours
	if hours == nil {
		return "", view.ResourceVersion
	}
	return hours.ThisMonth.Month + ": " + hours.ThisMonth.Summary + ", " + hours.LastMonth.Month + ": " + hours.LastMonth.Summary, view.ResourceVersion
}

func (f *fixture) expectCardHours(when, want string) {
	got, _ := f.view()
	check.Equal(f, "card-hours "+when, want, got)
}

// blockWorkloads changes something else that the view shows: how many workloads are blocked.
func (f *fixture) blockWorkloads(workloads int) {
	f.reconciler.usage = counted{"chat": {Summary: waiting.Summary{BlockedTotal: workloads}}}
}

var november = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// TestCardHoursAreRefreshedOnceAnHour: card-hours grow every second, but a view (LocalCardQuota) shows new ones
// only when the shown ones are an hour old. A view that is written for another reason, here a blocked workload,
// then gets new ones at once. Without another reason a view is written after 60 to 90 minutes, since each has a
// delay of its own. Queue chat always uses 2 cards of model A: 2 card-hours each hour. "a/chat chat 0+1" is the view
// of queue chat in namespace a: no workload is blocked there, and 1 elsewhere.
func TestCardHoursAreRefreshedOnceAnHour(t *testing.T) {
	f, bills := newBilledView(t, november) // it was written after an hour of use
	f.expectCardHours("of a new view", "2026-11: 2 A, 2026-10: none")
	again := f.reconcileTimes(1)
	check.That(t, again >= time.Hour && again < 90*time.Minute, "the view is reconciled again after %s", again)

	// 59 minutes later the card-hours that the view shows are less than an hour old.
	bills.useCards("chat", 2, 59*time.Minute)
	_, before := f.view()
	f.reconcileTimes(1)
	_, after := f.view()
	check.Equal(t, "version without another change", before, after)
	f.blockWorkloads(1)
	f.reconcileTimes(1)
	check.Equal(t, "views", []string{"a/chat chat 0+1"}, f.views())
	f.expectCardHours("in a write after 59 minutes", "2026-11: 2 A, 2026-10: none")

	// One more minute, and they are an hour old.
	bills.useCards("chat", 2, time.Minute)
	f.blockWorkloads(2)
	f.reconcileTimes(1)
	f.expectCardHours("in a write after an hour", "2026-11: 4 A, 2026-10: none")

	bills.useCards("chat", 2, 2*time.Hour)
	f.reconcileTimes(1)
	f.expectCardHours("two hours later, without another change", "2026-11: 8 A, 2026-10: none")
}

// TestANewLeaderLosesNoCardHours: a new leader does not know the card-hours before it has loaded them. Until
// then a view (LocalCardQuota) keeps the card-hours of the last leader, here 2 hours of card A, also when it is
// written because a workload is blocked. It is reconciled again after unknownRetry (30 s). "a/chat chat 0+1" is the
// view of queue chat in namespace a: no workload is blocked there, and 1 elsewhere.
func TestANewLeaderLosesNoCardHours(t *testing.T) {
	f, bills := newBilledView(t, november)
	f.reconciler.bills = &leader{meter: &cardseconds.Meter{}, at: bills.at} // isKnown is false
	check.Equal(t, "delay of the next reconcile", unknownRetry, f.reconcileTimes(1))

	f.blockWorkloads(1)
	f.reconcileTimes(1)
	f.expectCardHours("of the last leader", "2026-11: 2 A, 2026-10: none")
	check.Equal(t, "views", []string{"a/chat chat 0+1"}, f.views())

	f.reconciler.bills = bills // the new leader has loaded them
	f.blockWorkloads(2)
	f.reconcileTimes(1)
	f.expectCardHours("once the new leader has loaded the same ones", "2026-11: 2 A, 2026-10: none")
}

// TestCardHoursFollowTheMonthAtOnce: at 23:50 on 30 November the view (LocalCardQuota) of queue chat has 2
// card-hours. It is reconciled again within a minute after the month ends. The queue then uses 6 cards for an
// hour: 10 minutes of November, 1 card-hour, and 50 minutes of December, 5.
func TestCardHoursFollowTheMonthAtOnce(t *testing.T) {
	f, bills := newBilledView(t, time.Date(2026, 11, 30, 22, 50, 0, 0, time.UTC)) // it was written after an hour of use
	again := f.reconcileTimes(1)
	check.That(t, again >= 10*time.Minute && again <= 11*time.Minute, "the view is reconciled again after %s", again)

	bills.useCards("chat", 6, time.Hour)
	f.reconcileTimes(1)
	f.expectCardHours("in the next month", "2026-12: 5 A, 2026-11: 3 A")
}

// TestAParentShowsTheCardHoursOfTheQueuesBelow: the usage of a queue includes that of the queues below it, and
// so do the card-hours in its view (LocalCardQuota). Queue chat-below is below chat and used 3 cards for an
// hour. Queue other, which used 9, is not below chat.
func TestAParentShowsTheCardHoursOfTheQueuesBelow(t *testing.T) {
	f := newFixture(t, writtenAtOnce, chatQuota(chatNamespaces), builder.Namespace("a", "team", "chat"))
	bills := newLeader(november)
	bills.useCards("chat-below", 3, time.Hour)
	bills.useCards("other", 9, time.Hour)
	f.reconciler.bills = bills
	f.reconcileTimes(2) // creates the view, and writes it
	f.expectCardHours("of the queue below", "2026-11: 3 A, 2026-10: none")
}
