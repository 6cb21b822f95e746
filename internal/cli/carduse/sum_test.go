package carduse

import (
	"context"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/cardseconds"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/fakeprometheus"
	"cardquota.dev/operator/internal/testing/seed"
)

var start = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

// samples is a Source of a fake Prometheus.
type samples struct{ fakeprometheus.Prometheus }

func (s *samples) values(query string, at time.Time) (Values, error) {
	results, err := s.Evaluate(query, at)
	values := Values{}
	for _, r := range results {
		l := r.Labels
		values[cardseconds.Series{Tenant: l["tenant"], Project: l["project"], Queue: l["queue"], Card: l["card"], ServiceType: l["service_type"]}] = int64(math.Round(r.Value * 1000))
	}
	return values, err
}

func (s *samples) Largest(_ context.Context, start, end time.Time, step, before time.Duration) ([]Values, error) {
	var all []Values
	for at := start; !at.After(end); at = at.Add(step) {
		values, err := s.values(LargestQuery(nil, before), at)
		if err != nil {
			return nil, err
		}
		all = append(all, values)
	}
	return all, nil
}

func (s *samples) Smallest(_ context.Context, at time.Time, before time.Duration) (Values, error) {
	return s.values(SmallestQuery(nil, before), at)
}

func (s *samples) Exporters(_ context.Context, start, end time.Time, step time.Duration) ([]Exporter, error) {
	byLabels := map[string]*Exporter{}
	for at := start; !at.After(end); at = at.Add(step) {
		results, err := s.Evaluate(ExportersQuery(nil), at)
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			key := fmt.Sprint(r.Labels)
			if byLabels[key] == nil {
				byLabels[key] = &Exporter{Labels: r.Labels}
			}
			byLabels[key].At = append(byLabels[key].At, at)
		}
	}
	var all []Exporter
	for _, exporter := range byLabels {
		all = append(all, *exporter)
	}
	return all, nil
}

// player plays an operator that counts, is restarted, drops idle sums and loses its ConfigMaps, and
// a Prometheus that misses scrapes. Beside it adds up the use, which never falls.
type player struct {
	t   *rapid.T
	now time.Time
	// inUse are the cards in use, sums the operator's counter, grewAt when each grew.
	inUse  map[string]int
	sums   map[string]float64
	grewAt map[string]time.Time
	// naive is all use, and scraped what of it Prometheus has seen. history has scraped by time.
	naive, scraped map[string]float64
	history        []scrape
	pod            int
	isDown         bool
	// lastScraped are the last values that Prometheus has of each sum.
	lastScraped map[string]float64
	// resets counts sums that began at zero again. lost has their last scraped values until they are as
	// large again, and unseen what no sample can show: a sum that more than doubled, to half of its last value
	// or beyond it, from one hour with samples to the next. A restored ConfigMap would look alike.
	resets int
	lost   map[string]lostSum
	unseen float64
	samples
}

type scrape struct {
	at  time.Time
	use map[string]float64
	// isEmpty reports whether the counter had no series.
	isEmpty bool
}

type lostSum struct {
	// value bounds what growth may be hidden by, and smallest is the smallest value that may hide it.
	value, smallest float64
	// again are the sums that were scraped since.
	again []scrapedSum
}

type scrapedSum struct {
	at  time.Time
	sum float64
}

const tick = 10 * time.Minute

func newPlayer(t *rapid.T) *player {
	return &player{t: t, now: start, inUse: map[string]int{}, sums: map[string]float64{}, grewAt: map[string]time.Time{}, naive: map[string]float64{}, scraped: map[string]float64{}, lastScraped: map[string]float64{}, lost: map[string]lostSum{},
		samples: samples{fakeprometheus.Prometheus{Metric: Counter}}}
}

// tick lets ten minutes pass. The leader counts, and Prometheus scrapes unless it is away.
func (p *player) tick(isScraped bool) {
	p.now = p.now.Add(tick)
	if p.isDown {
		return
	}
	for queue, cards := range p.inUse {
		if cards > 0 {
			seconds := float64(cards) * tick.Seconds()
			p.sums[queue] += seconds
			p.naive[queue] += seconds
			p.grewAt[queue] = p.now
		}
	}
	for queue, at := range p.grewAt {
		if p.now.Sub(at) > 7*24*time.Hour {
			p.drop(queue)
		}
	}
	if !isScraped {
		return
	}
	for queue, sum := range p.sums {
		series := p.seriesOf(queue)
		series.Samples = append(series.Samples, fakeprometheus.Sample{At: p.now, Value: sum})
		p.watchLost(queue, sum)
		p.lastScraped[queue] = sum
	}
	p.scraped = maps.Clone(p.naive)
	p.history = append(p.history, scrape{p.now, p.scraped, len(p.sums) == 0})
}

// drop loses a sum, and what of it no scrape has seen.
func (p *player) drop(queue string) {
	last := p.lastScraped[queue]
	lost := lostSum{value: last, smallest: last}
	if earlier, ok := p.lost[queue]; ok {
		lost = lostSum{value: last + earlier.value, smallest: min(last, earlier.smallest)}
	}
	p.lost[queue] = lost
	delete(p.sums, queue)
	delete(p.grewAt, queue)
	p.naive[queue] = p.scraped[queue]
	p.resets++
}

