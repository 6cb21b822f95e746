package cardreclaim

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/internal/workload"
)

// sessionsWithFailedSearch plays sessions, and lists those with a search that found nothing.
func (w *scene) sessionsWithFailedSearch(t *testing.T, sessions int) []int {
	t.Helper()
	var made []int
	for n := range sessions {
		w.runAction(t)
		for _, failed := range w.action.searches.failed {
			if failed.session == w.action.searches.session {
				made = append(made, n)
			}
		}
	}
	return made
}

// updatePods updates the pods of a job.
func (w *scene) updatePods(job string, change func(*corev1.Pod)) {
	for _, pod := range w.podsOf(job) {
		w.Update(pod.Name, change)
	}
}

// TestFailedSearchIsNotRepeated: while nothing changes, it is repeated only after 1, 2, 4 …
// sessions.
func TestFailedSearchIsNotRepeated(t *testing.T) {
	w := newScene("node n model=A cards=4; job p queue=tra min=4 running=n*4 age=24h preemptable=false; job i queue=inf min=1 pending=1; job j queue=inf min=2 pending=2")
	check.Equal(t, "searches", "[0 0 2 2 5 5 10 10 19 19 36 36]", fmt.Sprint(w.sessionsWithFailedSearch(t, 40)))
}

// TestOtherCardsRepeatNoSearch: pods of the queue that hold a card which the job does not name end in
// each session. That helps it as little as no change does.
func TestOtherCardsRepeatNoSearch(t *testing.T) {
	w := newScene("node n model=A cards=4; node m model=B cards=30; job p queue=tra min=4 running=n*4 age=24h preemptable=false; job b queue=inf min=1 running=m*20 card=B age=1h; job i queue=inf min=1 pending=1")
	searches := 0
	for n := range 20 {
		searches += len(w.sessionsWithFailedSearch(t, 1))
		w.Close()
		w.Cache.DeletePod(w.Pod(fmt.Sprintf("b-%d", n)).DeepCopy())
	}
	check.Equal(t, "searches in 20 sessions", 5, searches)
}

