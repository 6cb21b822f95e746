package capacitycard

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"

	"cardquota.dev/operator/internal/testing/check"
)

// side is one of the plugins that are compared, with what its sessions cost.
type side struct {
	open          func() framework.Plugin
	times         []time.Duration
	allocs, bytes []uint64
}

// round opens and closes one session.
func (s *side) round(ssn *framework.Session) {
	p := s.open()
	began := time.Now()
	s.measure(func() time.Duration { return time.Since(began) }, func() {
		p.OnSessionOpen(ssn)
		p.OnSessionClose(ssn)
	})
}

// measure records what a function costs, with its time on a clock.
func (s *side) measure(clock func() time.Duration, run func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := clock()
	run()
	s.times = append(s.times, clock()-began)
	runtime.ReadMemStats(&after)
	s.allocs = append(s.allocs, after.Mallocs-before.Mallocs)
	s.bytes = append(s.bytes, after.TotalAlloc-before.TotalAlloc)
}

func quantile[T time.Duration | uint64 | float64](values []T, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return float64(sorted[int(q*float64(len(sorted)-1))])
}

// reportQuantiles reports the median of values and how far they spread, all divided by a unit.
func reportQuantiles[T time.Duration | uint64 | float64](b *testing.B, name string, values []T, unit float64) {
	for suffix, q := range map[string]float64{"": .5, "-p10": .1, "-p90": .9} {
		b.ReportMetric(quantile(values, q)/unit, name+suffix)
	}
}

// What a session may cost at most, as a part of what Volcano's capacity costs.
const (
	mostTime   = 0.5
	mostAllocs = 0.25
)

// BenchmarkSession compares what opening and closing a session costs with this plugin and with Volcano's capacity, in
// turns on the same snapshot. It fails when an unchanged session costs more than half of capacity's time, or more than
// a quarter of its allocations.
func BenchmarkSession(b *testing.B) {
	for _, size := range []struct{ nodes, pods, queues int }{{1000, 10_000, 200}, {5000, 100_000, 1000}} {
		s := newFleet(b, size.nodes, size.pods, size.queues, 20)

		for _, state := range []struct {
			name      string
			before    func() // each session of this plugin
			isLimited bool
		}{
			{"unchanged", func() {}, true},                     // no pod is new to the scheduler
			{"churn", func() { renewEveryNth(s, 100) }, false}, // every hundredth pod is new
			{"relabel", func() { relabel(s.m) }, false},        // a node has other cards than before
			{"start", func() { s.m = NewCache() }, false},      // the first session of a process
		} {
			b.Run(fmt.Sprintf("%d-nodes/%d-pods/%d-queues/%s", size.nodes, size.pods, size.queues, state.name), func(b *testing.B) {
				s.m = NewCache()
				s.reopen().p.OnSessionClose(s.Ssn) // the first session of a process finds nothing remembered
				ours := &side{open: func() framework.Plugin { return buildPlugin(s.m, nil) }}
				theirs := &side{open: func() framework.Plugin { return capacity.New(nil) }}
				defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no run collects the garbage of the other

				for i := range max(b.N, 11) {
					if i%10 == 0 {
						runtime.GC()
					}
					theirs.round(s.Ssn)
					state.before()
					ours.round(s.Ssn)
				}
				compare(b, ours, theirs, state.isLimited)
			})
		}
	}
}

// renewEveryNth gives every nth pod of the session a new object.
func renewEveryNth(s *scene, nth int) {
	i := 0
	for _, job := range s.Ssn.Jobs {
		for _, task := range job.Tasks {
			i++
			if i%nth == 0 {
				task.Pod = task.Pod.DeepCopy()
			}
		}
	}
}

// relabel has one node lose its labels until the next session.
func relabel(m *Cache) {
	node := m.Nodes.Node("node-0").DeepCopy()
	node.Labels = nil
	m.Nodes.Update(node)
}

func compare(b *testing.B, ours, theirs *side, isLimited bool) {
	b.ReportMetric(0, "ns/op") // a round of both sides says nothing
	for name, s := range map[string]*side{"capacity-card": ours, "capacity": theirs} {
		reportQuantiles(b, name+"-ms", s.times, 1e6)
		b.ReportMetric(quantile(s.allocs, .5), name+"-allocs")
		b.ReportMetric(quantile(s.bytes, .5)/1024, name+"-KiB")
	}

	inTime := quantile(ours.times, .5) / quantile(theirs.times, .5)
	inAllocs := quantile(ours.allocs, .5) / quantile(theirs.allocs, .5)
	b.ReportMetric(inTime, "time-ratio")
	b.ReportMetric(inAllocs, "allocs-ratio")
	check.That(b, !isLimited || inTime <= mostTime, "a session costs %.2f of capacity's time, at most %.2f is allowed", inTime, mostTime)
	check.That(b, !isLimited || inAllocs <= mostAllocs,
		"a session has %.2f of capacity's allocations, at most %.2f is allowed", inAllocs, mostAllocs)
}

// BenchmarkGrowth shows with what the cost of a session grows: it should be the number of pods, and not that of nodes
// times queues.
func BenchmarkGrowth(b *testing.B) {
	cold := make([]byte, 128<<20)

	for _, size := range []struct{ nodes, pods, queues int }{
		{1000, 10_000, 200}, {1000, 20_000, 200}, {1000, 40_000, 200}, {1000, 80_000, 200}, // pods
		{4000, 20_000, 200}, {1000, 20_000, 800}, {4000, 20_000, 800}, // nodes and queues
	} {
		s := newFleet(b, size.nodes, size.pods, size.queues, 20)
		b.Run(fmt.Sprintf("%d-nodes/%d-pods/%d-queues", size.nodes, size.pods, size.queues), func(b *testing.B) {
			s.m = NewCache()
			ours := &side{open: func() framework.Plugin { return buildPlugin(s.m, nil) }}
			defer debug.SetGCPercent(debug.SetGCPercent(-1))

			runtime.GC()
			for range max(b.N, 11) + 1 {
				// Between two sessions others use the processor's caches; a
				// small cluster would look better than it is without this.
				for i := 0; i < len(cold); i += 64 {
					cold[i]++
				}
				ours.round(s.Ssn)
			}

			b.ReportMetric(0, "ns/op")
			b.ReportMetric(quantile(ours.times[1:], .5)/1e6, "ms")
			b.ReportMetric(quantile(ours.times[1:], .5)/float64(size.pods), "ns/pod")
			b.ReportMetric(quantile(ours.allocs[1:], .5), "session-allocs")
		})
	}
}
