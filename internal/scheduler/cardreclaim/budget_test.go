package cardreclaim

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// hall is a cluster of nodes with eight cards, each held by a training gang, beside
// jobs.
func hall(nodes int, text string, changes ...func(*corev1.Pod)) *world {
	w := tides(text, changes...)
	for i := range nodes {
		w.add(fmt.Sprintf("node n%02d A 8; tn%02d tra 8: n%02d*8 ran=%dh", i, i, i, 1+i%7))
	}
	return w
}

// ownPorts gives each pod another port of its node, so that no two are of a kind.
func ownPorts() func(*corev1.Pod) {
	next := int32(10000)
	return func(p *corev1.Pod) {
		hostPort(next)(p)
		next++
	}
}

// TestPodsOfManyKinds are placed portion by portion, and nothing is taken twice.
func TestPodsOfManyKinds(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ least, waits, goes, comes int }{
		"portion by portion":              {1, maxPodKinds + 10, 80, maxPodKinds + 10},
		"a gang of too many gets nothing": {maxPodKinds + 1, maxPodKinds + 1, 0, 0},
		"a gang of just as many gets all": {maxPodKinds, maxPodKinds, (maxPodKinds + 7) / 8 * 8, maxPodKinds},
	}) {
		w := hall(10, fmt.Sprintf("i inf %d: -*%d", tc.least, tc.waits), ownPorts()).run(t)
		goes, comes := len(w.In(api.Releasing)), len(w.In(api.Pipelined))
		check.That(t, goes == tc.goes && comes == tc.comes, "%d pods go, %d come, want %d and %d", goes, comes, tc.goes, tc.comes)
	}
}

// used is what went into the tenants of a session that did not suffice.
func (w *world) used() int {
	total := 0
	for _, effort := range w.action.fairOrder.work {
		total += effort
	}
	return total
}

// TestASessionIsBounded: whatever pods wait, no more goes into a session than it
// may take, beside the look that ends it; those who come later in the order have
// their turn in the next one.
func TestASessionIsBounded(t *testing.T) {
	const most = 5_000_000
	for t, kind := range check.Cases(t, map[string]func() func(*corev1.Pod){
		"ports": ownPorts,
		"tolerations": func() func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: p.Name, Operator: corev1.TolerationOpExists}}
			}
		},
		"terms": func() func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				labelled("i", "none")(p)
				terms := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				for len(*terms) < 100 {
					*terms = append(*terms, (*terms)[0])
				}
				hostPort(80)(p)
			}
		},
	}) {
		w := hall(20, "queue high PLENTY 90000 inference cpu=1000; evil high 1: -*150", kind()).add("i inf 3: -*3")
		w.begin()
		w.alone = true
		w.action.budget = budget{maxPerJob: most, maxPerSession: most}
		w.run(t)
		got := w.used()
		check.That(t, got >= most && got <= 2*most, "%d went into the session, want %d and a look more", got, most)
		check.Equal(t, "pods of the next queue have a node already: the session sufficed", 0, w.tasksOf("i", api.Pipelined))
		w.run(t)
		check.Equal(t, "pods of the next queue are promised nodes in its turn", 3, w.tasksOf("i", api.Pipelined))
	}
}

// TestJobBeginsWithFullBudget: a pod is not told that its search is too large because
// a job before it used up most of the session. It has its turn in the next one.
func TestJobBeginsWithFullBudget(t *testing.T) {
	const text = "queue high PLENTY 90000 inference cpu=1000; a high 3: -*3; b inf 1: -"
	first := hall(4, text).open()
	t.Cleanup(first.Close)
	policy, _ := cards.ReclaimPolicyFor(first.Ssn.UID)
	rs := newReclaimSession(first.Ssn, policy, first.action)
	rs.startJob(len(rs.nodes))
	rs.placeJob(first.Job("a"))

	w := hall(4, text)
	w.begin()
	w.alone = true
	w.action.budget = budget{maxPerJob: rs.totalWork() + 1, maxPerSession: rs.totalWork() + workPerTask}
	w.run(t)
	check.Equal(t, "pods of the first job are promised nodes", 3, w.tasksOf("a", api.Pipelined))
	check.Equal(t, "turns of the second job", 0, w.action.fairOrder.lastServed[w.Job("b").UID])
	w.run(t)
	check.Equal(t, "pods of the second job are promised a node in its turn", 1, w.tasksOf("b", api.Pipelined))
}

// tasksOf is how many pods of a job have a status.
func (w *world) tasksOf(name string, status api.TaskStatus) int {
	return len(w.Job(name).TaskStatusIndex[status])
}

// TestUnsolvableSetsAreRemembered: several kinds of pods that cannot be placed together are
// looked at once a session, not once for each job of the same kinds.
func TestUnsolvableSetsAreRemembered(t *testing.T) {
	w := tides("node n A 8; HALF; p tra 4: n*4 ran=24h protected").add("i inf 8: -*8; j inf 8: -*8", func(p *corev1.Pod) {
		hostPort(80 + int32(p.Name[2]-'0')/4)(p) // one node takes one of each
	}).open()
	t.Cleanup(w.Close)
	policy, _ := cards.ReclaimPolicyFor(w.Ssn.UID)
	rs := newReclaimSession(w.Ssn, policy, w.action)
	effort := func(name string) int {
		before := rs.work
		rs.startJob(len(rs.nodes))
		rs.placeJob(w.Job(name))
		return rs.work - before
	}
	first, second := effort("i"), effort("j")
	asking := 8 * workPerTask
	check.That(t, second < first && second == asking, "%d went into the first job and %d into the second, want %d", first, second, asking)
	w.expect(t, "", "")
	check.That(t, len(rs.unsolvableSets) == 1, "remembered are %d sets, want 1", len(rs.unsolvableSets))
}

// TestCutSearchIsNotRemembered: what there was no effort left for is asked
// again by the next job.
func TestCutSearchIsNotRemembered(t *testing.T) {
	w := hall(1, "i inf 2: -*2", ownPorts()).open()
	t.Cleanup(w.Close)
	policy, _ := cards.ReclaimPolicyFor(w.Ssn.UID)
	rs := newReclaimSession(w.Ssn, policy, w.action)
	rs.startJob(len(rs.nodes))
	job := w.Job("i")
	podSets, ok := rs.groupTasks(job, rs.missingTasks(job), true)
	check.Must(t, ok && len(podSets) == 2, "%d claims, want 2", len(podSets))
	full := rs.jobEnd
	rs.jobEnd = rs.work
	for _, all := range []bool{true, false} {
		rs.rememberUnsolvable(podSets, all)
		check.That(t, len(rs.unsolvable)+len(rs.unsolvableSets) == 0, "all %v: %v and %v are taken for hopeless", all, rs.unsolvable, rs.unsolvableSets)
		left := rs.dropUnsolvable(slices.Clone(podSets), all)
		check.That(t, len(left) == 0, "all %v: %d claims are tried without any effort left", all, len(left))
	}
	rs.jobEnd = full
	rs.placeJob(job)
	check.That(t, len(w.In(api.Pipelined)) == 2, "promised %v, want both", w.In(api.Pipelined))
}
