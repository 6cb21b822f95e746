package cardreclaim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// playSession opens a session with all actions that evict. nextSession plays one as well, after
// the pods that were evicted have gone and those that were placed run.
func (w *world) playSession(action *Preempt) {
	w.openSession().Run(enqueue.New(), NewAllocate(w.action), w.action, action)
}

func (w *world) nextSession(action *Preempt) {
	placed := w.In(api.Binding)
	gone := w.In(api.Releasing)
	w.Close()
	for _, task := range placed {
		w.start(task.Name, task.NodeName)
	}
	for _, task := range gone {
		w.Cache.DeletePod(w.Pod(task.Name).DeepCopy())
	}
	w.playSession(action)
}

// TestFullQueueIsPreempted: a job as controllers make it, Pending and with minResources, is
// enqueued into a queue that lower jobs fill, preempts them, and runs in the next session.
func TestFullQueueIsPreempted(t *testing.T) {
	for t, low := range check.Cases(t, map[string]string{
		"an elastic job":     "low q 1: n*8 class=low",
		"a gang":             "low q 8: n*8 class=low",
		"jobs of one card":   "l0 q 1: n class=low; l1 q 1: n class=low; l2 q 6: n*6 class=low",
		"a restarted vcjob":  "low q 8: n*8 class=low vcjob=inelastic",
		"a vcjob that ended": "low q 8: n*8 class=low vcjob=ends",
	}) {
		w, preempt := newPreemptWorld(t, `queue q {"A":8} cpu=1000;`+low+"; high q 1: - least=1 class=high phase=Pending")
		w.playSession(preempt) // a restarted scheduler learns the policies of vcjobs
		for range 2 {
			w.nextSession(preempt)
		}

		check.Equal(t, "high runs on", 1, len(w.Job("high").TaskStatusIndex[api.Running])+len(w.Job("high").TaskStatusIndex[api.Binding]))
	}
}

// TestPreemptedCardsGoToThePreemptor: over several sessions one pod of the queue is evicted for
// one pod, whoever else waits for cards.
func TestPreemptedCardsGoToThePreemptor(t *testing.T) {
	const others = "a1 a 1: -; a2 a 1: -; a3 a 1: -"
	for t, text := range check.Cases(t, map[string]string{
		"a queue of higher priority":   `queue a {"A":4} 9 cpu=1000;` + others,
		"a queue of equal priority":    `queue a {"A":4} cpu=1000;` + others,
		"two inference queues":         `queue a {"A":4} inference cpu=1000; queue q {"A":8} inference cpu=1000;` + others,
		"equal jobs of its own queue":  "q1 q 1: - class=high; q2 q 1: - class=high",
		"the job that was evicted":     "",
		"the quota of its queue, full": `queue q {"A":8} cpu=1000; full q 4: m*4 class=high; q1 q 1: - class=high`,
	}) {
		w, preempt := newPreemptWorld(t, `node n A 4; node m A 4; queue q {"A":8} cpu=1000; low q 1: n*4 class=low; high q 1: - class=high; `+text)
		evicted := 0
		waiting := strings.Count(text, " q 1: - class=high")

		for s := range 8 {
			if s == 0 {
				w.playSession(preempt)
			} else {
				w.nextSession(preempt)
			}
			evicted += len(w.In(api.Releasing))
		}

		check.Equal(t, "running pods of high", 1, len(w.Job("high").TaskStatusIndex[api.Running]))
		check.That(t, evicted <= 1+waiting, "%d pods are evicted for %d that may preempt", evicted, 1+waiting)
	}
}

// TestOneEvictionServesTwoPreemptors: four cards are freed for one. The next pod comes before the
// API server shows the deletion, and uses what is left over.
func TestOneEvictionServesTwoPreemptors(t *testing.T) {
	w, preempt := newPreemptWorld(t, `node n A 4; node m A 4; queue q {"A":8} cpu=1000; la q 1: n cards=4 class=low; lb q 1: m cards=4 class=low; hi q 1: - class=high; hi2 q 1: - class=high`)
	w.Close()
	groups := w.Groups
	pods := w.Pods

	w.Groups = groups[:3]
	w.Pods = pods[:3]
	w.startCache()
	*preempt = *NewPreempt(w.action)
	w.runPreemptAction(preempt)
	check.Equal(t, "go in the first session", 1, len(w.In(api.Releasing)))

	w.Close()
	w.Cache.AddPodGroupV1beta1(groups[3])
	w.Cache.AddPod(pods[3].DeepCopy())
	for range 3 {
		w.runPreemptAction(preempt)
		check.Equal(t, "go in all", 1, len(w.In(api.Releasing)))
	}
}

