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

// newCharge returns the charge of a pod with so many of a card and one CPU.
func newCharge(queue string, name card.Name, count card.Count) *Charge {
	return &Charge{Queue: queue, Cards: []card.Amount{{Name: name, Count: count}}, MilliCPU: 1000}
}

// TestTerminatingCardsAboveTheQuotaBlockTheCard: a deleted pod frees its quota at once, but uses its cards until it
// has ended. So a queue gets more of a card only while its terminating pods use at most the quota. Queue q has a
// quota of 4 A and 4 B. It uses 1 A; 4 A and 5 B are terminating. So it may use A, and no B.
func TestTerminatingCardsAboveTheQuotaBlockTheCard(t *testing.T) {
	l := newFlatLedger(map[string]Limits{
		"q":         {Cards: card.Quota{"A": 4, "B": 4}, MilliCPU: Unlimited, Memory: Unlimited},
		"unlimited": {AnyCard: true, MilliCPU: Unlimited, Memory: Unlimited},
	})
	l.Charge("running", newCharge("q", "A", 1))
	l.ChargeTerminating("with 4 A", newCharge("q", "A", 4), time.Hour)
	l.ChargeTerminating("with 5 B", newCharge("q", "B", 5), 30*time.Second)
	l.ChargeTerminating("of the unlimited queue", newCharge("unlimited", "A", 99), time.Hour)

	isTerminating := &InsufficientQuota{
		Kind: Terminating, Queue: "q", Names: []card.Name{"B"},
		Requested: 1, Total: 5, Limit: 4, GracePeriod: 30 * time.Second,
	}

	for t, tc := range check.Cases(t, map[string]struct {
		queue   string
		request Request
		want    *InsufficientQuota
	}{
		"A, of which 4 are terminating: fits":      {"q", Request{Names: []card.Name{"A"}, Count: 1}, nil},
		"A and CPU: terminating pods use no CPU":   {"q", Request{Names: []card.Name{"A"}, Count: 1, MilliCPU: 1}, nil},
		"B, of which 5 are terminating: refused":   {"q", Request{Names: []card.Name{"B"}, Count: 1}, isTerminating},
		"B or A: A fits":                           {"q", Request{Names: []card.Name{"B", "A"}, Count: 1}, nil},
		"C without quota or B: only B is reported": {"q", Request{Names: []card.Name{"C", "B"}, Count: 1}, isTerminating},
		"no cards: fits":                           {"q", Request{MilliCPU: 1}, nil},
		"A in a queue without limits: fits":        {"unlimited", Request{Names: []card.Name{"A"}, Count: 1}, nil},
		"5 B: above the quota, also without the terminating ones": {
			queue: "q", request: Request{Names: []card.Name{"B"}, Count: 5},
			want: &InsufficientQuota{Queue: "q", Names: []card.Name{"B"}, Requested: 5, Total: 5, Limit: 4},
		},
	}) {
		check.Equal(t, "insufficient", tc.want, firstOf(l.Check(tc.queue, tc.request, Within{})))
		fits := fitsOnSomeCard(t, l, tc.queue, tc.request)
		check.That(t, fits == (tc.want == nil) || len(tc.request.Names) == 0, "fits on a card: %v, in all %+v", fits, tc.want)
	}

	beforeReclaim := l.Check("q", Request{Names: []card.Name{"B"}, Count: 1}, Within{Bound: ReclaimableCards})
	check.Equal(t, "insufficient to reclaim B: reclaim ends no terminating pod", []InsufficientQuota{*isTerminating}, beforeReclaim)

	check.That(t, !isTerminatingOverQuota(l, "q", "A"), "the 4 terminating A are over the quota of 4")
	check.That(t, isTerminatingOverQuota(l, "q", "B"), "the 5 terminating B are not over the quota of 4")
	check.That(t, !isTerminatingOverQuota(l, "unlimited", "A"), "terminating cards are over the quota of a queue that has none")
	check.That(t, !isTerminatingOverQuota(l, "unknown", "A"), "terminating cards are over the quota of a queue without pods")
}

// isTerminatingOverQuota reports whether terminating pods use so many of a card that a queue gets no more of it,
// whatever the quotas have left.
func isTerminatingOverQuota(l *Ledger, queue string, name card.Name) bool {
	return !l.Fits(queue, Request{Names: []card.Name{name}, Count: card.MaxCount}, Within{Bound: TerminatingLeft})
}

