package cardseconds

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/seed"
)

var start = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

func seriesOf(queue string) Series {
	return Series{Tenant: "lab", Project: "llm", Queue: queue, Card: "NVIDIA-H200", ServiceType: "training"}
}

// TestSumsAreThoseOfEachSecond compares with a sum second by second, over restarts in between. A count
// that is too old says nothing.
func TestSumsAreThoseOfEachSecond(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		m, now, naive := &Meter{}, start, map[Series]float64{}
		counted := now
		inUse := map[Series]card.Count{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			for seconds := rapid.IntRange(0, 100).Draw(t, "seconds"); seconds > 0; seconds-- {
				now = now.Add(time.Second)
				for series, count := range inUse {
					if now.Sub(counted) <= maxCountAge {
						naive[series] += float64(count)
					}
				}
			}
			switch rapid.SampledFrom([]string{"count", "advance", "restart"}).Draw(t, "then") {
			case "count":
				inUse = map[Series]card.Count{}
				for _, queue := range []string{"a", "b"} {
					inUse[seriesOf(queue)] = card.Count(rapid.IntRange(0, 9).Draw(t, queue))
				}
				m.SetCounts(now, inUse)
				counted = now
			case "advance":
				m.Advance(now)
			case "restart": // what is in use is counted at once
				m.Advance(now)
				parts, left := m.Store(now)
				check.Equal(t, "sums without room", 0, left)
				m, counted = &Meter{}, now
				m.SetCounts(now, inUse)
				check.NoError(t, m.Load(parts))
			}
		}
		m.Advance(now)
		for series, want := range naive {
			got := m.Sums()[series]
			check.That(t, math.Abs(got-want) < 1, "%v has %v card-seconds, want %v", series, got, want)
		}
	})
}

func TestReplicaThatStoodStill(t *testing.T) {
	m := &Meter{}
	m.SetCounts(start, map[Series]card.Count{seriesOf("q"): 2})
	m.Advance(start.Add(time.Hour))
	check.Equal(t, "card-seconds after an hour of silence", 2*maxCountAge.Seconds(), m.Sums()[seriesOf("q")])
	m.Advance(start) // the clock was set back
	check.Equal(t, "card-seconds after the clock was set back", 2*maxCountAge.Seconds(), m.Sums()[seriesOf("q")])
}

// TestAnOldCountIsNotTakenAsTrue: a replica that stores its sums, and counts no more, knows nothing.
func TestAnOldCountIsNotTakenAsTrue(t *testing.T) {
	m := &Meter{}
	m.SetCounts(start, map[Series]card.Count{seriesOf("q"): 2})
	for at := range 120 {
		m.Advance(start.Add(time.Duration(at) * 30 * time.Second))
	}
	check.Equal(t, "card-seconds after an hour without a count", 2*maxCountAge.Seconds(), m.Sums()[seriesOf("q")])
	m.SetCounts(start.Add(time.Hour), map[Series]card.Count{seriesOf("q"): 2})
	m.Advance(start.Add(time.Hour + time.Minute))
	check.Equal(t, "card-seconds a minute after the next count", 2*(maxCountAge+time.Minute).Seconds(), m.Sums()[seriesOf("q")])
}

func TestLoadAddsToWhatWasSummedUpSinceTheStart(t *testing.T) {
	m := &Meter{}
	m.SetCounts(start, map[Series]card.Count{seriesOf("q"): 1})
	m.Advance(start.Add(time.Minute))
	parts, _ := m.Store(start.Add(time.Minute))
	check.NoError(t, m.Load(parts))
	check.Equal(t, "card-seconds", 120.0, m.Sums()[seriesOf("q")])
}

// TestNoSumFallsWithARestart: Prometheus takes a counter that falls for one that began at zero,
// and would bill everything again.
func TestNoSumFallsWithARestart(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		m := &Meter{}
		m.SetCounts(start, map[Series]card.Count{seriesOf("q"): card.Count(rapid.IntRange(1, 1000).Draw(t, "count"))})
		m.Advance(start.Add(time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "time"))))
		parts, _ := m.Store(start)
		again := &Meter{}
		check.NoError(t, again.Load(parts))
		check.Equal(t, "sums after a restart", m.Sums(), again.Sums())
	})
}