func (p *player) watchLost(queue string, sum float64) {
	lost, ok := p.lost[queue]
	if !ok {
		return
	}
	p.lost[queue] = lostSum{lost.value, lost.smallest, append(lost.again, scrapedSum{p.now, sum})}
	earlier := 0.0 // what the report may have seen an hour before
	for _, s := range lost.again {
		if p.now.Sub(s.at) > step {
			earlier = s.sum
		}
	}
	switch {
	case sum >= lost.smallest/2 && sum >= 2*earlier:
		p.unseen += lost.value
		delete(p.lost, queue)
	case sum >= lost.value && earlier >= lost.value:
		delete(p.lost, queue)
	}
}

func (p *player) seriesOf(queue string) *fakeprometheus.Series {
	labels := map[string]string{"tenant": "lab", "queue": queue, "card": "NVIDIA-H200", "service_type": "training", "pod": fmt.Sprint("manager-", p.pod)}
	for _, series := range p.Series {
		if maps.Equal(series.Labels, labels) {
			return series
		}
	}
	series := &fakeprometheus.Series{Labels: labels}
	p.Series = append(p.Series, series)
	return series
}

// play plays some days.
func (p *player) play(days int) {
	for range days * 4 {
		for _, queue := range []string{"a", "b", "c"} {
			if rapid.IntRange(0, 3).Draw(p.t, "change "+queue) == 0 {
				p.inUse[queue] = rapid.IntRange(0, 8).Draw(p.t, queue)
			}
		}
		isScraped := true
		switch rapid.IntRange(0, 24).Draw(p.t, "event") {
		case 0:
			p.pod++ // another replica leads
		case 1:
			p.isDown = true // none leads
		case 2, 3:
			isScraped = false
		case 4:
			for queue := range p.sums {
				p.drop(queue) // the ConfigMaps are deleted
			}
			p.pod++
		case 5:
			p.inUse = map[string]int{} // all is idle for more than seven days
			for range 8 * 24 * 6 {
				p.tick(true)
			}
		}
		for range 36 {
			p.tick(isScraped)
		}
		p.isDown = false
	}
}

// useAt returns what the last scrape up to an instant has seen.
func (p *player) useAt(at time.Time) map[string]float64 {
	var use map[string]float64
	for _, s := range p.history {
		if !s.at.After(at) {
			use = s.use
		}
	}
	return use
}

// firstUse returns what the first scrape with a series has seen after an instant.
func (p *player) firstUse(after time.Time) map[string]float64 {
	for _, s := range p.history {
		if s.at.After(after) && !s.isEmpty {
			return s.use
		}
	}
	return nil
}

// sum returns the report by queue, and whether it begins with the first sample.
func (p *player) sum(from, to time.Time) (map[string]float64, bool) {
	use, err := Sum(context.Background(), p, Window{from, to})
	check.NoError(p.t, err)
	byQueue := map[string]float64{}
	for series, milli := range use.CardSeconds {
		byQueue[series.Queue] = float64(milli) / 1000
	}
	return byQueue, !use.FirstSample.IsZero()
}

// TestSumIsTheUseThatScrapesSaw compares with the naive sum of all use, over restarts, changes of the
// leader, gaps of Prometheus, sums that were dropped and lost ConfigMaps.
func TestSumIsTheUseThatScrapesSaw(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		p := newPlayer(t)
		p.inUse["a"] = 1
		p.tick(true) // Prometheus knows the counter from its begin
		p.play(rapid.IntRange(1, 6).Draw(t, "days"))
		instant := func(name string, after time.Time) time.Time {
			return after.Add(time.Duration(rapid.IntRange(1, int(p.now.Sub(after)/time.Minute)).Draw(t, name)) * time.Minute)
		}
		from := instant("from", start.Add(tick))
		if !from.Before(p.now) {
			return
		}
		to := instant("to", from)
		between := from.Add(to.Sub(from) / 2).Truncate(time.Second)
		got, isFirst := p.sum(from, to)
		before, _ := p.sum(from, between)
		after, _ := p.sum(between, to)
		began, ended := p.useAt(from), p.useAt(to)
		if isFirst { // seven days without a sample: what was used before is unknown, and the report says so
			began = p.firstUse(from)
		}
		// After a reset, the larger value before it hides growth until its hour is over. It counts
		// then, for the next report if this one ends before.
		hidden := float64(p.resets) * 8 * (2 * step).Seconds()
		for queue, all := range ended {
			want := all - began[queue]
			check.That(t, got[queue] <= want+hidden && got[queue] >= want-hidden-p.unseen, "queue %s used %v, the report says %v; %d resets", queue, want, got[queue], p.resets)
			if p.resets == 0 {
				check.Equal(t, "both halves of "+queue, got[queue], before[queue]+after[queue])
			}
		}
	})
}
