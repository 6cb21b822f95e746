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

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/allocate"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// timeAction runs the action in the open session, and returns how long that took.
func (w *scene) timeAction() time.Duration {
	began := time.Now()
	w.Run(w.action)
	return time.Since(began)
}

// runTimed plays a session, and returns the time of the action and of the rest.
func (w *scene) runTimed() (action, rest time.Duration) {
	began := time.Now()
	w.openSession()
	w.Run(allocate.New())
	action = w.timeAction()
	w.Close()
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

// withOwnToleration gives each pod another toleration, so that no two are of one kind.
func withOwnToleration(job string) func(*corev1.Pod) {
	return onJob(job, func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: p.Name, Operator: corev1.TolerationOpExists}}
	})
}

// Bounds of the action's part of a session while no pod can be placed: for most sessions, and
// for all including those that repeat a search.
const (
	mostOfSession  = 0.05
	mostOfSessions = 0.3
)

// BenchmarkHopeless plays 12 sessions at 5,000 nodes full of training, with a hundred pending
// pods that no eviction helps. It measures the first search, and all sessions. It fails if the
// sessions after the first search for too long.
//
// "too large" pods request more cards than a node has. "crowded" ones request CPU that stays
// in use on each node, which only a search finds.
func BenchmarkHopeless(b *testing.B) {
	for name, cards := range map[string]int{"too-large": 9, "crowded": 8} {
		b.Run(name, func(b *testing.B) {
			w := scattered(5000, 0, 1)
			var text strings.Builder
			for i := range 5000 {
				fmt.Fprintf(&text, "job s%05d queue=high min=1 running=n%05d cards=0\n", i, i)
			}

			w.add(text.String(), requests("cpu", "30"))
			w.add(fmt.Sprintf("job h queue=high min=1 pending=100 cards=%d", cards), applyAll(withOwnToleration("h"), requests("cpu", "40")))
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // keeps the garbage of one case out of the next

			first, _ := w.runTimed()
			var actions, rests []time.Duration
			for n := range 11 {
				if n%4 == 0 {
					runtime.GC()
				}

				action, rest := w.runTimed()
				actions = append(actions, action)
				rests = append(rests, rest)
			}

			usual := median(actions)
			other := median(rests)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(first.Seconds()*1000, "first-ms")
			b.ReportMetric(usual.Seconds()*1000, "action-ms")
			b.ReportMetric(other.Seconds()*1000, "rest-ms")

			share := usual.Seconds() / (usual + other).Seconds()
			all := sum(actions).Seconds() / (sum(actions) + sum(rests)).Seconds()
			b.ReportMetric(all, "share")
			check.That(b, share <= mostOfSession && all <= mostOfSessions, "the action takes %.2f of most sessions and %.2f of all, at most %.2f and %.2f are allowed", share, all, mostOfSession, mostOfSessions)
		})
	}
}

// mostTimes is how many times as long a search may take as one for pods of one kind from jobs
// of one priority.
const mostTimes = 20

// BenchmarkKinds reclaims cards at 5,000 nodes for a gang of 64 pods of one or several kinds.
// The victims are gangs of 8 or 512 pods, of one or several priorities. It fails if the gang
// gets no cards, or if that takes too long compared with the first case.
func BenchmarkKinds(b *testing.B) {
	var one time.Duration
	for _, tc := range []struct{ gangs, ranks, kinds int }{
		{8, 1, 1}, {8, 1, 4}, {8, 1, 16}, {8, 1, 64}, {8, 8, 16}, {8, 32, 16}, {512, 1, 1}, {512, 1, 16}, {512, 8, 16},
	} {
		b.Run(fmt.Sprintf("%d-kinds/gangs-of-%d/%d-priorities", tc.kinds, tc.gangs, tc.ranks), func(b *testing.B) {
			w := rankedGangs(4992, tc.gangs, tc.ranks, 64, tc.kinds)
			w.openSession()
			w.Run(allocate.New())
			took := w.timeAction()
			check.Equal(b, "pipelined pods", 64, len(w.In(api.Pipelined)))
			one = cmp.Or(one, took)
			times := took.Seconds() / one.Seconds()
			check.That(b, times <= mostTimes, "%.1f times as long as pods of one kind and jobs of one priority take, at most %d times is allowed", times, mostTimes)

			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.Seconds()*1000, "action-ms")
			b.ReportMetric(times, "times-one-kind")
			b.ReportMetric(float64(len(w.In(api.Releasing))), "pods-go")
			w.Close()
		})
	}
}
