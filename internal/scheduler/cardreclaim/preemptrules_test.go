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
func (w *scene) playSession(action *Preempt) {
	w.openSession().Run(enqueue.New(), NewAllocate(w.action), w.action, action)
}

func (w *scene) nextSession(action *Preempt) {
	w.endEvicted()
	w.playSession(action)
}

// endEvicted closes the session. The pods that it has evicted are gone, and those that it has placed run. It returns
// how many were evicted.
func (w *scene) endEvicted() int {
	_, evicted := w.closeAndStart(hour)
	for _, task := range evicted {
		w.Cache.DeletePod(w.Pod(task.Name).DeepCopy())
	}
	return len(evicted)
}

// TestFullQueueIsPreempted: a job as controllers make it, Pending and with minResources, is
// enqueued into a queue that lower jobs fill, preempts them, and runs in the next session.
func TestFullQueueIsPreempted(t *testing.T) {
	for t, low := range check.Cases(t, map[string]string{
		"an elastic job":     "job low queue=q min=1 running=n*8 priorityClass=low",
		"a gang":             "job low queue=q min=8 running=n*8 priorityClass=low",
		"jobs of one card":   "job l0 queue=q min=1 running=n priorityClass=low; job l1 queue=q min=1 running=n priorityClass=low; job l2 queue=q min=6 running=n*6 priorityClass=low",
		"a restarted vcjob":  "job low queue=q min=8 running=n*8 priorityClass=low owner=vcjob evictionPolicy=RestartJob",
		"a vcjob that ended": "job low queue=q min=8 running=n*8 priorityClass=low owner=vcjob evictionPolicy=TerminateJob",
	}) {
		w, preempt := newPreemptScene(t, `queue q quota={"A":8} cpu=1000;`+low+"; job high queue=q min=1 pending=1 minCards=1 priorityClass=high phase=Pending")
		w.playSession(preempt) // a restarted scheduler learns the policies of vcjobs
		for range 2 {
			w.nextSession(preempt)
		}

		check.Equal(t, "high runs on", 1, len(w.Job("high").TaskStatusIndex[api.Running])+len(w.Job("high").TaskStatusIndex[api.Binding]))
	}
}