func TestUnreadableLinesAreReported(t *testing.T) {
	m := &Meter{}
	err := m.Load([Parts]string{3: "{\n" + `{"queue":"negative","cardSeconds":-1}` + "\n" + `{"queue":"q","tenant":"t","type":"none","card":"A","cardSeconds":5,"at":1763888400}` + "\n"})
	check.That(t, err != nil && strings.Contains(err.Error(), "part 3") && strings.Contains(err.Error(), "negative has -1"), "error %v", err)
	check.Equal(t, "what can be read", map[Series]float64{{Queue: "q", Tenant: "t", ServiceType: "none", Card: "A"}: 5}, m.Sums())
}

func TestIdleSumsAreForgotten(t *testing.T) {
	m := &Meter{}
	m.SetCounts(start, map[Series]card.Count{seriesOf("idle"): 1, seriesOf("busy"): 1})
	m.SetCounts(start.Add(time.Minute), map[Series]card.Count{seriesOf("busy"): 1})
	now := start
	for range 8 * 24 * 60 {
		now = now.Add(time.Minute)
		m.SetCounts(now, map[Series]card.Count{seriesOf("busy"): 1})
	}
	m.Store(now)
	sums := m.Sums()
	check.That(t, len(sums) == 1 && sums[seriesOf("busy")] > 0, "sums %v", sums)
}

// TestSumsStayInTheirPart: a writer that stops between two parts loses no sum.
func TestSumsStayInTheirPart(t *testing.T) {
	m, counts := &Meter{}, map[Series]card.Count{}
	for i := range 3 * maxPartSize / 150 {
		counts[seriesOf(fmt.Sprintf("queue-%05d", i))] = 1
	}
	m.SetCounts(start, counts)
	m.Advance(start.Add(time.Second))
	before, left := m.Store(start)
	check.Must(t, left == 0 && before[2] != "", "%d sums have no room, part 2 has %d bytes", left, len(before[2]))
	for i, part := range before {
		check.That(t, len(part) <= maxPartSize, "part %d has %d bytes", i, len(part))
	}
	counts[seriesOf("a-new-one")] = 1
	m.SetCounts(start.Add(2*time.Second), counts)
	m.Advance(start.Add(3 * time.Second))
	after, _ := m.Store(start)
	for i := range after {
		had, has := strings.Count(before[i], "\n"), strings.Count(after[i], "\n")
		check.That(t, has == had || has == had+1 && strings.Contains(after[i], "a-new-one"), "part %d has %d sums, had %d", i, has, had)
	}
}

// TestTenThousandQueuesHaveRoom: docs/metrics.md states how many sums there is room for.
func TestTenThousandQueuesHaveRoom(t *testing.T) {
	m, counts := &Meter{}, map[Series]card.Count{}
	for i := range 10000 {
		for _, name := range []string{"NVIDIA-H200", "NVIDIA-H800", "NVIDIA-GeForce-RTX-4090"} {
			counts[Series{Tenant: fmt.Sprintf("tenant-%04d", i/10), Project: "project", Queue: fmt.Sprintf("tenant-%04d-project-%d", i/10, i%10), Card: name, ServiceType: "inference"}] = 8
		}
	}
	m.SetCounts(start, counts)
	m.Advance(start.Add(time.Minute))
	_, left := m.Store(start)
	check.Equal(t, "sums without room", 0, left)
}

func TestSumsWithoutRoomAreCounted(t *testing.T) {
	m, counts := &Meter{}, map[Series]card.Count{}
	long := strings.Repeat("x", maxPartSize/2)
	for i := range 3 * Parts {
		counts[Series{Queue: fmt.Sprint(i), Tenant: long}] = 1
	}
	m.SetCounts(start, counts)
	m.Advance(start.Add(time.Second))
	_, left := m.Store(start)
	check.Equal(t, "sums without room", 2*Parts, left)
}
