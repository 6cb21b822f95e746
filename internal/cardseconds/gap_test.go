package cardseconds

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

// TestGapIsCreditedSecondBySecond compares with a sum second by second over a gap without a leader. Of the
// pods that end in it, only what was counted before counts.
func TestGapIsCreditedSecondBySecond(t *testing.T) {
	type pod struct {
		count       card.Count
		begun, gone int // seconds
	}
	seed.Check(t, func(t *rapid.T) {
		stored := rapid.IntRange(1, 100).Draw(t, "stored")
		begun := stored + rapid.IntRange(0, 7200).Draw(t, "gap")
		var pods []pod
		for range rapid.IntRange(1, 5).Draw(t, "pods") {
			from := rapid.IntRange(0, begun+20).Draw(t, "begun")
			pods = append(pods, pod{card.Count(rapid.IntRange(1, 8).Draw(t, "count")), from, from + rapid.IntRange(1, 9000).Draw(t, "time")})
		}
		at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
		inUse := func(second int) (count card.Count) {
			for _, p := range pods {
				if p.begun <= second && second < p.gone {
					count += p.count
				}
			}
			return count
		}
		m := &Meter{}
		m.SetCounts(at(0), map[Series]card.Count{seriesOf("q"): inUse(0), seriesOf("always"): 1})
		naive := 0.0
		for second := range begun {
			if second < stored {
				naive += float64(inUse(second))
				m.SetCounts(at(second+1), map[Series]card.Count{seriesOf("q"): inUse(second + 1), seriesOf("always"): 1})
				continue
			}
			for _, p := range pods {
				if p.begun <= second && begun < p.gone {
					naive += float64(p.count)
				}
			}
		}
		parts, _ := m.Store(at(stored))
		next := &Meter{}
		var holdings []Holding
		for _, p := range pods {
			if p.begun <= begun && begun < p.gone {
				holdings = append(holdings, Holding{seriesOf("q"), p.count, at(p.begun)})
			}
		}
		load, count := func() { check.NoError(t, next.Load(parts)) }, func() { next.SetCounts(at(begun), map[Series]card.Count{seriesOf("q"): inUse(begun)}) }
		if rapid.Bool().Draw(t, "counted before loaded") {
			count()
			load()
		} else {
			load()
			count()
		}
		next.CreditGap(holdings)
		check.That(t, math.Abs(next.Sums()[seriesOf("q")]-naive) < 1, "%v card-seconds, want %v", next.Sums()[seriesOf("q")], naive)
	})
}

// TestGapIsBounded: after a first installation nothing is credited, and after a long time a day.
func TestGapIsBounded(t *testing.T) {
	held := []Holding{{seriesOf("q"), 2, start.Add(-1000 * time.Hour)}}
	m := &Meter{}
	m.SetCounts(start, nil)
	check.Equal(t, "series that begin with a first installation", 0, len(m.CreditGap(held)))
	check.Equal(t, "sums of a first installation", map[Series]float64{}, m.Sums())

	check.NoError(t, m.Load([Parts]string{`{"queue":"other","tenant":"t","type":"none","card":"A","cardSeconds":5,"at":1}` + "\n"}))
	check.Equal(t, "series that begin after a long time", map[Series]bool{seriesOf("q"): true}, m.CreditGap(held))
	check.Equal(t, "card-seconds after a long time", 2*maxGap.Seconds(), m.Sums()[seriesOf("q")])

	m.DropSums(start.Add(time.Hour))
	check.Equal(t, "series that begin without what another replica stored", 0, len(m.CreditGap(held)))
}

// TestNoSecondCountsTwice: the time of a stored sum is in whole seconds.
func TestNoSecondCountsTwice(t *testing.T) {
	m := &Meter{}
	m.SetCounts(start, map[Series]card.Count{seriesOf("q"): 1})
	stored := start.Add(29900 * time.Millisecond)
	m.Advance(stored)
	parts, _ := m.Store(stored)
	next := &Meter{}
	check.NoError(t, next.Load(parts))
	next.SetCounts(start.Add(time.Minute), map[Series]card.Count{seriesOf("q"): 1})
	check.Equal(t, "series that begin", 0, len(next.CreditGap([]Holding{{seriesOf("q"), 1, start}})))
	check.Equal(t, "card-seconds of a minute", 59.9, next.Sums()[seriesOf("q")])
}
