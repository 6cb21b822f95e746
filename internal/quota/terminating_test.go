package quota

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// oneCard is the charge of a pod with so many of a card.
func oneCard(queue string, name card.Name, count card.Count) *Charge {
	return &Charge{Queue: queue, Cards: []card.Amount{{Name: name, Count: count}}, MilliCPU: 1000}
}

func TestWhatEndsKeepsOthersOut(t *testing.T) {
	a := newQueueLedger(card.Quota{"A": 4, "B": 4})
	a.SetLimits("open", Limits{AnyCard: true, MilliCPU: Unlimited, Memory: Unlimited})
	a.Charge("running", oneCard("q", "A", 1))
	a.ChargeTerminating("all", oneCard("q", "A", 4), time.Hour)
	a.ChargeTerminating("other", oneCard("q", "B", 5), 30*time.Second)
	a.ChargeTerminating("theirs", oneCard("open", "A", 99), time.Hour)

	ended := func(name card.Name, total int64, others int, within time.Duration) *InsufficientQuota {
		return &InsufficientQuota{Kind: Terminating, Queue: "q", Names: []card.Name{name}, Requested: 1, Total: total, Limit: 4, OtherCards: others, GracePeriod: within}
	}

	asks := func(names ...card.Name) Request { return Request{Names: names, Count: 1} }
	for t, tc := range check.Cases(t, map[string]struct {
		queue string
		ask   Request
		want  *InsufficientQuota
	}{
		"as much as the quota ends":          {"q", asks("A"), nil},
		"more than the quota ends":           {"q", asks("B"), ended("B", 5, 0, 30*time.Second)},
		"an alternative":                     {"q", asks("B", "A"), nil},
		"an alternative without quota":       {"q", asks("C", "B"), ended("B", 5, 0, 30*time.Second)},
		"more than fits, nothing to do":      {"q", Request{Names: []card.Name{"B"}, Count: 5}, &InsufficientQuota{Kind: Cards, Queue: "q", Names: []card.Name{"B"}, Requested: 5, Total: 5, Limit: 4}},
		"no cards":                           {"q", Request{MilliCPU: 1}, nil},
		"a queue that may use any card":      {"open", asks("A"), nil},
		"what ends uses no CPU of the queue": {"q", Request{Names: []card.Name{"A"}, Count: 1, MilliCPU: 1}, nil},
	}) {
		check.Equal(t, "insufficient", tc.want, a.FitsAnyCard(tc.queue, tc.ask))
		fits := fitsOnSome(t, a, tc.queue, tc.ask)
		check.That(t, fits == (tc.want == nil) || len(tc.ask.Names) == 0, "fits on a card: %v, in all %+v", fits, tc.want)
	}

	check.That(t, !a.IsTerminatingOverQuota("q", "A") && a.IsTerminatingOverQuota("q", "B") && !a.IsTerminatingOverQuota("open", "A") && !a.IsTerminatingOverQuota("for no namespace", "A"),
		"the wrong queues are crowded")
}

// fitsOnSome runs the checks of single cards and nodes, which must agree.
func fitsOnSome(t *testing.T, a *Ledger, queue string, ask Request) (fits bool) {
	for _, name := range ask.Names {
		on := a.FitsCard(queue, name, ask.Count, false)
		near := a.FitsAfterRelease(queue, ask, name, Released{})
		check.That(t, (near == nil) == on, "fits on %s: %v, on its node %+v", name, on, near)
		fits = fits || on
	}
	return fits
}

// TestWhatWouldBeEvictedEnds: it gives its quota back, and is ending then.
func TestWhatWouldBeEvictedEnds(t *testing.T) {
	a := newQueueLedger(card.Quota{"A": 4})
	ask := Request{Names: []card.Name{"A"}, Count: 1}
	a.Charge("running", oneCard("q", "A", 4))
	a.ChargeTerminating("all", oneCard("q", "A", 4), time.Hour)

	var evicted, own Released
	evicted.Evicted = true
	evicted.Add(oneCard("q", "A", 1))
	own.Add(oneCard("q", "A", 1))
	got := a.FitsAfterRelease("q", ask, "A", own)
	check.That(t, got == nil, "a pod in its own place: %+v", got)

	got = a.FitsAfterRelease("q", ask, "A", evicted)
	check.That(t, got != nil && got.Kind == Terminating && got.Total == 5, "in the place of another one: %+v, want 5 ending", got)
	got = a.FitsAfterRelease("q", ask, "A", Released{})
	check.That(t, got != nil && got.Kind == Cards, "beside all: %+v, want insufficient cards", got)
	check.Equal(t, "more may end", 0, a.EvictionHeadroom("q", "A"))

	a.Release("all")
	more := a.EvictionHeadroom("q", "A")
	check.That(t, more == 4 && a.FitsAfterRelease("q", ask, "A", evicted) == nil, "%d more may end, want 4", more)
}

