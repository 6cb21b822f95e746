package cardreclaim

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// newSceneWithFullNodes returns a scene with nodes of 8 cards, each used by a training gang of 8 pods, and other jobs.
func newSceneWithFullNodes(nodes int, text string, changes ...podChange) *scene {
	s := newInferenceAndTrainingScene(text, changes...)
	for i := range nodes {
		s.add(fmt.Sprintf(`
			node n%02[1]d model=A cards=8
			job tn%02[1]d queue=training min=8 running=n%02[1]d*8 age=%[2]dh`, i, 1+i%7))
	}
	return s
}

// TestPodsOfManyKindsArePlacedInPortions: pods of one kind have the same needs. Here each pod has another host port, so
// each is a kind of its own, which makes the search expensive. The action places pods of at most 64 kinds (maxPodKinds)
// together. A gang of more kinds gets nothing. 10 nodes have 8 cards each, used by gangs of 8 pods.
func TestPodsOfManyKindsArePlacedInPortions(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ minimum, pods, wantEvicted, wantPlaced int }{
		"74 pods of minimum one: all get a card, and 10 gangs are evicted": {1, maxPodKinds + 10, 80, maxPodKinds + 10},
		"a gang of 65 pods: none":                                    {maxPodKinds + 1, maxPodKinds + 1, 0, 0},
		"a gang of 64 pods: all get a card, and 8 gangs are evicted": {maxPodKinds, maxPodKinds, 64, maxPodKinds},
	}) {
		s := newSceneWithFullNodes(10, fmt.Sprintf("job i queue=inference min=%d pending=%d", tc.minimum, tc.pods), withOwnHostPorts()).runSession(t)
		check.Equal(t, "number of evicted pods", tc.wantEvicted, len(s.In(api.Releasing)))
		check.Equal(t, "pods of i that get a card", tc.wantPlaced, s.countPlaced("i"))
	}
}

// TestASessionStaysWithinItsBudget: no pod is scheduled during a search, so a tenant must not be able to make
// a session long. 20 nodes of 8 cards are full of training. The 150 pods of job evil are all of different
// kinds, or have many terms of anti-affinity, so that their search is expensive. It ends when the session's
// budget, here 5 million units of work, is used up. Its last step may exceed that, so the test allows 10
// million. Queue high has the highest priority, so evil comes first. A session after that begins with the
// queue that has had the least work. So job i of queue inference has its turn in the second session.
func TestASessionStaysWithinItsBudget(t *testing.T) {
	const most = 5_000_000
	manyTerms := func(p *corev1.Pod) {
		applyAll(withLabel("i"), avoiding("none"), withHostPort(80))(p)
		terms := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*terms = slices.Repeat(*terms, 100)
	}

	for t, change := range check.Cases(t, map[string]podChange{
		"each pod has another host port":          withOwnHostPorts(),
		"each pod has another toleration":         withOwnToleration,
		"each pod has 100 terms of anti-affinity": manyTerms,
	}) {
		s := newSceneWithFullNodes(20, `
			queue high quota=1000 priority=90000 serviceType=inference cpu=1000
			job evil queue=high min=1 pending=150`, change).add("job i queue=inference min=3 pending=3")
		s.startCache()
		s.withoutAllocate = true // no card is free, so it would place no pod
		s.search.budget = budget{maxPerJob: most, maxPerSession: most}

		s.runSession(t)
		work := 0
		for _, ofNamespace := range s.search.fairOrder.work {
			work += ofNamespace
		}
		check.That(t, work >= most && work <= 2*most, "the session did %d units of work, want %d and at most as much again", work, most)
		check.Equal(t, "pods of i that get a card in the first session", 0, s.countPlaced("i"))

		s.runSession(t)
		check.Equal(t, "pods of i that get a card in the second session", 3, s.countPlaced("i"))
	}
}

