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

// playSession opens a session with all actions: enqueue, allocate, cardreclaim and preempt.
func (s *scene) playSession(action PreemptAction) {
	s.openSession().Run(enqueue.New(), s.allocate(), s.reclaim(), action)
}

// endEvicted closes the session. The pods that it has evicted are gone, and those that it has placed run. It returns
// how many were evicted.
func (s *scene) endEvicted() int {
	_, evicted := s.closeAndStart(hour)
	for _, task := range evicted {
		s.Cache.DeletePod(s.Pod(task.Name).DeepCopy())
	}
	return len(evicted)
}

// TestAJobOfHighPriorityGetsACardOfItsFullQueue: jobs of low priority use the whole quota of queue q, 8. So the free cards
// of node m are of no use. A job of high priority comes as controllers create it: in phase Pending and with minResources,
// so that Volcano must enqueue it first. It preempts pods of low priority, and runs two sessions later.
func TestAJobOfHighPriorityGetsACardOfItsFullQueue(t *testing.T) {
	for t, low := range check.Cases(t, map[string]string{
		"the queue is full of an elastic job": `
			job low queue=q min=1 running=n*8 priorityClass=low`,
		"the queue is full of a gang": `
			job low queue=q min=8 running=n*8 priorityClass=low`,
		"the queue is full of two single pods and a gang": `
			job low-0 queue=q min=1 running=n priorityClass=low
			job low-1 queue=q min=1 running=n priorityClass=low
			job low-2 queue=q min=6 running=n*6 priorityClass=low`,
		"the queue is full of a Volcano job that restarts": `
			job low queue=q min=8 running=n*8 priorityClass=low owner=vcjob evictionPolicy=RestartJob`,
		"the queue is full of a Volcano job that ends": `
			job low queue=q min=8 running=n*8 priorityClass=low owner=vcjob evictionPolicy=TerminateJob`,
	}) {
		s, preempt := newPreemptScene(t, `
			queue q quota={"A":8} cpu=1000
			node n,m model=A cards=8
			job high queue=q min=1 pending=1 minCards=1 priorityClass=high phase=Pending`+low)
		s.playSession(preempt)
		for range 2 {
			s.endEvicted() // evicted pods are gone, and placed pods run
			s.playSession(preempt)
		}

		check.Equal(t, "pods of high that have a node", 1, len(s.Job("high").TaskStatusIndex[api.Running])+len(s.Job("high").TaskStatusIndex[api.Binding]))
	}
}

// TestAPreemptedCardGoesToThePreemptor: job low fills node n, and job high of the same queue evicts one of its pods.
// Other jobs wait for cards too, and must not take the freed one, else high would evict again and again. After 8
// sessions high runs. One pod is evicted for each job of high priority that waits in queue q.
func TestAPreemptedCardGoesToThePreemptor(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		others      string
		wantEvicted int
	}{
		"three jobs wait in a queue of higher priority": {`
			queue a quota={"A":4} priority=9 cpu=1000
			job a1 queue=a min=1 pending=1
			job a2 queue=a min=1 pending=1
			job a3 queue=a min=1 pending=1`, 1},
		"three jobs wait in a queue of equal priority": {`
			queue a quota={"A":4} cpu=1000
			job a1 queue=a min=1 pending=1
			job a2 queue=a min=1 pending=1
			job a3 queue=a min=1 pending=1`, 1},
		"three jobs wait in another queue, and both queues are of inference": {`
			queue a quota={"A":4} serviceType=inference cpu=1000
			queue q quota={"A":8} serviceType=inference cpu=1000
			job a1 queue=a min=1 pending=1
			job a2 queue=a min=1 pending=1
			job a3 queue=a min=1 pending=1`, 1},
		"two more jobs of high priority wait in queue q": {`
			job q1 queue=q min=1 pending=1 priorityClass=high
			job q2 queue=q min=1 pending=1 priorityClass=high`, 3},
		"no other job waits": {"", 1},
		"one more job of high priority waits, and queue q uses its whole quota of 8": {`
			node m model=A cards=4
			job full queue=q min=4 running=m*4 priorityClass=high
			job q1 queue=q min=1 pending=1 priorityClass=high`, 2},
	}) {
		s, preempt := newPreemptScene(t, `
			queue q quota={"A":8} cpu=1000
			node n model=A cards=4
			job low queue=q min=1 running=n*4 priorityClass=low
			job high queue=q min=1 pending=1 priorityClass=high`+tc.others)
		gone := 0
		for range 7 {
			s.playSession(preempt)
			gone += s.endEvicted() // they are gone, and placed pods run
		}

		s.playSession(preempt) // the eighth
		gone += len(s.In(api.Releasing))
		check.Equal(t, "running pods of high", 1, len(s.Job("high").TaskStatusIndex[api.Running]))
		check.Equal(t, "evicted pods of all sessions", tc.wantEvicted, gone)
	}
}

