package cardreclaim

import (
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// Bounds of the CPU time that preempt may take of a session with 500 nodes and 400 jobs that no
// eviction helps. Without a memory of hopeless pods it took 7 s of every session.
const (
	maxHopelessSearch = 6 * time.Second
	maxUsualPreempt   = 150 * time.Millisecond
)

// BenchmarkHopelessPreemptors plays 12 sessions of preempt at 500 full nodes, with 400 pending
// jobs of one pod. It fails if the first or most of the others take too long.
//
// In "nothing-lower" no pod of the queue has a lower priority. In "protected" nearly all have
// one and may not be evicted, and in "kinds" no two pending pods are of one kind.
func BenchmarkHopelessPreemptors(b *testing.B) {
	for _, name := range []string{"nothing-lower", "protected", "kinds"} {
		b.Run(name, func(b *testing.B) {
			w := hopeless(500, 400)
			switch name {
			case "nothing-lower":
				for _, group := range w.Groups {
					group.Spec.PriorityClassName = "high"
				}
			case "kinds":
				for _, pod := range w.Pods {
					if pod.Spec.NodeName == "" {
						withOwnToleration(pod.Annotations["scheduling.k8s.io/group-name"])(pod)
					}
				}
			}

			w.startCache()
			defer w.Close()

			w.action.WithClock(time.Now) // it rests after a long search
			preempt := NewPreempt(w.action)
			var actions, rests []time.Duration
			for range 12 {
				action, rest := w.runTimedPreempt(b, preempt)
				actions = append(actions, action)
				rests = append(rests, rest)
			}

			check.Equal(b, "pods that are evicted in vain", 0, len(w.In(api.Releasing)))
			first := actions[0]
			usual := median(actions)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(first.Seconds()*1000, "first-ms")
			b.ReportMetric(usual.Seconds()*1000, "action-ms")
			b.ReportMetric(median(rests).Seconds()*1000, "rest-ms")
			check.That(b, first <= maxHopelessSearch && usual <= maxUsualPreempt, "preempt takes %v of CPU time in the first session and %v in most, at most %v and %v are allowed", first, usual, maxHopelessSearch, maxUsualPreempt)
		})
	}
}

// runTimedPreempt plays a session, and returns the CPU time of preempt and of the rest.
func (w *scene) runTimedPreempt(b *testing.B, action *Preempt) (took, rest time.Duration) {
	began := check.ProcessorTime(b)
	w.openSession().Run(NewAllocate(w.action))
	before := check.ProcessorTime(b)
	w.Run(action)
	took = check.ProcessorTime(b) - before
	return took, before - began
}
