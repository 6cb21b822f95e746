package cardreclaim

import (
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
)

// timed plays a session, and returns how long the action took and how long all the rest.
func (w *world) timed() (action, rest time.Duration) {
	began := time.Now()
	w.open()
	w.Run(allocate.New())
	before := time.Now()
	w.Run(w.action)
	action = time.Since(before)
	w.Close()
	return action, time.Since(began) - action
}

// tolerant gives each pod another toleration, so that no two are of a kind.
func tolerant(job string) func(*corev1.Pod) {
	return of(job, func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: p.Name, Operator: corev1.TolerationOpExists}}
	})
}

// What the action may take at most while all wait in vain, as a part of a session: of most
// of them, and of all together with those in which a search is repeated.
const (
	mostOfSession  = 0.05
	mostOfSessions = 0.3
)

// BenchmarkHopeless plays 12 sessions at 5,000 nodes full of training, in which a hundred
// pods wait for which nobody can make room: the first search, and what all take. It fails
// when the sessions after the first spend more of their time on searches than they may.
//
// "too large" pods ask for more cards than a node has, "crowded" ones for CPU that stays in
// use on each node: which of these is hopeless only a search finds.
func BenchmarkHopeless(b *testing.B) {
	for name, cards := range map[string]int{"too-large": 9, "crowded": 8} {
		b.Run(name, func(b *testing.B) {
			w := scattered(5000, 0, 1)
			var text strings.Builder
			for i := range 5000 {
				fmt.Fprintf(&text, "s%05d high 1: n%05d cards=0\n", i, i)
			}
			w.add(text.String(), requests("cpu", "30"))
			w.add(fmt.Sprintf("h high 1: -*100 cards=%d", cards), both(tolerant("h"), requests("cpu", "40")))
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody pays for the other's garbage
			first, _ := w.timed()
			var actions, rests []time.Duration
			var action, rest time.Duration
			const sessions = 11
			for n := range sessions {
				if n%4 == 0 {
					runtime.GC()
				}
				a, r := w.timed()
				action, rest = action+a, rest+r
				actions, rests = append(actions, a), append(rests, r)
			}
			slices.Sort(actions)
			slices.Sort(rests)
			usual, other := actions[sessions/2], rests[sessions/2]
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(first.Seconds()*1000, "first-ms")
			b.ReportMetric(usual.Seconds()*1000, "action-ms")
			b.ReportMetric(other.Seconds()*1000, "rest-ms")
			share, all := usual.Seconds()/(usual+other).Seconds(), action.Seconds()/(action+rest).Seconds()
			b.ReportMetric(all, "share")
			if share > mostOfSession || all > mostOfSessions {
				b.Errorf("the action takes %.2f of most sessions and %.2f of all, at most %.2f and %.2f are allowed", share, all, mostOfSession, mostOfSessions)
			}
		})
	}
}

// mostTimes is how many times as long a search may take as that for pods of one kind from
// jobs of one priority.
const mostTimes = 20

// BenchmarkKinds takes cards back at 5,000 nodes for a gang of 64 pods of one or several
// kinds, from gangs of training of 8 or 512 pods, of one or several priorities. It fails when
// the gang gets nothing, and when it takes too long beside the first of them.
func BenchmarkKinds(b *testing.B) {
	var one time.Duration
	for _, tc := range []struct{ gangs, ranks, kinds int }{
		{8, 1, 1}, {8, 1, 4}, {8, 1, 16}, {8, 1, 64}, {8, 8, 16}, {8, 32, 16}, {512, 1, 1}, {512, 1, 16}, {512, 8, 16},
	} {
		b.Run(fmt.Sprintf("%d-kinds/gangs-of-%d/%d-priorities", tc.kinds, tc.gangs, tc.ranks), func(b *testing.B) {
			w := rankedGangs(4992, tc.gangs, tc.ranks, 64, tc.kinds)
			w.open()
			w.Run(allocate.New())
			before := time.Now()
			w.Run(w.action)
			took := time.Since(before)
			if came := len(w.In(api.Pipelined)); came != 64 {
				b.Errorf("%d of 64 pods are promised a node", came)
			}
			if one == 0 {
				one = took
			}
			times := took.Seconds() / one.Seconds()
			if times > mostTimes {
				b.Errorf("%.1f times as long as pods of one kind and jobs of one priority take, at most %d times is allowed", times, mostTimes)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.Seconds()*1000, "action-ms")
			b.ReportMetric(times, "times-one-kind")
			b.ReportMetric(float64(len(w.In(api.Releasing))), "pods-go")
			w.Close()
		})
	}
}