func TestHowLongItTakesIsForgottenWithTheLastPod(t *testing.T) {
	a := New(0)
	a.ChargeTerminating("long", oneCard("q", "A", 1), time.Hour)
	a.ChargeTerminating("short", oneCard("q", "A", 1), time.Second)
	a.Release("long")
	if count, within := a.Terminating("q", "A"); count != 1 || within != time.Hour {
		t.Errorf("%d end within %s, want 1 within at most an hour", count, within)
	}

	a.Release("short")
	a.ChargeTerminating("short", oneCard("q", "A", 1), time.Second)
	if count, within := a.Terminating("q", "A"); count != 1 || within != time.Second {
		t.Errorf("%d end within %s, want 1 within a second", count, within)
	}
}

// TestAQueueThatGoesAndComesBackStillEnds: deleting and making a queue again is
// no way around the bound either.
func TestAQueueThatGoesAndComesBackStillEnds(t *testing.T) {
	a := New(0)
	a.SetLimits("q", Limits{Cards: card.Quota{"A": 4}})
	a.ChargeTerminating("pod", oneCard("q", "A", 5), time.Hour)
	a.Retain(func(string) bool { return false })
	a.SetLimits("q", Limits{Cards: card.Quota{"A": 4}})
	check.That(t, a.IsTerminatingOverQuota("q", "A"), "the queue has forgotten what ends")
	a.Release("pod")
	a.Retain(func(string) bool { return false })
	check.That(t, len(a.queues) == 0, "the queue is remembered for nothing")
}

// lived is a pod, and whether it ends.
type lived struct {
	charge *Charge
	ends   bool
}

func recountEnding(pods map[string]*lived, queue string, name card.Name) (used, ends card.Count) {
	for _, p := range pods {
		switch held := p.charge.Cards[0]; {
		case p.charge.Queue != queue || held.Name != name:
		case p.ends:
			ends += held.Count
		default:
			used += held.Count
		}
	}
	return used, ends
}

// TestTerminatingEqualsARecountAndIsBounded runs random sequences: pods are placed when the
// checks accept them, terminate, are restored, end and return; quotas change only in size.
// Every number equals a recount, and no queue ever uses more than its quota, or more than
// twice its quota with what terminates.
func TestTerminatingEqualsARecountAndIsBounded(t *testing.T) {
	queues := []string{"q", "r"}
	names := []card.Name{"A", "B"}
	seed.Check(t, func(t *rapid.T) {
		a := New(0)
		pods := map[string]*lived{}

		quota := card.Count(rapid.IntRange(0, 6).Draw(t, "quota"))
		for _, queue := range queues {
			a.SetLimits(queue, Limits{Cards: card.Quota{"A": quota, "B": quota}, MilliCPU: Unlimited, Memory: Unlimited})
		}

		draw := func(t *rapid.T) string { return fmt.Sprint("pod-", rapid.IntRange(0, 9).Draw(t, "pod")) }
		within := func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second
		}

		t.Repeat(map[string]func(*rapid.T){
			"place": func(t *rapid.T) {
				name := draw(t)
				if pods[name] != nil {
					return
				}

				queue := rapid.SampledFrom(queues).Draw(t, "queue")
				on := rapid.SampledFrom(names).Draw(t, "card")
				count := card.Count(rapid.IntRange(0, 4).Draw(t, "count"))
				may := a.FitsCard(queue, on, count, false)
				short := a.FitsAfterRelease(queue, Request{Names: []card.Name{on}, Count: count}, on, Released{})
				check.Must(t, may == (short == nil), "two gates disagree: %v, %+v", may, short)

				if may {
					pods[name] = &lived{charge: oneCard(queue, on, count)}
					a.Charge(name, pods[name].charge)
				}
			},
			"end": func(t *rapid.T) {
				name := draw(t)
				if p := pods[name]; p != nil {
					p.ends = true
					a.ChargeTerminating(name, p.charge, within(t))
				}
			},
			"restore": func(t *rapid.T) { // an eviction that failed, before anything else was placed
				name := draw(t)
				if p := pods[name]; p != nil && p.ends && a.FitsCard(p.charge.Queue, p.charge.Cards[0].Name, p.charge.Cards[0].Count, false) {
					p.ends = false
					a.Charge(name, p.charge)
				}
			},
			"go": func(t *rapid.T) {
				name := draw(t)
				delete(pods, name)
				a.Release(name)
				a.Release(name)
			},
			"": func(t *rapid.T) {
				for _, queue := range queues {
					for _, name := range names {
						used, ends := recountEnding(pods, queue, name)
						ending, _ := a.Terminating(queue, name)
						check.Must(t, a.Used(queue, name) == used && ending == ends,
							"queue %s uses %d and ends %d of %s, a recount says %d and %d", queue, a.Used(queue, name), ending, name, used, ends)
						check.Must(t, used <= quota && used+ends <= 2*quota, "queue %s holds %d + %d of %s, its quota is %d", queue, used, ends, name, quota)
					}
				}
			},
		})
	})
}