// TestOneEvictionServesTwoPreemptors: job first needs one card, and the eviction of a pod of 4 cards serves it. Job
// second comes before the API server shows the deletion. It uses one of the 3 cards that are left over, so no other pod
// is evicted.
func TestOneEvictionServesTwoPreemptors(t *testing.T) {
	s, preempt := newPreemptScene(t, `
		queue q quota={"A":8} cpu=1000
		node n,m model=A cards=4
		job low-n queue=q min=1 running=n cards=4 priorityClass=low
		job low-m queue=q min=1 running=m cards=4 priorityClass=low
		job first queue=q min=1 pending=1 priorityClass=high`)
	s.runPreemptAction(preempt)
	check.Equal(t, "evicted pods", 1, len(s.In(api.Releasing)))

	s.Close()
	s.addToCache("job second queue=q min=1 pending=1 priorityClass=high")
	for range 3 { // the evicted pod is still there
		s.runPreemptAction(preempt)
		check.Equal(t, "evicted pods of all sessions", 1, len(s.In(api.Releasing)))
		check.Equal(t, "pods of second that get a card", 1, s.countPlaced("second"))
	}
}

// TestPreemptWaitsForReclaim: a job of inference takes cards of training (cardreclaim) before it takes those of its own
// queue (preempt). So preempt evicts nothing while cardreclaim rests after a long search, or has not come to all jobs.
// Job high of inference waits for a card of the full node n. Job low has the lowest priority in its queue, and job t is
// of training.
func TestPreemptWaitsForReclaim(t *testing.T) {
	const text = `
		node n model=A cards=4
		job low queue=inference min=1 running=n priorityClass=low age=24h
		job other queue=inference min=1 running=n priorityClass=high
		job t queue=training min=1 running=n*2 age=24h
		job high queue=inference min=1 pending=1 priorityClass=high
	`

	for t, tc := range check.Cases(t, map[string]struct {
		more           string
		change         func(*scene)
		withoutReclaim bool
		wantJob        string // of the evicted pod
	}{
		"cardreclaim evicts a pod of training": {change: func(*scene) {}, wantJob: "t"},
		"cardreclaim rests for a minute: none": {change: func(s *scene) { s.search.restsUntil = s.Now.Add(time.Minute) }},
		"cardreclaim has used up its budget for job first, so it does not come to job high: none": {
			more:   "job first queue=inference min=1 pending=1 cards=9 priorityClass=high",
			change: func(s *scene) { s.search.budget.maxPerSession = 1 }},
		"cardreclaim is not configured: preempt evicts": {change: func(*scene) {}, withoutReclaim: true, wantJob: "low"},
	}) {
		s := newInferenceAndTrainingScene(text + tc.more)
		t.Cleanup(s.Close)
		s.startCache()
		tc.change(s)

		s.openSession()
		if tc.withoutReclaim {
			s.Run(s.allocate(), s.preempt())
		} else {
			s.Run(s.allocate(), s.reclaim(), s.preempt())
		}

		evicted, _, _ := strings.Cut(session.Names(s.In(api.Releasing)), "-")
		check.Equal(t, "job of the evicted pod", tc.wantJob, evicted)
		check.That(t, len(s.In(api.Releasing)) <= 1, "more than one pod is evicted")
	}
}