// TestSearchIsRepeatedAfterChange: the first session after any change that helps places the
// pod.
func TestSearchIsRepeatedAfterChange(t *testing.T) {
	const full = "node n model=A cards=4; job p queue=tra min=4 running=n*4 age=24h preemptable=false; job i queue=inf min=1 pending=1"
	node := func(w *scene, change func(*corev1.Node)) {
		n := w.Nodes[0].DeepCopy()
		change(n)
		check.NoError(t, w.Cache.AddOrUpdateNode(n))
	}

	queue := func(w *scene, text string) {
		w.add(text)
		w.Cache.AddQueueV1beta1(w.Queues[len(w.Queues)-1])
	}

	group := func(w *scene, change func(*v1beta1.PodGroup)) {
		g := w.Groups[0].DeepCopy()
		g.ResourceVersion += "1"
		change(g)
		w.Cache.UpdatePodGroupV1beta1(w.Groups[0], g)
	}

	for t, tc := range check.Cases(t, map[string]struct {
		text        string
		change      func(w *scene)
		goes, comes string
		label       func(*corev1.Pod)
	}{
		"a pod ends": {full, func(w *scene) { w.Cache.DeletePod(w.Pod("p-3")) }, "", "i-0@n", nil},
		"no pod is protected any more": {full, func(w *scene) {
			w.updatePods("p", func(p *corev1.Pod) { delete(p.Annotations, "volcano.sh/preemptable") })
		}, "p*4", "i-0@n", nil},
		"the PodGroup is not protected any more": {"node n model=A cards=4; job p queue=tra min=4 running=n*4 age=24h groupPreemptable=false; job i queue=inf min=1 pending=1",
			func(w *scene) {
				group(w, func(g *v1beta1.PodGroup) { delete(g.Annotations, "volcano.sh/preemptable") })
			}, "p*4", "i-0@n", nil},
		"a node comes": {full, func(w *scene) { check.NoError(t, w.Cache.AddOrUpdateNode(session.Node("o", "A", 4))) }, "", "i-0@o", nil},
		"a node gets cards": {"node n model=A cards=4; job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1 cards=5",
			func(w *scene) {
				node(w, func(n *corev1.Node) {
					n.Labels["nvidia.com/gpu.count"] = "8"
					n.Status.Allocatable[gpu] = amount("8")
				})
			}, "t*4", "i-0@n", nil},
		"a node gets a label": {"node n model=A cards=4; job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1", func(w *scene) { node(w, func(n *corev1.Node) { n.Labels["zone"] = "z" }) }, "t*4", "i-0@n",
			onJob("i", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z"} })},
		"the quota grows": {`node n model=A cards=4; job t queue=tra min=4 running=n*4 age=24h; queue inf quota={"A":2} priority=80000 serviceType=inference cpu=1000; job i queue=inf min=3 pending=3`,
			func(w *scene) { queue(w, `queue inf quota={"A":4} priority=80000 serviceType=inference cpu=1000`) }, "t*4", "i@n*3", nil},
		"the queue may be taken from": {"node n model=A cards=4; queue tra quota=PLENTY priority=20000 serviceType=training reclaimable=false cpu=1000; job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1",
			func(w *scene) { queue(w, "queue tra quota=PLENTY priority=20000 serviceType=training cpu=1000") }, "t*4", "i-0@n", nil},
		"a job has elastic pods": {"node n model=A cards=2; node m model=A cards=2; job t queue=tra min=4 running=n*2,m*2 age=24h; job i queue=inf min=1 pending=1",
			func(w *scene) { group(w, func(g *v1beta1.PodGroup) { g.Spec.MinMember = 3 }) }, "t-0", "i-0@n", onPod("t-3", protect)},
		"a job is known": {"node n model=A cards=4; job t queue=tra min=4 running=n*4 age=24h owner=vcjob evictionPolicy=Unknown; job i queue=inf min=1 pending=1",
			func(w *scene) { w.habits["ns/t"] = workload.EvictionPolicy{} }, "t*4", "i-0@n", nil},
		"who was avoided is gone": {"node n model=A cards=4; job w queue=inf min=1 running=n cards=0 age=24h; job t queue=tra min=4 running=n*4 age=24h; job i queue=inf min=1 pending=1",
			func(w *scene) { w.Cache.DeletePod(w.Pod("w-0")) }, "t*4", "i-0@n", applyAll(onJob("w", withLabelAndAntiAffinity("web", "")), onJob("i", withLabelAndAntiAffinity("api", "web")))},
		"who must be near comes": {"node n model=A cards=4; job t queue=tra min=4 running=n*4 age=24h; job w queue=inf min=1 running=n cards=0 age=24h; job i queue=inf min=1 pending=1",
			func(w *scene) { w.updatePods("w", func(p *corev1.Pod) { p.Labels["app"] = "web" }) }, "t*4", "i-0@n", onJob("i", withAffinity("web"))},
	}) {
		w := sceneCase{text: tc.text, change: tc.label}.scene()
		w.alone = true
		for range 4 {
			w.runAction(t).expectEvictedAndPlaced(t, "", "")
		}
		tc.change(w)
		w.runAction(t).expectEvictedAndPlaced(t, tc.goes, tc.comes)
	}
}

// TestSearchIsRepeatedAfterMinimumRuntime: a victim job is evicted as soon as it has run long
// enough.
func TestSearchIsRepeatedAfterMinimumRuntime(t *testing.T) {
	w := newScene("node n model=A cards=4; job t queue=tra min=4 running=n*4 age=10s; job i queue=inf min=1 pending=1")
	w.args = protectFor("30s")
	for range 4 {
		w.runAction(t).expectEvictedAndPlaced(t, "", "")
	}
	at := w.action.searches.failed[w.Job("i").UID].until
	check.That(t, at.Sub(w.Now) > 15*time.Second && at.Sub(w.Now) < 25*time.Second, "the next search is made %s after the cluster was written down, want 20s", at.Sub(w.Now))
}

// TestLeftoverCardsServeJobsThatFailed: a gang is evicted for another job, and one of its
// cards fits a pod whose search failed in the session before.
func TestLeftoverCardsServeJobsThatFailed(t *testing.T) {
	w := newScene(`node n model=A cards=8; queue other quota=PLENTY priority=20000 serviceType=batch; queue mixed quota=PLENTY priority=80000 reclaimable=true; queue top quota=PLENTY priority=90000 reclaimable=true
		job t queue=other min=8 running=n*8 age=24h; job a queue=mixed min=1 pending=1 serviceType=inference`)

	w.args = map[string]any{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}}, "urgent": map[string]any{"reclaimFrom": []any{"batch"}},
		"training": map[string]any{"reclaimable": true}, "batch": map[string]any{"reclaimable": true},
	}}
	w.alone = true

	w.runAction(t).expectEvictedAndPlaced(t, "", "")
	w.addToCache("job c queue=top min=4 pending=4 serviceType=urgent")
	w.runAction(t).expectEvictedAndPlaced(t, "t*8", "a-0@n c@n*4")
}