// TestAJobBeginsWithItsFullBudget: no job begins if the session has less left than the budget of a job. Otherwise the
// search for this job might be cut short although it is not too large. The next session serves the job. The test first
// measures the work of the first job. The budget of a job is that work and one unit more, the budget of the session
// twice that work. So after the first job, one unit is missing for the second one. 4 nodes are full of training.
func TestAJobBeginsWithItsFullBudget(t *testing.T) {
	const jobs = `
		queue high quota=1000 priority=90000 serviceType=inference cpu=1000
		job first queue=high min=3 pending=3
		job second queue=inference min=1 pending=1
	`
	measured := newSceneWithFullNodes(4, jobs)
	rs := measured.openSearch(t)
	rs.placeWithFullBudget(measured.Job("first"))

	s := newSceneWithFullNodes(4, jobs)
	s.startCache()
	s.withoutAllocate = true // no card is free, so it would place no pod
	s.search.budget = budget{maxPerJob: rs.totalWork() + 1, maxPerSession: 2 * rs.totalWork()}
	s.runSession(t)
	check.Equal(t, "pods of the first job that get a card", 3, s.countPlaced("first"))
	check.Equal(t, "pods of the second job that get a card in the first session", 0, s.countPlaced("second"))

	s.runSession(t)
	check.Equal(t, "pods of the second job that get a card", 1, s.countPlaced("second"))
}

// TestKindsThatCannotBePlacedTogetherAreTriedOnce: each of the gangs i and j has 4 pods with host port 80, and 4 with
// port 81. So each gang has two kinds of pods. A node accepts one pod of each port, and there is one node, so no eviction
// helps. Job t uses half of its cards, job protected the other half. The search for i finds that no eviction helps, and
// the session remembers this set of two kinds. For the equal gang j the session does not search again: it only looks at
// the needs of the 8 pods.
func TestKindsThatCannotBePlacedTogetherAreTriedOnce(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=8
		job t queue=training min=4 running=n*4 age=24h
		job protected queue=training min=4 running=n*4 age=24h preemptable=false`)
	// The pods 0 to 3 of each gang get port 80, the pods 4 to 7 port 81.
	s.add(`
		job i queue=inference min=8 pending=8
		job j queue=inference min=8 pending=8`, func(p *corev1.Pod) { withHostPort(80 + int32(p.Name[2]-'0')/4)(p) })
	rs := s.openSearch(t)
	rs.placeWithFullBudget(s.Job("i"))
	first := rs.work
	rs.placeWithFullBudget(s.Job("j"))
	second := rs.work - first

	check.That(t, second < first, "the search spent %d units of work on the first job and %d on the second", first, second)
	check.Equal(t, "work for the second job", 8*workPerTask, second)
	check.Equal(t, "remembered sets of kinds", 1, len(rs.unsolved.unsolvableSets))
	s.expectEvictedAndPlaced(t, "", "")
}

// TestASearchThatWasCutShortIsNotRemembered: a search that ended at its budget does not prove that no eviction
// helps. So the session does not remember that, neither for a kind of pods nor for several kinds together.
// Without a budget it searches for no pod. With the full budget it places both pods of the gang later, on the
// only node, which is full of training. The two pods have different host ports, so they are two kinds, each in a
// pod set of its own.
func TestASearchThatWasCutShortIsNotRemembered(t *testing.T) {
	s := newSceneWithFullNodes(1, "job i queue=inference min=2 pending=2", withOwnHostPorts())
	rs := s.openSearch(t)
	rs.startJob(len(rs.nodes))
	job := s.Job("i")
	podSets, ok := rs.finder.groupTasks(job, rs.missingTasks(job), true) // true: all pods or none
	check.Must(t, ok && len(podSets) == 2, "%d pod sets, want 2", len(podSets))

	endOfFullBudget := rs.jobEnd
	rs.jobEnd = rs.work // no budget is left
	for t, isGang := range check.Cases(t, map[string]bool{"all pods or none": true, "as many pods as possible": false}) {
		rs.unsolved.rememberUnsolvable(podSets, isGang)
		check.Equal(t, "remembered kinds and sets of kinds", 0, len(rs.unsolved.unsolvable)+len(rs.unsolved.unsolvableSets))
		check.Equal(t, "pod sets that are searched without any budget", 0, len(rs.unsolved.dropUnsolvable(slices.Clone(podSets), isGang)))
	}

	rs.jobEnd = endOfFullBudget
	rs.placeJob(job)
	check.Equal(t, "pods of i that get a card", 2, s.countPlaced("i"))
}
