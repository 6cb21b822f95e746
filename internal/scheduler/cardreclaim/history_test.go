package cardreclaim

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

// sessionsWithFailedSearch plays sessions, and lists those with a search that found nothing.
func (s *scene) sessionsWithFailedSearch(t *testing.T, sessions int) []int {
	var found []int
	for n := range sessions {
		s.runSession(t)
		for _, failed := range s.search.searches.failed {
			if failed.session == s.search.searches.session {
				found = append(found, n)
			}
		}
	}
	return found
}

// updatePods updates the pods of a job.
func (s *scene) updatePods(job string, change podChange) {
	for _, pod := range s.podsOf(job) {
		s.Update(pod.Name, change)
	}
}

// updateNode updates the first node in Volcano's cache.
func (s *scene) updateNode(t *testing.T, change nodeChange) {
	node := s.Nodes[0].DeepCopy()
	change(node)
	check.NoError(t, s.Cache.AddOrUpdateNode(node))
}

// updateGroup updates the first PodGroup in Volcano's cache.
func (s *scene) updateGroup(change func(*v1beta1.PodGroup)) {
	group := s.Groups[0].DeepCopy()
	group.ResourceVersion += "1"
	change(group)
	s.Cache.UpdatePodGroupV1beta1(s.Groups[0], group)
}

// TestAFailedSearchIsRepeatedLessAndLessOften: no eviction helps the jobs i and j, because the only pods that could be
// evicted are protected. A search is expensive. While nothing changes, each job's search is repeated after 1 skipped
// session, then after 2, 4, 8 and 16. The list has each session with a search, for both jobs: 0, 2, 5, 10, 19 and 36.
func TestAFailedSearchIsRepeatedLessAndLessOften(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		job protected queue=training min=4 running=n*4 age=24h preemptable=false
		job i queue=inference min=1 pending=1
		job j queue=inference min=2 pending=2`)

	check.Equal(t, "sessions with a search", []int{0, 0, 2, 2, 5, 5, 10, 10, 19, 19, 36, 36}, s.sessionsWithFailedSearch(t, 40))
}

// TestAChangeOfOtherCardsRepeatsNoSearch: job i requests card A, whose pods are protected. One pod with card B ends
// after each session. That does not help the job, so it searches only in the sessions 0, 2, 5, 10 and 19.
func TestAChangeOfOtherCardsRepeatsNoSearch(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		node m model=B cards=30
		job protected queue=training min=4 running=n*4 age=24h preemptable=false
		job b queue=inference min=1 running=m*20 card=B age=1h
		job i queue=inference min=1 pending=1`)

	searches := 0
	for n := range 20 {
		searches += len(s.sessionsWithFailedSearch(t, 1))
		s.Close()
		s.Cache.DeletePod(s.Pod(fmt.Sprintf("b-%d", n)).DeepCopy())
	}
	check.Equal(t, "searches in 20 sessions", 5, searches)
}

