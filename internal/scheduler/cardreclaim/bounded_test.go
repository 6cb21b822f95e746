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
		"portion by portion":              {1, mostKinds + 10, 80, mostKinds + 10},
		"a gang of too many gets nothing": {mostKinds + 1, mostKinds + 1, 0, 0},
		"a gang of just as many gets all": {mostKinds, mostKinds, (mostKinds + 7) / 8 * 8, mostKinds},
	}) {
		w := hall(10, fmt.Sprintf("i inf %d: -*%d", tc.least, tc.waits), ownPorts()).run(t)
		goes, comes := len(w.In(api.Releasing)), len(w.In(api.Pipelined))
		check.That(t, goes == tc.goes && comes == tc.comes, "%d pods go, %d come, want %d and %d", goes, comes, tc.goes, tc.comes)
	}
}

// used is what went into the tenants of a session that did not suffice.
func (w *world) used() int {
	total := 0
	for _, effort := range w.action.turns.used {
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
		w.action.limit = limit{forJob: most, forSession: most}
		w.run(t)
		got := w.used()
		check.That(t, got >= most && got <= 2*most, "%d went into the session, want %d and a look more", got, most)
		check.Equal(t, "pods of the next queue have a node already: the session sufficed", 0, w.tasksOf("i", api.Pipelined))
		w.run(t)
		check.Equal(t, "pods of the next queue are promised nodes in its turn", 3, w.tasksOf("i", api.Pipelined))
	}
}

// TestAJobBeginsWithAllThatItMayHave: a pod is not told that its search is too large because
// a job before it used up most of the session. It has its turn in the next one.
func TestAJobBeginsWithAllThatItMayHave(t *testing.T) {
	const text = "queue high PLENTY 90000 inference cpu=1000; a high 3: -*3; b inf 1: -"
	first := hall(4, text).open()
	t.Cleanup(first.Close)
	tide, _ := cards.Tide(first.Ssn.UID)
	wave := newWave(first.Ssn, tide, first.action)
	wave.begin(len(wave.list))
	wave.serve(first.Job("a"))

	w := hall(4, text)
	w.begin()
	w.alone = true
	w.action.limit = limit{forJob: wave.total() + 1, forSession: wave.total() + effortOfTask}
	w.run(t)
	check.Equal(t, "pods of the first job are promised nodes", 3, w.tasksOf("a", api.Pipelined))
	check.Equal(t, "turns of the second job", 0, w.action.turns.last[w.Job("b").UID])
	w.run(t)
	check.Equal(t, "pods of the second job are promised a node in its turn", 1, w.tasksOf("b", api.Pipelined))
}

// tasksOf is how many pods of a job have a status.
func (w *world) tasksOf(name string, status api.TaskStatus) int {
	return len(w.Job(name).TaskStatusIndex[status])
}

// TestHopelessSets: several kinds of pods that cannot be placed together are
// looked at once a session, not once for each job of the same kinds.
func TestHopelessSets(t *testing.T) {
	w := tides("node n A 8; HALF; p tra 4: n*4 ran=24h protected").add("i inf 8: -*8; j inf 8: -*8", func(p *corev1.Pod) {
		hostPort(80 + int32(p.Name[2]-'0')/4)(p) // one node takes one of each
	}).open()
	t.Cleanup(w.Close)
	tide, _ := cards.Tide(w.Ssn.UID)
	wave := newWave(w.Ssn, tide, w.action)
	effort := func(name string) int {
		before := wave.effort
		wave.begin(len(wave.list))
		wave.serve(w.Job(name))
		return wave.effort - before
	}
	first, second := effort("i"), effort("j")
	asking := 8 * effortOfTask
	check.That(t, second < first && second == asking, "%d went into the first job and %d into the second, want %d", first, second, asking)
	w.expect(t, "", "")
	check.That(t, len(wave.together) == 1, "remembered are %d sets, want 1", len(wave.together))
}

// TestAnUnfinishedSearchIsNotHopeless: what there was no effort left for is asked
// again by the next job.
func TestAnUnfinishedSearchIsNotHopeless(t *testing.T) {
	w := hall(1, "i inf 2: -*2", ownPorts()).open()
	t.Cleanup(w.Close)
	tide, _ := cards.Tide(w.Ssn.UID)
	wave := newWave(w.Ssn, tide, w.action)
	wave.begin(len(wave.list))
	job := w.Job("i")
	claims, ok := wave.claimsOf(job, wave.lacking(job), true)
	check.Must(t, ok && len(claims) == 2, "%d claims, want 2", len(claims))
	full := wave.end
	wave.end = wave.effort
	for _, all := range []bool{true, false} {
		wave.giveUp(claims, all)
		check.That(t, len(wave.hopeless)+len(wave.together) == 0, "all %v: %v and %v are taken for hopeless", all, wave.hopeless, wave.together)
		left := wave.hopeful(slices.Clone(claims), all)
		check.That(t, len(left) == 0, "all %v: %d claims are tried without any effort left", all, len(left))
	}
	wave.end = full
	wave.serve(job)
	check.That(t, len(w.In(api.Pipelined)) == 2, "promised %v, want both", w.In(api.Pipelined))
}
