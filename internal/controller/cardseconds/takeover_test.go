package cardseconds

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestAReplicaThatNoLongerLeadsStoresNothing: a replica that stood still past its lease goes on while another one
// leads. Its store must fail: else 2 cards would count twice. The sum is 60 of the first leader and 2 × 20 seconds of
// the second one.
func TestAReplicaThatNoLongerLeadsStoresNothing(t *testing.T) {
	s := newScene(t)
	s.use(2)
	s.expectServedAfter(30*time.Second, "of the first leader", 60)
	first := s.k

	s.restartAfter(20 * time.Second)
	s.expectServed("of the second leader", 60)
	s.use(2)
	s.at = s.at.Add(10 * time.Second)
	check.That(t, first.storeSums(t.Context()) != nil, "the first leader stored its sums")

	s.expectServedAfter(10*time.Second, "of the second leader, which counted for 20 seconds", 100)
}

// TestGapWithoutALeaderIsCredited: the node of the leader is lost, and no replica counts for five minutes. Pods
// that still run then used their 2 cards all the time. So the new leader credits the gap once, also if it
// cannot load the sums at first.
func TestGapWithoutALeaderIsCredited(t *testing.T) {
	for t, loading := range check.Cases(t, map[string]error{
		"the sums are loaded at once": nil,
		"the API server is away":      errors.New("no API server"),
	}) {
		s := newScene(t)
		begun := s.at
		s.useSince(2, begun)
		s.expectServedAfter(30*time.Second, "of the first leader", 60)

		s.restartAfter(5 * time.Minute)
		s.store.fails = loading
		s.useSince(2, begun)
		s.at = s.at.Add(30 * time.Second)
		_ = s.k.storeSums(t.Context())

		s.store.fails = nil
		s.expectServedAfter(30*time.Second, "of the new leader", 2*(30+300+60)) // 2 cards: 30 s before the gap, 300 s in it, 60 s after it
		s.useSince(2, begun)
		s.expectServedAfter(30*time.Second, "of the new leader later", 2*(30+300+90))
	}
}

// TestACreditedSumIsServedAtZeroFirst: Prometheus counts no increase for the value with which a series begins. The
// pod got its card while no replica led, so the new leader credits a minute for a series that was never served. It
// serves 0 for two minutes, and then 60 + 120 seconds.
func TestACreditedSumIsServedAtZeroFirst(t *testing.T) {
	s := newScene(t)
	zeroTime = 2 * time.Minute
	// Queue a, of another tenant, uses a card: where nothing is stored, no gap is credited.
	s.k.setCounts(map[cardseconds.Series]card.Count{seriesA: 1}, noPodUsages, nil)
	s.storeAfter(30 * time.Second)
	s.at = s.at.Add(time.Minute)
	begun := s.at

	s.restartAfter(time.Minute)
	s.useSince(1, begun)
	check.NoError(t, s.k.storeSums(t.Context()))
	check.Equal(t, "stored with the credit of a minute", 60.0, s.stored())
	check.Equal(t, "served at first", 0.0, s.served(training))

	s.storeAfter(2 * time.Minute)
	check.Equal(t, "served after two minutes", 180.0, s.served(training))
}

// served returns what is served of a series, -1 for nothing.
func (s *scene) served(series cardseconds.Series) float64 {
	if total, isServed := s.k.counter.shown(s.at)[series]; isServed {
		return float64(total) / 1000
	}
	return -1
}

// TestASumThatFitsInNoPartIsLogged: each of the 16 parts has a largest size, and each of 17 sums has a tenant whose name
// is more than half of it. So one sum fits nowhere. All others are stored, such as the 30 seconds of series training,
// and the log says that 1 sum has no room.
func TestASumThatFitsInNoPartIsLogged(t *testing.T) {
	s := newScene(t)
	var logged []string
	s.k.log = funcr.New(func(_, text string) { logged = append(logged, text) }, funcr.Options{})

	counts := map[cardseconds.Series]card.Count{training: 1}
	long := strings.Repeat("x", 500<<10)
	for i := range cardseconds.Parts + 1 {
		counts[cardseconds.Series{Tenant: long, Queue: fmt.Sprint("z", i), Card: "A"}] = 1
	}

	s.k.setCounts(counts, noPodUsages, nil)
	s.storeAfter(30 * time.Second)

	check.Equal(t, "stored", 30.0, s.stored())
	check.Equal(t, "lines of the log", 1, len(logged))
	check.Contains(t, "log", strings.Join(logged, "\n"), "all others are stored", `"sumsWithoutRoom"=1`)
}

// report returns what a report reads.
func (s *scene) report() *cardseconds.Stored {
	stored := &cardseconds.Stored{}
	for i := range s.store.objects {
		o := &s.store.objects[i]
		if i < cardseconds.Parts {
			check.NoError(s.T, stored.AddRunning(i, o.text))
		}

		for text, packed := range o.entries {
			key, isEntry := cardseconds.ParseEntryKey(text)
			check.That(s.T, isEntry, "%s is no entry", text)
			stored.AddEntry(key, packed)
		}
	}

	return stored
}

// stored returns the stored sum of series training in seconds.
func (s *scene) stored() float64 {
	for i := range cardseconds.Parts {
		for _, row := range check.Value(cardseconds.ParseRunning(s.store.objects[i].text))(s.T).Rows {
			if row.Series == training {
				return float64(row.Total) / 1000
			}
		}
	}
	return 0
}