// TestAFailedSearchIsRepeatedAfterAChangeThatHelps: the pod of job i waits, and four sessions evict no pod
// for it. Without a change the sessions would search ever more rarely: the first, the third and the sixth,
// but not the fifth. Then one thing changes that makes an eviction possible or needless. So the fifth session
// repeats the search, and the pod gets its card. "t*4" are the pods t-0 to t-3, "i@n*3" are i-0 to i-2 on
// node n.
func TestAFailedSearchIsRepeatedAfterAChangeThatHelps(t *testing.T) {
	const protectedPods = `
		node n model=A cards=4
		job t queue=training min=4 running=n*4 age=24h preemptable=false
		job i queue=inference min=1 pending=1`
	const gang = `
		node n model=A cards=4
		job t queue=training min=4 running=n*4 age=24h
		job i queue=inference min=1 pending=1`

	for t, tc := range check.Cases(t, map[string]struct {
		scene                   string
		podChange               podChange
		change                  func(s *scene)
		wantEvicted, wantPlaced string
	}{
		"a protected pod ends, so its card is free": {scene: protectedPods,
			change: func(s *scene) { s.Cache.DeletePod(s.Pod("t-3")) }, wantPlaced: "i-0@n"},
		"the pods are not protected any more": {scene: protectedPods,
			change: func(s *scene) {
				s.updatePods("t", func(p *corev1.Pod) { delete(p.Annotations, "volcano.sh/preemptable") })
			}, wantEvicted: "t*4", wantPlaced: "i-0@n"},
		"a new node has 4 free cards": {scene: protectedPods,
			change: func(s *scene) { check.NoError(t, s.Cache.AddOrUpdateNode(session.Node("new", "A", 4))) }, wantPlaced: "i-0@new"},
		"the PodGroup is not protected any more": {scene: `
				node n model=A cards=4
				job t queue=training min=4 running=n*4 age=24h groupPreemptable=false
				job i queue=inference min=1 pending=1`,
			change: func(s *scene) {
				s.updateGroup(func(g *v1beta1.PodGroup) { delete(g.Annotations, "volcano.sh/preemptable") })
			}, wantEvicted: "t*4", wantPlaced: "i-0@n"},
		"a pod of 5 cards waits, and the node grows from 4 cards to 8": {scene: `
				node n model=A cards=4
				job t queue=training min=4 running=n*4 age=24h
				job i queue=inference min=1 pending=1 cards=5`,
			change: func(s *scene) {
				s.updateNode(t, func(n *corev1.Node) {
					n.Labels["nvidia.com/gpu.count"] = "8"
					n.Status.Allocatable[gpu] = amount("8")
				})
			}, wantEvicted: "t*4", wantPlaced: "i-0@n"},
		"the node gets the label that the pod selects": {scene: gang,
			podChange: onJob("i", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z"} }),
			change:    func(s *scene) { s.updateNode(t, withNodeLabel("zone", "z")) }, wantEvicted: "t*4", wantPlaced: "i-0@n"},
		"the quota grows from 2 to 4, and a gang of 3 waits": {scene: `
				node n model=A cards=4
				job t queue=training min=4 running=n*4 age=24h
				queue inference quota={"A":2} priority=80000 serviceType=inference cpu=1000
				job i queue=inference min=3 pending=3`,
			change: func(s *scene) {
				s.changeQueue(`queue inference quota={"A":4} priority=80000 serviceType=inference cpu=1000`)
			}, wantEvicted: "t*4", wantPlaced: "i@n*3"},
		"the victims' queue becomes reclaimable": {scene: gang + `
				queue training quota=1000 priority=20000 serviceType=training reclaimable=false cpu=1000`,
			change: func(s *scene) {
				s.changeQueue("queue training quota=1000 priority=20000 serviceType=training cpu=1000")
			}, wantEvicted: "t*4", wantPlaced: "i-0@n"},
		"the minimum of a gang with a protected pod sinks from 4 to 3": {scene: `
				node n model=A cards=2
				node m model=A cards=2
				job t queue=training min=4 running=n*2,m*2 age=24h
				job i queue=inference min=1 pending=1`,
			podChange: onPod("t-3", protect),
			change: func(s *scene) {
				s.updateGroup(func(g *v1beta1.PodGroup) { g.Spec.MinMember = 3 })
			}, wantEvicted: "t-0", wantPlaced: "i-0@n"},
		"the policies of the Volcano job are read": {scene: `
				node n model=A cards=4
				job t queue=training min=4 running=n*4 age=24h owner=vcjob evictionPolicy=Unknown
				job i queue=inference min=1 pending=1`,
			change: func(s *scene) { s.policies["ns/t"] = workload.EvictionPolicy{} }, wantEvicted: "t*4", wantPlaced: "i-0@n"},
		"the pod that i avoids ends": {scene: gang + `
				job web queue=inference min=1 running=n cards=0 age=24h`,
			podChange: applyAll(onJob("web", withLabel("web")), onJob("i", avoiding("web"))),
			change:    func(s *scene) { s.Cache.DeletePod(s.Pod("web-0")) }, wantEvicted: "t*4", wantPlaced: "i-0@n"},
		"a pod on the node gets the label that i must be beside": {scene: gang + `
				job web queue=inference min=1 running=n cards=0 age=24h`,
			podChange: onJob("i", beside("web")),
			change:    func(s *scene) { s.updatePods("web", withLabel("web")) }, wantEvicted: "t*4", wantPlaced: "i-0@n"},
	}) {
		s := newInferenceAndTrainingScene(tc.scene, tc.podChange)
		s.withoutAllocate = true // cardreclaim itself places pods that need no eviction
		for range 4 {
			s.runSession(t).expectEvictedAndPlaced(t, "", "")
		}

		tc.change(s)
		s.runSession(t).expectEvictedAndPlaced(t, tc.wantEvicted, tc.wantPlaced)
	}
}

// TestAFailedSearchIsRepeatedAtTheMinimumRuntime: the gang has run for 10 seconds of a minimum runtime of 30. So the
// search is repeated 20 seconds after the scene began, when the gang may be evicted.
func TestAFailedSearchIsRepeatedAtTheMinimumRuntime(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		node n model=A cards=4
		job t queue=training min=4 running=n*4 age=10s
		job i queue=inference min=1 pending=1`)
	s.arguments = minimumRuntimeOfTraining("30s")
	for range 4 { // no session evicts, and all are at the time at which the scene began
		s.runSession(t).expectEvictedAndPlaced(t, "", "")
	}

	wait := s.search.searches.failed[s.Job("i").UID].until.Sub(s.Now)
	check.That(t, wait > 15*time.Second && wait < 25*time.Second, "the next search is made after %s, want about 20s", wait)
}

// TestLeftoverCardsServeAJobWhoseSearchFailed: inference reclaims from training, and urgent from batch. Job a of
// inference finds no victim, because only the batch gang of 8 runs. Then job c of urgent evicts that gang for
// its 4 pods. One of the 4 cards that are left over goes to job a in the same session, although the search for
// job a failed before. "t*8" are the pods t-0 to t-7, "c@n*4" are c-0 to c-3 on node n.
func TestLeftoverCardsServeAJobWhoseSearchFailed(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue other quota=1000 priority=20000 serviceType=batch
		queue mixed quota=1000 priority=80000
		queue top quota=1000 priority=90000
		node n model=A cards=8
		job t queue=other min=8 running=n*8 age=24h
		job a queue=mixed min=1 pending=1 serviceType=inference`)
	s.arguments = urgentReclaimsFromBatch()
	s.withoutAllocate = true // no card is free, so it would place no pod
	s.runSession(t).expectEvictedAndPlaced(t, "", "")

	s.addToCache("job c queue=top min=4 pending=4 serviceType=urgent")
	s.runSession(t).expectEvictedAndPlaced(t, "t*8", "a-0@n c@n*4")
}