// TestPreemptWaitsWhileReclaimRests: a job takes cards of other queues before those of its own
// queue, also while cardreclaim makes no search, or has not come to all jobs.
func TestPreemptWaitsWhileReclaimRests(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		change func(*world)
		goes   string
	}{
		"reclaim acts":         {func(*world) {}, "t-0"},
		"reclaim rests":        {func(w *world) { w.action.restsUntil = w.Now.Add(time.Minute) }, ""},
		"reclaim is cut short": {func(w *world) { w.action.budget.maxPerSession = 1 }, ""},
		"reclaim is no action": {func(w *world) { w.alone = true }, "lo-0"},
	}) {
		w := newWorld("node n A 4; lo inf 1: n*1 class=low ran=24h; keep inf 1: n*1 class=high; t tra 1: n*2 ran=24h; hi inf 1: - class=high")
		t.Cleanup(w.Close)

		w.startCache()
		preempt := NewPreempt(w.action)
		tc.change(w)
		if strings.Contains(t.Name(), "short") {
			w.add("first inf 1: - cards=9 class=high")
			w.startCache()
			preempt = NewPreempt(w.action)
			tc.change(w)
		}

		w.openSession()
		if w.alone {
			w.Run(NewAllocate(w.action), preempt)
		} else {
			w.Run(NewAllocate(w.action), w.action, preempt)
		}

		goes := session.Names(w.In(api.Releasing))
		check.That(t, goes == tc.goes || (tc.goes == "t-0" && strings.HasPrefix(goes, "t-")), "%q go, want %q", goes, tc.goes)
	}
}

// hopeless is a cluster that one job fills, and jobs that no eviction helps: each pod of the
// queue that could go is protected, or breaks a gang in vain.
func hopeless(nodes, jobs int) *world {
	var text strings.Builder
	text.WriteString(`queue q {"A":100000} 20000 training cpu=100000;`)
	for i := range nodes {
		fmt.Fprintf(&text, "node n%d A 8; t%d q 8: n%d*8 ran=24h class=low protectedgroup;", i, i, i)
	}
	for j := range jobs {
		fmt.Fprintf(&text, "w%d q 1: - class=high;", j)
	}
	text.WriteString("spare q 1: n0 cards=0 class=low")
	return newWorld(text.String())
}

// TestHopelessPreemptorsAreRemembered: one search is enough for equal pods, and none follows
// while nothing changes.
func TestHopelessPreemptorsAreRemembered(t *testing.T) {
	w := hopeless(20, 30)
	t.Cleanup(w.Close)
	w.startCache()
	preempt := NewPreempt(w.action)
	searched := []int{}
	for range 5 {
		w.openSession().Run(NewAllocate(w.action))
		searched = append(searched, w.countSearches(preempt))
	}
	check.Equal(t, "searches in each session", []int{1, 0, 1, 0, 0}, searched)
}

// TestSearchInsideAJobFollowsTheOther: that nothing of other jobs may go for a pod does not keep
// it from taking the place of a pod of its own job. This holds for several jobs.
func TestSearchInsideAJobFollowsTheOther(t *testing.T) {
	urgent := func(p *corev1.Pod) {
		if p.Spec.NodeName == "" {
			p.Annotations["volcano.sh/task-priority"] = "10"
		}
	}
	w, preempt := newPreemptWorld(t, `queue q {"A":16} cpu=1000; full q 1: m*8 class=low protectedgroup; spare q 1: n cards=0 class=low; x q 1: n*4 - class=high; y q 1: n*4 - class=high`, urgent)
	w.runPreemptAction(preempt)
	check.Equal(t, "pods that are promised a node", "x-4@n y-4@n", session.Names(w.In(api.Pipelined)))
}

// countSearches runs preempt, and returns for how many pods it searched a node.
func (w *world) countSearches(action *Preempt) int {
	action.searchCount = 0
	w.Run(action)
	return action.searchCount
}