// fitsOnSomeCard runs the checks of single cards and of nodes, which must agree.
func fitsOnSomeCard(t *testing.T, l *Ledger, queue string, request Request) (fits bool) {
	for _, name := range request.Names {
		fitsCard := l.Fits(queue, request.On(name).OnlyCards(), Within{})
		insufficient := l.Check(queue, request.On(name), Within{})
		check.That(t, (insufficient == nil) == fitsCard, "fits on %s: %v, on its node %+v", name, fitsCard, insufficient)
		fits = fits || fitsCard
	}
	return fits
}

// TestEvictedPodsCountAsTerminating: a pod that takes the place of an evicted one waits until that has ended. The evicted
// card counts as terminating at once, and 4 + 1 are more than the quota of 4 A. A placed pod that is checked again only
// gives up its own charge, so it fits. Pods use 4 A, and further 4 A are terminating, which is not yet too many.
func TestEvictedPodsCountAsTerminating(t *testing.T) {
	l := newQueueLedger(card.Quota{"A": 4})
	l.Charge("running", newCharge("q", "A", 4))
	l.ChargeTerminating("terminating", newCharge("q", "A", 4), time.Hour)

	ownPlace := Released{Cards: map[card.Name]card.Count{"A": 1}}
	evicted := Released{Cards: map[card.Name]card.Count{"A": 1}, Evicted: true}
	checkFits := func(what string, released Released, want *InsufficientQuota) {
		got := firstOf(l.Check("q", Request{Names: []card.Name{"A"}, Count: 1}, Within{Released: released}))
		check.That(t, sameLimit(got, want), "1 A %s: %+v, want %+v", what, got, want)
	}

	checkFits("in the place of its own charge", ownPlace, nil)
	checkFits("in the place of an evicted pod: 5 A would be terminating", evicted, &InsufficientQuota{Kind: Terminating, Requested: 1, Total: 5, Limit: 4})
	checkFits("beside all pods", Released{}, &InsufficientQuota{Requested: 1, Total: 5, Limit: 4})
	mayEvict := func(count card.Count) bool {
		released := Released{Cards: map[card.Name]card.Count{"A": count}, Evicted: true}
		return l.Fits("q", Request{Names: []card.Name{"A"}, Count: 1}, Within{Bound: TerminatingLeft, Released: released})
	}
	check.That(t, !mayEvict(1), "an A may be evicted beside 4 terminating ones")

	l.Release("terminating")
	checkFits("in the place of an evicted pod, when the others have ended", evicted, nil)
	check.That(t, mayEvict(4) && !mayEvict(5), "when the others have ended, not just 4 A may be evicted: 4: %v, 5: %v", mayEvict(4), mayEvict(5))
}

// TestLongestGracePeriodLastsUntilNoPodTerminates: a refusal says how long terminating pods use their cards at most.
// The ledger keeps the longest grace period, not that of each pod. So it stays an hour when only the pod of one
// second is left, and is forgotten with the last pod.
func TestLongestGracePeriodLastsUntilNoPodTerminates(t *testing.T) {
	type terminating struct {
		Count       card.Count
		GracePeriod time.Duration
	}
	l := New(0)
	checkTerminating := func(what string, want terminating) {
		count, gracePeriod := l.Terminating("q", "A")
		check.Equal(t, what, want, terminating{count, gracePeriod})
	}

	l.ChargeTerminating("an hour", newCharge("q", "A", 1), time.Hour)
	l.ChargeTerminating("a second", newCharge("q", "A", 1), time.Second)
	l.Release("an hour")
	checkTerminating("the pod of one second is left", terminating{1, time.Hour})

	l.Release("a second")
	l.ChargeTerminating("a second", newCharge("q", "A", 1), time.Second)
	checkTerminating("a pod of one second after all have ended", terminating{1, time.Second})
}