// urgentReclaimsFromBatch returns arguments in which inference reclaims from training, and urgent from batch.
func urgentReclaimsFromBatch() map[string]any {
	return map[string]any{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}}, "urgent": map[string]any{"reclaimFrom": []any{"batch"}},
		"training": map[string]any{"reclaimable": true}, "batch": map[string]any{"reclaimable": true},
	}}
}

// TestActionRestsAfterLongSearch: no pod is scheduled during a search. So searches that place no pod take at most a
// quarter of the time: after one of 2 seconds the action makes none until 8 seconds have passed. Sessions are 3 seconds
// apart, beside the time of the search. A search that places its pod is not repeated, so it causes no rest.
func TestActionRestsAfterLongSearch(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		protected  string
		took       time.Duration
		wantRested int
	}{
		"0.3 seconds, until second 1.2: no session rests":            {"preemptable=false", 300 * time.Millisecond, 0},
		"2 seconds, until second 8: the session of second 5 rests":   {"preemptable=false", 2 * time.Second, 1},
		"5 seconds, until second 20: those of 8, 11, 14 and 17 rest": {"preemptable=false", 5 * time.Second, 4},
		"5 seconds, and the pod is placed: no session rests":         {"", 5 * time.Second, 0},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=8
			job i queue=inference min=1 pending=1
			job t queue=training min=8 running=n*8 age=24h ` + tc.protected)
		s.startCache()

		check.Equal(t, "sessions without a search after the first one", tc.wantRested, s.countRests(tc.took, func() { s.runSession(t) }))
	}
}

// TestPreemptRestsAfterLongSearch: searches of preempt, too, take at most a quarter of the time. Sessions are 3 seconds
// apart, beside the time of the search. No eviction helps the waiting job.
func TestPreemptRestsAfterLongSearch(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		took       time.Duration
		wantRested int
	}{
		"0.3 seconds, until second 1.2: no session rests":            {300 * time.Millisecond, 0},
		"2 seconds, until second 8: the session of second 5 rests":   {2 * time.Second, 1},
		"5 seconds, until second 20: those of 8, 11, 14 and 17 rest": {5 * time.Second, 4},
	}) {
		s := newSceneOfHopelessPreemptors(2, 1) // 2 nodes full of protected pods, one waiting job
		s.startCache()
		t.Cleanup(s.Close)

		preempt := s.preempt()
		rested := s.countRests(tc.took, func() { s.openSession().Run(s.allocate(), preempt) })
		check.Equal(t, "sessions without a search after the first one", tc.wantRested, rested)
	}
}

// countRests runs a session with a search that takes a time. Then it runs sessions 3 seconds apart, and returns how many
// make no search until one does, at most 10.
func (s *scene) countRests(took time.Duration, run func()) int {
	reads := 0
	clock := s.Now
	s.search.clock = func() time.Time { // a search reads the clock before and after it, a rest only once
		reads++
		if reads == 2 {
			clock = clock.Add(took)
		}
		return clock
	}

	run()
	for rested := range 10 {
		reads = 0
		clock = clock.Add(3 * time.Second)
		run()
		if reads > 1 {
			return rested
		}
	}
	return 10
}

// TestSearchIgnoresPodsBeyondTheQuota: 2000 pods wait, and the quota allows 3. The search must not look at all of them:
// its work stays below a bound for 20 pods, 20 evictions and 100,000 units more. 3 pods get a card.
func TestSearchIgnoresPodsBeyondTheQuota(t *testing.T) {
	s := newInferenceAndTrainingScene(`
		queue inference quota={"A":3} priority=80000 serviceType=inference cpu=100000
		node n,m model=A cards=8
		job a queue=training min=4 running=n*4 age=24h
		job b queue=training min=4 running=n*4 age=24h
		job c queue=training min=8 running=m*8 age=24h
		job i queue=inference min=1 pending=2000`)

	rs := s.openSearch(t)
	rs.placeWithFullBudget(s.Job("i"))
	check.That(t, rs.work < 20*workPerTask+20*workPerMove+100_000, "the search spent %d units of work", rs.work)
	check.Equal(t, "pods of i that get a card", 3, s.countPlaced("i"))
}