// leaders is what a naive count knows of leaders that follow each other while one card is in use.
type leaders struct {
	// isCredited reports whether the pod states since when it uses the card: for the whole test.
	isCredited bool
	// stored and summed are what is stored, and what the leader has summed up. Each has the time until
	// which it was counted.
	stored, summed         int
	storedUntil, sumsUntil time.Time
	// countedAt is the last count, advanced until when it was summed up.
	countedAt, advanced time.Time
}

// advance sums up. One count is taken as true for two minutes.
func (l *leaders) advance(now time.Time) {
	if last := l.countedAt.Add(2 * time.Minute); now.After(last) {
		now = last
	}
	if now.After(l.advanced) {
		l.summed += int(now.Sub(l.advanced).Seconds())
		l.advanced = now
		l.sumsUntil = now
	}
}

// takeOver begins with what is stored, and with a count.
func (l *leaders) takeOver(now time.Time) {
	l.summed = l.stored
	l.sumsUntil = l.storedUntil
	l.countedAt = now
	l.advanced = now
	if l.isCredited && now.After(l.storedUntil) {
		l.summed += int(now.Sub(l.storedUntil).Seconds())
		l.sumsUntil = now
	}
}

// TestStoredSumsAreThoseOfThePresentLeader: leaders of one card in use follow each other in random steps, and
// earlier ones wake up and try to store. In the end the stored sum is the naive count of the present leader,
// and no earlier leader that wakes up changes it. A new leader credits the time since the last store if the pod
// states since when it uses the card. Else that time is lost. A count is taken as true for two minutes.
// Nothing counts twice.
func TestStoredSumsAreThoseOfThePresentLeader(t *testing.T) {
	seed.Check(t, func(r *rapid.T) {
		s := newScene(t)
		naive := leaders{isCredited: rapid.Bool().Draw(r, "credited"), countedAt: s.at, advanced: s.at, storedUntil: s.at, sumsUntil: s.at}
		if naive.isCredited {
			s.usages = []cardseconds.PodUsage{{Series: training, Count: 1, Since: s.at}}
		}

		s.use(1)
		check.NoError(t, s.k.storeSums(t.Context()))
		var frozen []*Keeper
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			s.at = s.at.Add(time.Duration(rapid.IntRange(0, 40).Draw(r, "seconds")) * time.Second)
			switch rapid.SampledFrom([]string{"store", "count", "take over", "wake up"}).Draw(r, "then") {
			case "store":
				check.NoError(t, s.k.storeSums(t.Context()))
				naive.advance(s.at)
				naive.stored = naive.summed
				naive.storedUntil = naive.sumsUntil
			case "count":
				s.use(1)
				naive.advance(s.at)
				naive.countedAt = s.at
				naive.advanced = s.at
			case "take over":
				frozen = append(frozen, s.k)
				s.restart()
				check.NoError(t, s.k.storeSums(t.Context())) // loads the stored sums, and has none of its own
				s.use(1)
				naive.takeOver(s.at)
			case "wake up": // and store once, before it learns that it does not lead
				before := s.stored()
				for _, k := range frozen {
					_ = k.storeSums(t.Context()) // it may have nothing to write
				}
				check.Equal(t, "what is stored after frozen leaders went on", before, s.stored())
				frozen = nil
			}
		}

		check.That(r, math.Abs(s.stored()-float64(naive.stored)) < 1, "%v card-seconds are stored, want %d", s.stored(), naive.stored)
	})
}

// TestAWriteWithALostAnswerCountsOnce: the API server stores the sum, but its answer is lost. The leader serves the
// last sum of which it knows, and finds its own write at the next store: 3 × 30 seconds in all.
func TestAWriteWithALostAnswerCountsOnce(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.expectServedAfter(30*time.Second, "at first", 30)

	s.store.losesAnswers = true
	s.expectServedAfter(30*time.Second, "while answers are lost", 30)
	s.store.losesAnswers = false
	s.expectServedAfter(30*time.Second, "afterwards", 90)
}

// TestADeletedPartIsWrittenAgain: a user deletes the ConfigMaps. The next store fails and finds them missing.
// The store after it writes the sums that the leader still has: 3 × 30 seconds of one card.
func TestADeletedPartIsWrittenAgain(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.expectServedAfter(30*time.Second, "at first", 30)

	clear(s.store.objects[:])
	s.expectServedAfter(30*time.Second, "right after the deletion", 30)
	s.expectServedAfter(30*time.Second, "half a minute later", 90)
}

// TestAReplicaThatLeadsAgainGoesOnWithWhatIsStored: the second replica led for a moment and gave up. The first
// replica finds by a conflict that the sums belong to the second one. It loads them, and counts from then on.
// The minute before that is lost.
func TestAReplicaThatLeadsAgainGoesOnWithWhatIsStored(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.expectServedAfter(30*time.Second, "of the first replica", 30)
	first := s.k

	s.restart()
	s.expectServed("of the second replica", 30)
	s.k = first
	for range 2 { // a conflict, then it reads who wrote
		s.expectServedAfter(30*time.Second, "while the second replica has them", 30)
	}

	s.expectServedAfter(30*time.Second, "of the first replica again", 60)
}
