package cardseconds

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestTwoLeaders: a replica that stood still past its lease goes on while another one leads.
func TestTwoLeaders(t *testing.T) {
	s := newScene(t)
	s.use(2)
	s.at = s.at.Add(30 * time.Second)
	s.expectServed("of the first leader", 60)
	first := s.k
	s.at = s.at.Add(20 * time.Second)
	s.restart()
	s.expectServed("of the second leader", 60)
	s.use(2)
	s.at = s.at.Add(10 * time.Second)
	check.That(t, first.storeSums(t.Context()) != nil, "the first leader stored its sums")
	s.at = s.at.Add(10 * time.Second)
	s.expectServed("of the second leader, which counted for 20 s", 100)
}

// stored returns the stored sum.
func (s *scene) stored() float64 {
	m, texts := cardseconds.Meter{}, [cardseconds.Parts]string{}
	for i := range texts {
		texts[i] = s.store.parts[i].text
	}
	check.NoError(s.T, m.Load(texts))
	return m.Sums()[training]
}

// TestFrozenLeaderStoresNothing: whatever earlier leaders do, what is stored are the sums of the
// present one. It loses what the last leader had not stored, and counts nothing twice.
func TestFrozenLeaderStoresNothing(t *testing.T) {
	seed.Check(t, func(r *rapid.T) {
		s := newScene(t)
		s.use(1)
		check.NoError(t, s.k.storeSums(t.Context()))
		naive, unstored, uncounted := 0, 0, 0
		advance := func() {
			unstored, uncounted = unstored+min(uncounted, 120), 0 // one count is taken as true for two minutes
		}
		var frozen []*Keeper
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			seconds := rapid.IntRange(0, 40).Draw(r, "seconds")
			s.at, uncounted = s.at.Add(time.Duration(seconds)*time.Second), uncounted+seconds
			switch rapid.SampledFrom([]string{"store", "count", "take over", "wake up"}).Draw(r, "then") {
			case "store":
				check.NoError(t, s.k.storeSums(t.Context()))
				advance()
				naive, unstored = naive+unstored, 0
			case "count":
				s.use(1)
				advance()
			case "take over":
				frozen = append(frozen, s.k)
				s.restart()
				check.NoError(t, s.k.storeSums(t.Context()))
				s.use(1)
				unstored, uncounted = 0, 0
			case "wake up": // and store once, before it learns that it does not lead
				before := s.stored()
				for _, k := range frozen {
					_ = k.storeSums(t.Context()) // it may have nothing to write
				}
				check.Equal(t, "what is stored after frozen leaders went on", before, s.stored())
				frozen = nil
			}
		}
		check.That(t, math.Abs(s.stored()-float64(naive)) < 1, "%v card-seconds are stored, want %d", s.stored(), naive)
	})
}

func TestLostAnswerOfAWrite(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.at = s.at.Add(30 * time.Second)
	s.expectServed("at first", 30)
	s.at = s.at.Add(30 * time.Second)
	s.store.losesAnswers = true
	s.expectServed("while answers are lost", 30)
	s.store.losesAnswers = false
	s.at = s.at.Add(30 * time.Second)
	s.expectServed("afterwards", 90)
}

func TestDeletedPartIsWrittenAgain(t *testing.T) {
	s := newScene(t)
	s.use(card.Count(1))
	s.at = s.at.Add(30 * time.Second)
	s.expectServed("at first", 30)
	s.store.parts = [cardseconds.Parts]part{}
	s.at = s.at.Add(30 * time.Second)
	s.expectServed("right after the deletion", 30)
	s.at = s.at.Add(30 * time.Second)
	s.expectServed("half a minute later", 90)
}

// TestLeaderOnceMore: a replica that gave up and still leads goes on with what is stored.
func TestLeaderOnceMore(t *testing.T) {
	s := newScene(t)
	s.use(1)
	s.at = s.at.Add(30 * time.Second)
	s.expectServed("of the first replica", 30)
	first := s.k
	s.restart()
	s.expectServed("of the second replica", 30)
	s.k = first
	for range 2 { // a conflict, then it reads who wrote
		s.at = s.at.Add(30 * time.Second)
		s.expectServed("while the second replica has them", 30)
	}
	s.at = s.at.Add(30 * time.Second)
	s.expectServed("of the first replica again", 60)
}
