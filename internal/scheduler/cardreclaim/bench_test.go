package cardreclaim

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// timeAction runs the action in the open session, and returns how long that took.
func (s *scene) timeAction() time.Duration {
	began := time.Now()
	s.Run(s.reclaim())
	return time.Since(began)
}

// runTimed plays a session, and returns the time of the action and of the rest.
func (s *scene) runTimed() (action, rest time.Duration) {
	began := time.Now()
	s.openSession()
	s.Run(allocate.New())
	action = s.timeAction()
	s.Close()
	return action, time.Since(began) - action
}

func median(times []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

func sum(times []time.Duration) (sum time.Duration) {
	for _, t := range times {
		sum += t
	}
	return sum
}

// BenchmarkHopeless plays 12 sessions at 5,000 nodes full of training, with a hundred pending pods of different kinds
// that no eviction helps. It measures the first search, and all sessions. A search that failed is not repeated while
// nothing changes. So the action may take at most 5 % of the time of most sessions. Of all sessions after the first it
// may take 30 %, because some repeat the search. Pods that are "too large" request 9 cards, and a node has 8.
// "Crowded" ones request 40 cores, and inference pods keep 30 cores in use on each node, which only a search finds.
func BenchmarkHopeless(b *testing.B) {
	const (
		maxPartOfMost = 0.05
		maxPartOfAll  = 0.3
	)

	for name, cards := range map[string]int{"too-large": 9, "crowded": 8} {
		b.Run(name, func(b *testing.B) {
			s := newLargeScene(largeScene{nodes: 5000, podsOfGang: 8, priorities: 1, waiting: 0, kinds: 1})
			var text strings.Builder
			for i := range 5000 {
				fmt.Fprintf(&text, "job s%05d queue=high min=1 running=n%05d cards=0\n", i, i)
			}

			s.add(text.String(), requesting("cpu", "30"))
			s.add(fmt.Sprintf("job h queue=high min=1 pending=100 cards=%d", cards), withOwnToleration, requesting("cpu", "40"))
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // keeps the garbage of one case out of the next

			first, _ := s.runTimed()
			var actions, rests []time.Duration
			for n := range 11 {
				if n%4 == 0 {
					runtime.GC()
				}

				action, rest := s.runTimed()
				actions = append(actions, action)
				rests = append(rests, rest)
			}

			usual := median(actions)
			other := median(rests)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(first.Seconds()*1000, "first-ms")
			b.ReportMetric(usual.Seconds()*1000, "action-ms")
			b.ReportMetric(other.Seconds()*1000, "rest-ms")

			partOfMost := usual.Seconds() / (usual + other).Seconds()
			partOfAll := sum(actions).Seconds() / (sum(actions) + sum(rests)).Seconds()
			b.ReportMetric(partOfAll, "share")
			check.That(b, partOfMost <= maxPartOfMost, "the action takes %.2f of most sessions, at most %.2f is allowed", partOfMost, maxPartOfMost)
			check.That(b, partOfAll <= maxPartOfAll, "the action takes %.2f of all sessions, at most %.2f is allowed", partOfAll, maxPartOfAll)
		})
	}
}

// BenchmarkKinds reclaims cards at 4,992 nodes of 8 cards for a gang of 64 pods, each of which needs a whole node. Its
// pods are of one or several kinds, and the victims are gangs of 8 or 512 pods in queues of one or several priorities.
// The gang must get its cards, in at most 20 times the time of the first case: one kind, and one priority.
func BenchmarkKinds(b *testing.B) {
	const maxTimesFirst = 20

	var first time.Duration
	for _, tc := range []struct{ podsOfGang, priorities, kinds int }{
		{8, 1, 1}, {8, 1, 4}, {8, 1, 16}, {8, 1, 64}, {8, 8, 16}, {8, 32, 16}, {512, 1, 1}, {512, 1, 16}, {512, 8, 16},
	} {
		b.Run(fmt.Sprintf("%d-kinds/gangs-of-%d/%d-priorities", tc.kinds, tc.podsOfGang, tc.priorities), func(b *testing.B) {
			s := newLargeScene(largeScene{nodes: 4992, podsOfGang: tc.podsOfGang, priorities: tc.priorities, waiting: 64, kinds: tc.kinds}).openSession()
			defer s.Close()

			s.Run(allocate.New())
			took := s.timeAction()
			check.Equal(b, "placed pods", 64, len(s.In(api.Pipelined)))
			first = cmp.Or(first, took)
			times := took.Seconds() / first.Seconds()
			check.That(b, times <= maxTimesFirst, "%.1f times as long as one kind and one priority take, at most %d times is allowed", times, maxTimesFirst)

			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.Seconds()*1000, "action-ms")
			b.ReportMetric(times, "times-one-kind")
			b.ReportMetric(float64(len(s.In(api.Releasing))), "pods-evicted")
		})
	}
}