// TestNominationOfAnUndonePlacementKeepsNoPodFromPreempting: Volcano writes to pods of a gang the nodes on
// which it tried them in vain. Nothing leaves these nodes, so the pods preempt on others.
func TestNominationOfAnUndonePlacementKeepsNoPodFromPreempting(t *testing.T) {
	nominate := func(p *corev1.Pod) {
		if strings.HasPrefix(p.Name, "high") {
			p.Status.NominatedNodeName = "m"
		}
	}
	w, preempt := newPreemptWorld(t, "node n A 2; node m A 2; low q 1: n*2 class=low; full q 2: m*2 class=high; high q 2: -*2 class=high", nominate)
	w.runPreemptAction(preempt)
	check.Equal(t, "go", "low-0 low-1", session.Names(w.In(api.Releasing)))
	check.Equal(t, "promised a node", "high-0@n high-1@n", session.Names(w.In(api.Pipelined)))
	check.Equal(t, "nominated node of the pod in Volcano's cache", "m", w.Task("high-0").Pod.Status.NominatedNodeName)
}

// TestEvictionsOfASessionAreNotWaitedFor: a pod of a gang does not wait for pods that just go for another
// pod of its gang, on the node that was nominated for it once.
func TestEvictionsOfASessionAreNotWaitedFor(t *testing.T) {
	nominate := onPod("high-1", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" })
	w, preempt := newPreemptWorld(t, "node n A 1; node m A 1; lown q 1: n class=low; lowm q 1: m class=low; high q 2: -*2 class=high", nominate)
	w.runPreemptAction(preempt)
	check.Equal(t, "go", "lowm-0 lown-0", session.Names(w.In(api.Releasing)))
	check.Equal(t, "promised a node", 2, len(w.In(api.Pipelined)))
}

// TestPreemptLeavesAGangItsKeptCards: two cards of a node are kept for a gang of inference. A job of training
// that may not take them preempts another one of its queue there, for all the cards that it needs.
func TestPreemptLeavesAGangItsKeptCards(t *testing.T) {
	const gang = `node k A 6; queue i {"A":20} 80000 inference cpu=1000; queue q {"A":20} 20000 training cpu=1000; fixed i 1: n*8 m*8; g i 4: -*4 least=4;`
	for t, tc := range check.Cases(t, map[string]struct {
		text           string
		goes, placed   int
		isKept, starts bool // the gang
	}{
		"as many pods as it needs":            {"low q 1: k*4 class=low; high q 1: - cards=2 class=high", 2, 1, true, false},
		"two pods, one after the other":       {"low q 1: k*4 class=low; high q 1: -*2 class=high", 2, 2, true, false},
		"a gang, and the other one starts":    {"low q 4: k*4 class=low; high q 1: - cards=2 class=high", 4, 1, true, true},
		"none if all of them are too few":     {"low q 1: k*4 class=low; high q 1: - cards=5 class=high", 0, 0, true, false},
		"none if no pod there may be evicted": {"low q 1: k*4 class=high; high q 1: - cards=2 class=high", 0, 0, true, false},
		"none for a pod that may take them":   {"low q 1: k*4 class=low; high i 1: - cards=2 class=high", 0, 1, false, false},
	}) {
		w, preempt := newPreemptWorld(t, gang+tc.text)
		w.openSession().Run(enqueue.New(), NewAllocate(w.action), preempt)
		goes := 0
		for range 4 {
			placed := w.In(api.Binding)
			gone := w.In(api.Releasing)
			goes += len(gone)

			w.Close()
			for _, task := range placed {
				w.start(task.Name, task.NodeName)
			}
			for _, task := range gone {
				w.Cache.DeletePod(w.Pod(task.Name).DeepCopy())
			}
			w.openSession().Run(enqueue.New(), NewAllocate(w.action), preempt)
		}

		runs := func(job string) int {
			return len(w.Job(job).TaskStatusIndex[api.Running]) + len(w.Job(job).TaskStatusIndex[api.Binding])
		}

		check.Equal(t, "pods that go", tc.goes, goes)
		check.Equal(t, "pods of high on their node", tc.placed, runs("high"))
		check.Equal(t, "the gang starts", tc.starts, runs("g") == 4)
		if tc.isKept && !tc.starts {
			check.Equal(t, "free cards, which are kept", 2000, w.Ssn.Nodes["k"].Idle.Get(gpu))
		}
	}
}