// TestActionRestsAfterLongSearch: searches that place no pod take at most a quarter of the time. Those
// that place pods are not repeated, and delay no other job.
func TestActionRestsAfterLongSearch(t *testing.T) {
	const hopeless = "node n model=A cards=8; job p queue=tra min=8 running=n*8 age=24h preemptable=false; job i queue=inf min=1 pending=1"
	for t, tc := range check.Cases(t, map[string]struct {
		text  string
		took  time.Duration
		rests string
	}{
		"a short one":             {hopeless, 300 * time.Millisecond, "[]"},
		"a long one":              {hopeless, 2 * time.Second, "[1]"},
		"a longer one":            {hopeless, 5 * time.Second, "[1 2 3 4]"},
		"one that places its pod": {"node n model=A cards=8; BUSY; job i queue=inf min=1 pending=1", 5 * time.Second, "[]"},
	}) {
		w := newScene(tc.text)
		w.startCache()
		clock := w.Now
		look := false
		w.action.clock = func() time.Time { // a search reads the clock twice: it takes so long
			look = !look
			if !look {
				clock = clock.Add(tc.took)
			}
			return clock
		}

		var rests []int
		for n := range 8 {
			before := clock
			w.runAction(t)
			if clock.Equal(before) {
				rests = append(rests, n)
				look = false
			} else if n > 0 {
				break
			}
			clock = clock.Add(3 * time.Second)
		}

		check.Equal(t, "sessions without a search", tc.rests, fmt.Sprint(rests))
	}
}

// TestSearchIgnoresPodsBeyondQuota: the search looks only at as many pending pods as the quota
// allows.
func TestSearchIgnoresPodsBeyondQuota(t *testing.T) {
	w := newScene(`node n,m model=A cards=8; queue inf quota={"A":3} priority=80000 serviceType=inference cpu=100000; BUSY; job p queue=tra min=8 running=m*8 age=24h; job i queue=inf min=1 pending=2000`)
	w.alone = true
	rs := w.search(t)
	rs.placeFirst(w.Job("i"))
	check.That(t, rs.work < 20*workPerTask+20*workPerMove+100_000, "%d went into the search", rs.work)
	check.Equal(t, "pods that are pipelined", 3, len(w.In(api.Pipelined)))
}

// TestPreemptRestsAfterLongSearch: sessions are three seconds apart. After its first search preempt makes none in
// so many of them that searches take at most a quarter of the time.
func TestPreemptRestsAfterLongSearch(t *testing.T) {
	for took, rests := range map[time.Duration]int{300 * time.Millisecond: 0, 2 * time.Second: 1, 5 * time.Second: 4} {
		w := hopeless(2, 1)
		w.startCache()
		preempt := NewPreempt(w.action)

		clock := w.Now
		calls := 0
		w.action.clock = func() time.Time { // a search reads the clock twice, a rest once
			calls++
			if calls == 2 {
				clock = clock.Add(took)
			}
			return clock
		}

		w.openSession().Run(NewAllocate(w.action), preempt)
		rested := 0
		for calls = 0; rested < 10; rested++ {
			clock = clock.Add(3 * time.Second)
			w.openSession().Run(NewAllocate(w.action), preempt)
			if calls > 1 {
				break
			}
			calls = 0
		}

		check.Equal(t, fmt.Sprintf("sessions without a search after one of %s", took), rests, rested)
		w.Close()
	}
}