// TestPreemptedCardsGoToThePreemptor: over several sessions one pod of the queue is evicted for
// one pod, even if others wait for cards.
func TestPreemptedCardsGoToThePreemptor(t *testing.T) {
	const others = "job a1 queue=a min=1 pending=1; job a2 queue=a min=1 pending=1; job a3 queue=a min=1 pending=1"
	for t, text := range check.Cases(t, map[string]string{
		"a queue of higher priority":   `queue a quota={"A":4} priority=9 cpu=1000;` + others,
		"a queue of equal priority":    `queue a quota={"A":4} cpu=1000;` + others,
		"two inference queues":         `queue a quota={"A":4} serviceType=inference cpu=1000; queue q quota={"A":8} serviceType=inference cpu=1000;` + others,
		"equal jobs of its own queue":  "job q1 queue=q min=1 pending=1 priorityClass=high; job q2 queue=q min=1 pending=1 priorityClass=high",
		"the job that was evicted":     "",
		"the quota of its queue, full": `queue q quota={"A":8} cpu=1000; job full queue=q min=4 running=m*4 priorityClass=high; job q1 queue=q min=1 pending=1 priorityClass=high`,
	}) {
		w, preempt := newPreemptScene(t, `node n model=A cards=4; node m model=A cards=4; queue q quota={"A":8} cpu=1000; job low queue=q min=1 running=n*4 priorityClass=low; job high queue=q min=1 pending=1 priorityClass=high; `+text)
		evicted := 0
		waiting := strings.Count(text, " queue=q min=1 pending=1 priorityClass=high")

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
	w, preempt := newPreemptScene(t, `node n model=A cards=4; node m model=A cards=4; queue q quota={"A":8} cpu=1000; job la queue=q min=1 running=n cards=4 priorityClass=low; job lb queue=q min=1 running=m cards=4 priorityClass=low; job hi queue=q min=1 pending=1 priorityClass=high; job hi2 queue=q min=1 pending=1 priorityClass=high`)
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
		first  string // a job that cardreclaim looks at first
		change func(*scene)
		goes   string
	}{
		"reclaim acts":         {"", func(*scene) {}, "t-0"},
		"reclaim rests":        {"", func(w *scene) { w.action.restsUntil = w.Now.Add(time.Minute) }, ""},
		"reclaim is cut short": {"job first queue=inf min=1 pending=1 cards=9 priorityClass=high", func(w *scene) { w.action.budget.maxPerSession = 1 }, ""},
		"reclaim is no action": {"", func(w *scene) { w.alone = true }, "lo-0"},
	}) {
		w := newScene("node n model=A cards=4; job lo queue=inf min=1 running=n*1 priorityClass=low age=24h; job keep queue=inf min=1 running=n*1 priorityClass=high; job t queue=tra min=1 running=n*2 age=24h; job hi queue=inf min=1 pending=1 priorityClass=high")
		t.Cleanup(w.Close)

		w.add(tc.first)
		w.startCache()
		preempt := NewPreempt(w.action)
		tc.change(w)

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
func hopeless(nodes, jobs int) *scene {
	var text strings.Builder
	text.WriteString(`queue q quota={"A":100000} priority=20000 serviceType=training cpu=100000;`)
	for i := range nodes {
		fmt.Fprintf(&text, "node n%d model=A cards=8; job t%d queue=q min=8 running=n%d*8 age=24h priorityClass=low groupPreemptable=false;", i, i, i)
	}
	for j := range jobs {
		fmt.Fprintf(&text, "job w%d queue=q min=1 pending=1 priorityClass=high;", j)
	}
	text.WriteString("job spare queue=q min=1 running=n0 cards=0 priorityClass=low")
	return newScene(text.String())
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
	w, preempt := newPreemptScene(t, `queue q quota={"A":16} cpu=1000; job full queue=q min=1 running=m*8 priorityClass=low groupPreemptable=false; job spare queue=q min=1 running=n cards=0 priorityClass=low; job x queue=q min=1 running=n*4 pending=1 priorityClass=high; job y queue=q min=1 running=n*4 pending=1 priorityClass=high`, urgent)
	w.runPreemptAction(preempt)
	check.Equal(t, "pods that are promised a node", "x-4@n y-4@n", session.Names(w.In(api.Pipelined)))
}

// countSearches runs preempt, and returns for how many pods it searched a node.
func (w *scene) countSearches(action *Preempt) int {
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
	w, preempt := newPreemptScene(t, "node n model=A cards=2; node m model=A cards=2; job low queue=q min=1 running=n*2 priorityClass=low; job full queue=q min=2 running=m*2 priorityClass=high; job high queue=q min=2 pending=2 priorityClass=high", nominate)
	w.runPreemptAction(preempt)
	check.Equal(t, "go", "low-0 low-1", session.Names(w.In(api.Releasing)))
	check.Equal(t, "promised a node", "high-0@n high-1@n", session.Names(w.In(api.Pipelined)))
	check.Equal(t, "nominated node of the pod in Volcano's cache", "m", w.Task("high-0").Pod.Status.NominatedNodeName)
}

// TestEvictionsOfASessionAreNotWaitedFor: a pod of a gang does not wait for pods that just go for another
// pod of its gang, on the node that was nominated for it once.
func TestEvictionsOfASessionAreNotWaitedFor(t *testing.T) {
	nominate := onPod("high-1", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" })
	w, preempt := newPreemptScene(t, "node n model=A cards=1; node m model=A cards=1; job lown queue=q min=1 running=n priorityClass=low; job lowm queue=q min=1 running=m priorityClass=low; job high queue=q min=2 pending=2 priorityClass=high", nominate)
	w.runPreemptAction(preempt)
	check.Equal(t, "go", "lowm-0 lown-0", session.Names(w.In(api.Releasing)))
	check.Equal(t, "promised a node", 2, len(w.In(api.Pipelined)))
}

// TestPreemptLeavesAGangItsKeptCards: two cards of a node are kept for a gang of inference. A job of training
// that may not take them preempts another one of its queue there, for all the cards that it needs.
func TestPreemptLeavesAGangItsKeptCards(t *testing.T) {
	const gang = `node k model=A cards=6; queue i quota={"A":20} priority=80000 serviceType=inference cpu=1000; queue q quota={"A":20} priority=20000 serviceType=training cpu=1000; job fixed queue=i min=1 running=n*8,m*8; job g queue=i min=4 pending=4 minCards=4;`
	for t, tc := range check.Cases(t, map[string]struct {
		text           string
		goes, placed   int
		isKept, starts bool // the gang
	}{
		"as many pods as it needs":            {"job low queue=q min=1 running=k*4 priorityClass=low; job high queue=q min=1 pending=1 cards=2 priorityClass=high", 2, 1, true, false},
		"two pods, one after the other":       {"job low queue=q min=1 running=k*4 priorityClass=low; job high queue=q min=1 pending=2 priorityClass=high", 2, 2, true, false},
		"a gang, and the other one starts":    {"job low queue=q min=4 running=k*4 priorityClass=low; job high queue=q min=1 pending=1 cards=2 priorityClass=high", 4, 1, true, true},
		"none if all of them are too few":     {"job low queue=q min=1 running=k*4 priorityClass=low; job high queue=q min=1 pending=1 cards=5 priorityClass=high", 0, 0, true, false},
		"none if no pod there may be evicted": {"job low queue=q min=1 running=k*4 priorityClass=high; job high queue=q min=1 pending=1 cards=2 priorityClass=high", 0, 0, true, false},
		"none for a pod that may take them":   {"job low queue=q min=1 running=k*4 priorityClass=low; job high queue=i min=1 pending=1 cards=2 priorityClass=high", 0, 1, false, false},
	}) {
		w, preempt := newPreemptScene(t, gang+tc.text)
		w.openSession().Run(enqueue.New(), NewAllocate(w.action), preempt)
		goes := 0
		for range 4 {
			goes += w.endEvicted()
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