// TestDeletingAQueueDoesNotForgetItsTerminatingPods: otherwise a Queue that is deleted and created again could use
// more than twice its quota. 5 A are terminating, the quota is 4. The ledger forgets the queue when they have ended.
func TestDeletingAQueueDoesNotForgetItsTerminatingPods(t *testing.T) {
	l := newQueueLedger(card.Quota{"A": 4})
	l.ChargeTerminating("pod", newCharge("q", "A", 5), time.Hour)
	l.SetTree(Flat)
	l.ForgetUnused()
	l.SetTree(Flat.WithFlat(map[string]Limits{"q": {Cards: card.Quota{"A": 4}}}))
	check.That(t, isTerminatingOverQuota(l, "q", "A"), "the new queue q does not count the terminating pod of the old one")

	l.Release("pod")
	l.SetTree(Flat)
	l.ForgetUnused()
	check.Equal(t, "queues in the ledger", 0, len(l.queues))
}

// countedPod is a pod, and whether it is terminating.
type countedPod struct {
	charge        *Charge
	isTerminating bool
}

// recountCards adds up how many of a card the pods of a queue use, and how many its terminating pods use.
func recountCards(pods map[string]*countedPod, queue string, name card.Name) (used, terminating card.Count) {
	for _, p := range pods {
		switch amount := p.charge.Cards[0]; {
		case p.charge.Queue != queue || amount.Name != name:
		case p.isTerminating:
			terminating += amount.Count
		default:
			used += amount.Count
		}
	}
	return used, terminating
}

// TestQueueUsesAtMostTwiceItsQuota: a deleted pod frees its quota at once and its cards later, so a queue can use
// more cards than its quota. The check of terminating cards bounds that to twice the quota. Random pods are placed
// where the check accepts them, terminate, end, and go on running after a failed eviction. What the ledger counts as
// used and as terminating equals a recount. No queue uses more than its quota, and with its terminating pods no more
// than twice that.
func TestQueueUsesAtMostTwiceItsQuota(t *testing.T) {
	queues := []string{"q", "r"}
	names := []card.Name{"A", "B"}

	seed.Check(t, func(t *rapid.T) {
		pods := map[string]*countedPod{}
		quota := card.Count(rapid.IntRange(0, 6).Draw(t, "quota"))
		limits := Limits{Cards: card.Quota{"A": quota, "B": quota}, MilliCPU: Unlimited, Memory: Unlimited}
		l := newFlatLedger(map[string]Limits{"q": limits, "r": limits})
		drawPodName := func(t *rapid.T) string { return fmt.Sprint("pod-", rapid.IntRange(0, 9).Draw(t, "pod")) }

		t.Repeat(map[string]func(*rapid.T){
			"place": func(t *rapid.T) {
				pod := drawPodName(t)
				if pods[pod] != nil {
					return
				}

				queue := rapid.SampledFrom(queues).Draw(t, "queue")
				name := rapid.SampledFrom(names).Draw(t, "card")
				count := card.Count(rapid.IntRange(0, 4).Draw(t, "count"))

				if l.Fits(queue, Request{Names: []card.Name{name}, Count: count}, Within{}) {
					pods[pod] = &countedPod{charge: newCharge(queue, name, count)}
					l.Charge(pod, pods[pod].charge)
				}
			},
			"terminate": func(t *rapid.T) {
				name := drawPodName(t)
				if p := pods[name]; p != nil {
					p.isTerminating = true
					l.ChargeTerminating(name, p.charge, time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds"))*time.Second)
				}
			},
			"restore after a failed eviction": func(t *rapid.T) {
				name := drawPodName(t)
				p := pods[name]
				if p != nil && p.isTerminating && l.Fits(p.charge.Queue, Request{Names: []card.Name{p.charge.Cards[0].Name}, Count: p.charge.Cards[0].Count}, Within{}) {
					p.isTerminating = false
					l.Charge(name, p.charge)
				}
			},
			"end": func(t *rapid.T) {
				name := drawPodName(t)
				delete(pods, name)
				l.Release(name)
				l.Release(name) // events can repeat
			},
			"": func(t *rapid.T) { // after each step
				for _, queue := range queues {
					for _, name := range names {
						used, terminating := recountCards(pods, queue, name)
						gotTerminating, _ := l.Terminating(queue, name)
						check.Equal(t, "used and terminating "+string(name)+" of "+queue, [2]card.Count{used, terminating}, [2]card.Count{l.Used(queue, name), gotTerminating})
						check.Must(t, used <= quota && used+terminating <= 2*quota, "queue %s uses %d + %d of %s, its quota is %d", queue, used, terminating, name, quota)
					}
				}
			},
		})
	})
}
