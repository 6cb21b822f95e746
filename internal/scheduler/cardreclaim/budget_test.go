package cardreclaim

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// fullCluster is a cluster of nodes with eight cards, each used by a training gang, and other
// jobs.
func fullCluster(nodes int, text string, changes ...func(*corev1.Pod)) *scene {
	w := newScene(text, changes...)
	for i := range nodes {
		w.add(fmt.Sprintf("node n%02d model=A cards=8; job tn%02d queue=tra min=8 running=n%02d*8 age=%dh", i, i, i, 1+i%7))
	}
	return w
}

// withOwnHostPorts gives each pod another host port, so that no two are of one kind.
func withOwnHostPorts() func(*corev1.Pod) {
	next := int32(10000)
	return func(p *corev1.Pod) {
		hostPort(next)(p)
		next++
	}
}

// TestPodsOfManyKinds: such pods are placed portion by portion, and no pod is evicted twice.
func TestPodsOfManyKinds(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ least, waits, goes, comes int }{
		"portion by portion":              {1, maxPodKinds + 10, 80, maxPodKinds + 10},
		"a gang of too many gets nothing": {maxPodKinds + 1, maxPodKinds + 1, 0, 0},
		"a gang of just as many gets all": {maxPodKinds, maxPodKinds, (maxPodKinds + 7) / 8 * 8, maxPodKinds},
	}) {
		w := fullCluster(10, fmt.Sprintf("job i queue=inf min=%d pending=%d", tc.least, tc.waits), withOwnHostPorts()).runAction(t)
		check.Equal(t, "evicted pods", tc.goes, len(w.In(api.Releasing)))
		check.Equal(t, "pipelined pods", tc.comes, len(w.In(api.Pipelined)))
	}
}

// workOfNamespaces returns the work for all namespaces of a session that did not suffice.
func (w *scene) workOfNamespaces() int {
	total := 0
	for _, work := range w.action.fairOrder.work {
		total += work
	}
	return total
}

// TestASessionIsBounded: whatever pods wait, a session stays within its budget, except for the
// step that ends it. The next session serves the other jobs.
func TestASessionIsBounded(t *testing.T) {
	const most = 5_000_000
	for t, kind := range check.Cases(t, map[string]func() func(*corev1.Pod){
		"ports": withOwnHostPorts,
		"tolerations": func() func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: p.Name, Operator: corev1.TolerationOpExists}}
			}
		},
		"terms": func() func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				withLabelAndAntiAffinity("i", "none")(p)
				terms := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				for len(*terms) < 100 {
					*terms = append(*terms, (*terms)[0])
				}
				hostPort(80)(p)
			}
		},
	}) {
		w := fullCluster(20, "queue high quota=PLENTY priority=90000 serviceType=inference cpu=1000; job evil queue=high min=1 pending=150", kind()).add("job i queue=inf min=3 pending=3")
		w.startCache()
		w.alone = true
		w.action.budget = budget{maxPerJob: most, maxPerSession: most}
		w.runAction(t)

		got := w.workOfNamespaces()
		check.That(t, got >= most && got <= 2*most, "%d went into the session, want %d and a look more", got, most)
		check.Equal(t, "pods of the next queue have a node already: the session sufficed", 0, w.pipelinedTasks("i"))
		w.runAction(t)
		check.Equal(t, "pods of the next queue are pipelined in its turn", 3, w.pipelinedTasks("i"))
	}
}

// TestJobBeginsWithFullBudget: no event reports that a search is too large because a job
// before it used up most of the session. The next session serves the job.
func TestJobBeginsWithFullBudget(t *testing.T) {
	const text = "queue high quota=PLENTY priority=90000 serviceType=inference cpu=1000; job a queue=high min=3 pending=3; job b queue=inf min=1 pending=1"
	first := fullCluster(4, text)
	rs := first.search(t)
	rs.placeFirst(first.Job("a"))

	w := fullCluster(4, text)
	w.startCache()
	w.alone = true
	w.action.budget = budget{maxPerJob: rs.totalWork() + 1, maxPerSession: rs.totalWork() + workPerTask}
	w.runAction(t)
	check.Equal(t, "pods of the first job are pipelined", 3, w.pipelinedTasks("a"))
	check.Equal(t, "turns of the second job", 0, w.action.fairOrder.lastServed[w.Job("b").UID])

	w.runAction(t)
	check.Equal(t, "pods of the second job are pipelined in its turn", 1, w.pipelinedTasks("b"))
}

// pipelinedTasks returns how many pods of a job have a node that is not free yet.
func (w *scene) pipelinedTasks(name string) int {
	return len(w.Job(name).TaskStatusIndex[api.Pipelined])
}

// TestUnsolvableSetsAreRemembered: kinds of pods that cannot be placed together are tried once
// a session, not once for each job with the same kinds.
func TestUnsolvableSetsAreRemembered(t *testing.T) {
	w := newScene("node n model=A cards=8; HALF; job p queue=tra min=4 running=n*4 age=24h preemptable=false").add("job i queue=inf min=8 pending=8; job j queue=inf min=8 pending=8", func(p *corev1.Pod) {
		hostPort(80 + int32(p.Name[2]-'0')/4)(p) // a node accepts one of each
	})
	rs := w.search(t)
	work := func(name string) int {
		before := rs.work
		rs.placeFirst(w.Job(name))
		return rs.work - before
	}

	first := work("i")
	second := work("j")
	check.That(t, second < first && second == 8*workPerTask, "%d went into the first job and %d into the second, want %d", first, second, 8*workPerTask)

	w.expectEvictedAndPlaced(t, "", "")
	check.That(t, len(rs.unsolvableSets) == 1, "remembered are %d sets, want 1", len(rs.unsolvableSets))
}

// TestCutSearchIsNotRemembered: the next job repeats a search that ended at its budget.
func TestCutSearchIsNotRemembered(t *testing.T) {
	w := fullCluster(1, "job i queue=inf min=2 pending=2", withOwnHostPorts())
	rs := w.search(t)
	rs.startJob(len(rs.nodes))
	job := w.Job("i")
	podSets, ok := rs.groupTasks(job, rs.missingTasks(job), true)
	check.Must(t, ok && len(podSets) == 2, "%d pod sets, want 2", len(podSets))

	full := rs.jobEnd
	rs.jobEnd = rs.work
	for _, all := range []bool{true, false} {
		rs.rememberUnsolvable(podSets, all)
		check.That(t, len(rs.unsolvable)+len(rs.unsolvableSets) == 0, "all %v: %v and %v are remembered as unsolvable", all, rs.unsolvable, rs.unsolvableSets)
		check.Equal(t, fmt.Sprintf("all %v: pod sets that are tried without any budget left", all), 0, len(rs.dropUnsolvable(slices.Clone(podSets), all)))
	}

	rs.jobEnd = full
	rs.placeJob(job)
	check.That(t, len(w.In(api.Pipelined)) == 2, "pipelined %v, want both", w.In(api.Pipelined))
}