// newSceneOfHopelessPreemptors returns a scene with full nodes of 8 protected pods each, and jobs of high priority that
// no eviction helps. Job cheap has the only pod that may be evicted, and it has no card.
func newSceneOfHopelessPreemptors(nodes, jobs int) *scene {
	var text strings.Builder
	text.WriteString(`queue q quota={"A":100000} priority=20000 serviceType=training cpu=100000;`)
	for i := range nodes {
		fmt.Fprintf(&text, "node n%[1]d model=A cards=8; job t%[1]d queue=q min=8 running=n%[1]d*8 age=24h priorityClass=low groupPreemptable=false;", i)
	}
	for j := range jobs {
		fmt.Fprintf(&text, "job w%d queue=q min=1 pending=1 priorityClass=high;", j)
	}
	text.WriteString("job cheap queue=q min=1 running=n0 cards=0 priorityClass=low")
	return newInferenceAndTrainingScene(text.String())
}

// TestHopelessPreemptorsAreRemembered: 30 equal jobs of one pod wait on 20 nodes full of protected pods. The first
// session searches once, for all of them. While nothing changes, the search is repeated after 1 skipped session, then
// after 2.
func TestHopelessPreemptorsAreRemembered(t *testing.T) {
	s := newSceneOfHopelessPreemptors(20, 30)
	t.Cleanup(s.Close)
	s.startCache()

	preempt := s.preempt()
	var searches []int
	for range 5 {
		s.preempts.count = 0
		s.runPreemptAction(preempt)
		searches = append(searches, s.preempts.count)
	}
	check.Equal(t, "searches in each session", []int{1, 0, 1, 0, 0}, searches)
}

// TestAPodPreemptsInsideItsJobAfterASearchInOthers: Volcano first searches victims in other jobs, then in the
// pod's own job. No other job helps: full is protected and cheap has no card. The jobs x and y have a pending
// pod of higher task priority each: x-4 and y-4. Each takes the place of a running pod of its own job.
func TestAPodPreemptsInsideItsJobAfterASearchInOthers(t *testing.T) {
	pendingFirst := func(p *corev1.Pod) {
		if p.Spec.NodeName == "" {
			p.Annotations["volcano.sh/task-priority"] = "10"
		}
	}
	s, preempt := newPreemptScene(t, `
		queue q quota={"A":16} cpu=1000
		node n,m model=A cards=8
		job full queue=q min=1 running=m*8 priorityClass=low groupPreemptable=false
		job cheap queue=q min=1 running=n cards=0 priorityClass=low
		job x queue=q min=1 running=n*4 pending=1 priorityClass=high
		job y queue=q min=1 running=n*4 pending=1 priorityClass=high`, pendingFirst)

	s.runPreemptAction(preempt)
	check.Equal(t, "pods that wait for cards on a node", "x-4@n y-4@n", session.Names(s.In(api.Pipelined)))
}

// TestANominationWithoutEvictionsKeepsNoPodFromPreempting: Volcano wrote nominatedNodeName m to the pods of gang
// high when it tried node m in vain. No pod leaves node m for them, so they do not wait there, and preempt on
// node n. "low*2" are the pods low-0 and low-1, "high@n*2" are high-0 and high-1 on node n.
func TestANominationWithoutEvictionsKeepsNoPodFromPreempting(t *testing.T) {
	nominated := onJob("high", func(p *corev1.Pod) { p.Status.NominatedNodeName = "m" })
	s, preempt := newPreemptScene(t, `
		queue q quota=1000 cpu=1000
		node n,m model=A cards=2
		job low queue=q min=1 running=n*2 priorityClass=low
		job full queue=q min=2 running=m*2 priorityClass=high
		job high queue=q min=2 pending=2 priorityClass=high`, nominated)

	s.runPreemptAction(preempt).expectEvictedAndPlaced(t, "low*2", "high@n*2")
	// The session did see the nomination.
	check.Equal(t, "nominated node of the pod in Volcano's cache", "m", s.Task("high-0").Pod.Status.NominatedNodeName)
}

// TestAPodDoesNotWaitForEvictionsOfTheSameSession: the gang high needs a card of each node, and node n was nominated for
// high-1 in an earlier session. The session evicts the pod on node n for high-0. That must not let high-1 wait for node
// n: it preempts on node m, so both pods of the gang get a card.
func TestAPodDoesNotWaitForEvictionsOfTheSameSession(t *testing.T) {
	nominated := onPod("high-1", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" })
	s, preempt := newPreemptScene(t, `
		queue q quota=1000 cpu=1000
		node n,m model=A cards=1
		job low-n queue=q min=1 running=n priorityClass=low
		job low-m queue=q min=1 running=m priorityClass=low
		job high queue=q min=2 pending=2 priorityClass=high`, nominated)

	s.runPreemptAction(preempt).expectEvicted(t, "low-m-0 low-n-0")
	check.Equal(t, "pods of high that get a card", 2, s.countPlaced("high"))
}

// TestPreemptLeavesAGangItsKeptCards: 2 of the 6 cards of node k are free, and kept for a gang of inference that waits
// for 4. Job high of training may not take them. It preempts job low of its queue, for all the cards that it needs.
// Each row plays 5 sessions without the action cardreclaim, in which evicted pods end.
func TestPreemptLeavesAGangItsKeptCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		jobs                      string
		wantGone, wantPodsOfHigh  int
		isGangStarted, isKeptFree bool
	}{
		"high needs 2 cards: 2 pods are evicted": {jobs: `
			job low queue=q min=1 running=k*4 priorityClass=low
			job high queue=q min=1 pending=1 cards=2 priorityClass=high`, wantGone: 2, wantPodsOfHigh: 1, isKeptFree: true},
		"high has 2 pods of one card: 2 pods are evicted, one after the other": {jobs: `
			job low queue=q min=1 running=k*4 priorityClass=low
			job high queue=q min=1 pending=2 priorityClass=high`, wantGone: 2, wantPodsOfHigh: 2, isKeptFree: true},
		"low is a gang: all 4 are evicted, and the other 4 cards let the waiting gang start": {jobs: `
			job low queue=q min=4 running=k*4 priorityClass=low
			job high queue=q min=1 pending=1 cards=2 priorityClass=high`, wantGone: 4, wantPodsOfHigh: 1, isGangStarted: true},
		"high needs 5 cards, low has 4: none": {jobs: `
			job low queue=q min=1 running=k*4 priorityClass=low
			job high queue=q min=1 pending=1 cards=5 priorityClass=high`, isKeptFree: true},
		"low has the same priority as high: none": {jobs: `
			job low queue=q min=1 running=k*4 priorityClass=high
			job high queue=q min=1 pending=1 cards=2 priorityClass=high`, isKeptFree: true},
		"high is in the queue of the gang, with a higher priority: it takes the kept cards, and none is evicted": {jobs: `
			job low queue=q min=1 running=k*4 priorityClass=low
			job high queue=i min=1 pending=1 cards=2 priorityClass=high`, wantPodsOfHigh: 1},
	}) {
		s, preempt := newPreemptScene(t, `
			queue i quota={"A":20} priority=80000 serviceType=inference cpu=1000
			queue q quota={"A":20} priority=20000 serviceType=training cpu=1000
			node k model=A cards=6
			job gang queue=i min=4 pending=4 minCards=4`+tc.jobs)
		gone := 0
		for range 4 {
			s.openSession().Run(enqueue.New(), s.allocate(), preempt)
			gone += s.endEvicted() // they are gone, and placed pods run
		}

		s.openSession().Run(enqueue.New(), s.allocate(), preempt)
		podsWithNode := func(job string) int {
			return len(s.Job(job).TaskStatusIndex[api.Running]) + len(s.Job(job).TaskStatusIndex[api.Binding])
		}
		check.Equal(t, "evicted pods", tc.wantGone, gone)
		check.Equal(t, "pods of high with a node", tc.wantPodsOfHigh, podsWithNode("high"))
		check.Equal(t, "the gang has started", tc.isGangStarted, podsWithNode("gang") == 4)
		free := s.Ssn.Nodes["k"].Idle.Get(gpu)
		check.That(t, !tc.isKeptFree || free == 2000, "node k has %v free thousandths of a card, want the 2 kept cards", free)
	}
}
