package cardreclaim

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// TestNoPartOfAGangIsBoundByTheSecondRun: in a tree allocate runs twice, first for deserved cards, then for borrowed
// ones. Queue q deserves 4 cards A and no card B. Its gang needs two pods: gang-0 gets the idle card A, gang-1 waits for
// the card A of a terminating pod. The pod gang-2 could borrow a card B, but must not start the gang in place of gang-1.
// So no pod is bound.
func TestNoPartOfAGangIsBoundByTheSecondRun(t *testing.T) {
	s := newTree(`
		queue x quota=8 deserved=4 serviceType=training
		queue q quota={"A":4,"B":4} deserved={"A":4,"B":0} cpu=1000 priority=20000 serviceType=training
		node n model=A cards=2
		node m model=B cards=2
		job terminating queue=x min=1 running=n age=1h
		job gang queue=q min=2 pending=3`,
		onPod("gang-2", requestingCard("B")), onPod("terminating-0", terminatingSince(time.Second))).runAllocate(t)

	s.expectBound(t, "")
}

// TestElasticPodsFollowInTheSecondRun: in a tree allocate runs twice, first for deserved cards, then for
// borrowed ones. Queue y deserves 2 cards. The first run binds the minimum of the gang, 2 pods, and the second
// run the 2 pods with which y borrows. "gang@n*4" are the pods gang-0 to gang-3 on node n.
func TestElasticPodsFollowInTheSecondRun(t *testing.T) {
	s := newTree(`
		queue x quota=8 deserved=4 serviceType=training
		queue y quota=8 deserved=2 serviceType=training
		node n model=A cards=6
		job other queue=x min=1 running=n age=1h
		job gang queue=y min=2 pending=4`).runAllocate(t)

	s.expectBound(t, "gang@n*4")
}

// TestAJobThatWaitsToBorrowDelaysNoOtherCard: queue q deserves 2 cards A and 4 cards B. It uses 3 cards A already, so
// it borrows one. Its gang "deserving" gets the 4 cards B, although another job of q with higher priority waits
// for something else: to borrow card A, or for CPU. Each pod requests one core, and q has a limit of 7: 3 + 4
// for the gang. So queue r, which deserves nothing, does not borrow the cards B first. "deserving@m*4" are the
// pods deserving-0 to deserving-3 on node m.
func TestAJobThatWaitsToBorrowDelaysNoOtherCard(t *testing.T) {
	for t, waiting := range check.Cases(t, map[string]string{
		"no job of higher priority waits":                        "",
		"a job of higher priority waits to borrow card A":        "job high queue=q min=1 pending=1 priorityClass=high",
		"5 pods of higher priority, without cards, wait for CPU": "job high queue=q min=5 pending=5 priorityClass=high cards=0",
	}) {
		s := newTree(`
			queue q quota={"A":8,"B":4} deserved={"A":2,"B":4} cpu=7 priority=20000 serviceType=training
			queue r quota={"A":8,"B":8} deserved={"A":0,"B":0} cpu=1000 priority=20000 serviceType=training
			node n model=A cards=3
			node m model=B cards=4
			job running queue=q min=1 running=n*3 age=1h
			job deserving queue=q min=4 pending=4 card=B priorityClass=low
			job borrower queue=r min=4 pending=4 card=B priorityClass=low
			` + waiting).runAllocate(t)

		s.expectBound(t, "deserving@m*4")
	}
}

// TestJobsOfLowerPriorityDoNotBorrowFirst: in a queue the job of higher priority borrows before one of lower
// priority. That is true even if the latter could use a card that the queue deserves. Queues x and y deserve 4
// cards each. 3 cards are free: one for y, and two for the gang "high" of x, so that nothing is left for job
// "low" of x. "high@n*2" are the pods high-0 and high-1 on node n.
func TestJobsOfLowerPriorityDoNotBorrowFirst(t *testing.T) {
	for t, running := range check.Cases(t, map[string]string{
		"x uses the 4 cards that it deserves, so both pods of the gang borrow": `
			node n model=A cards=7
			job running queue=x min=1 running=n*4 age=1h`,
		"x uses 3 of the 4 cards that it deserves, so one pod of the gang borrows": `
			node n model=A cards=6
			job running queue=x min=1 running=n*3 age=1h`,
	}) {
		s := newTree(`
			queue x quota=8 deserved=4 serviceType=training
			queue y quota=8 deserved=4 serviceType=training
			job high queue=x min=2 pending=2 priorityClass=high
			job low queue=x min=1 pending=1 priorityClass=low
			job deserving queue=y min=1 pending=1` + running).runAllocate(t)

		s.expectBound(t, "deserving-0@n high@n*2")
	}
}

// churn is a queue whose jobs of one card end one by one, while new ones come.
type churn struct {
	*scene
	queue string
	// running are its pods, the oldest first.
	running []string
	// started is how many of its jobs have started.
	started int
	// withoutReclaim leaves the action cardreclaim out, as spec.reclaim: Off does.
	withoutReclaim bool
}

// newChurn returns the churn of a queue that runs the pods of job short.
func newChurn(s *scene, queue string) *churn {
	c := &churn{scene: s, queue: queue}
	for _, pod := range s.podsOf("short") {
		c.running = append(c.running, pod.Name)
	}
	s.startCache()
	return c
}

// runUntilStarted runs sessions, a second apart, until a pod is bound. In each of them the oldest pod of the queue
// has ended and a new job has come. It returns the number of the session from one, 0 for none, and how many pods were
// evicted.
func (c *churn) runUntilStarted(pod string, sessions int) (session, evicted int) {
	for i := range sessions {
		c.Close()
		c.Cache.DeletePod(c.Pod(c.running[0]).DeepCopy())
		c.running = c.running[1:]
		c.addToCache(fmt.Sprintf("job new%d queue=%s min=1 pending=1", i, c.queue))
		c.runChurnSession()

		placed, gone := c.closeAndStart(time.Second)
		evicted += len(gone)
		for _, task := range placed {
			switch {
			case task.Name == pod:
				return i + 1, evicted
			case strings.HasPrefix(task.Name, "new"):
				c.running = append(c.running, task.Name)
				c.started++
			}
		}
	}
	return 0, evicted
}

func (c *churn) runChurnSession() {
	if c.withoutReclaim {
		c.openSession().Run(c.allocate())
	} else {
		c.openSession().runActions()
	}
}

// minimumRuntimeOfTraining returns arguments in which training runs for a time before it is reclaimed.
func minimumRuntimeOfTraining(least string) framework.Arguments {
	return framework.Arguments{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}}, "training": map[string]any{"reclaimable": true, "minimumRuntime": least}}}
}

// churnCase is a scene in which the pods of job short end one by one, and job gang waits. The queues are those of
// newInferenceAndTrainingScene, or a tree of the text.
type churnCase struct {
	isTree         bool
	withoutReclaim bool
	queueOfShort   string
	scene          string
}

// expectGangStart runs up to 20 sessions until the gang starts: in a session, or in none for 0. No pod is evicted.
func (tc *churnCase) expectGangStart(t *testing.T, wantSession int) *churn {
	newScene := newInferenceAndTrainingScene
	if tc.isTree {
		newScene = newTree
	}

	s := newScene(tc.scene)
	arguments := minimumRuntimeOfTraining("10m")
	maps.Copy(arguments, s.arguments)
	s.arguments = arguments
	t.Cleanup(s.Close)

	c := newChurn(s, tc.queueOfShort)
	c.withoutReclaim = tc.withoutReclaim
	session, evicted := c.runUntilStarted("gang-0", 20)
	check.Equal(t, "the session in which the gang starts", wantSession, session)
	check.Equal(t, "evicted pods", 0, evicted)
	return c
}

// TestGangStartsBesideShortJobs: a gang needs 4 cards of node n at once, and may reclaim them. All 8 are in use
// by pods of one card. Before each session one of them ends, and a new job comes for its card. The pods have not
// reached the minimum runtime of 10 minutes, so none is evicted. But each free card is kept for the gang, so it
// starts in the fourth session. It also does so without the action cardreclaim (spec.reclaim: Off).
func TestGangStartsBesideShortJobs(t *testing.T) {
	const tree = `
		queue x quota=8 deserved=4 serviceType=training
		queue y quota=8 deserved=4 serviceType=training
		node n model=A cards=8
		job short queue=x min=1 running=n*8 age=1m
	`
	const flat = `
		node n model=A cards=8
		job short queue=training min=1 running=n*8 age=1m
		job gang queue=inference min=4 pending=4
	`

	for t, tc := range check.Cases(t, map[string]churnCase{
		"a tree: the gang's queue deserves 4": {isTree: true, queueOfShort: "x", scene: tree + "job gang queue=y min=4 pending=4"},
		"a tree, without cardreclaim": {
			isTree: true, withoutReclaim: true, queueOfShort: "x", scene: tree + "job gang queue=y min=4 pending=4"},
		"a tree, the gang has two pods of two cards": {isTree: true, queueOfShort: "x", scene: tree + "job gang queue=y min=2 pending=2 cards=2"},
		"flat queues: the gang is of inference":      {queueOfShort: "training", scene: flat},
		"flat queues, without cardreclaim":           {withoutReclaim: true, queueOfShort: "training", scene: flat},
	}) {
		tc.expectGangStart(t, 4) // in the fourth session
	}
}

// TestGangStartsNotWhereNoCardIsKept: cards are kept only for jobs that may reclaim them, and only on nodes where enough
// of them can become free. Else they would idle. One of the short jobs ends before each of 20 sessions, and each time
// the new short job gets its card.
func TestGangStartsNotWhereNoCardIsKept(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]churnCase{
		"training does not reclaim from training of lower priority": {queueOfShort: "training", scene: `
			queue other quota=1000 priority=30000 serviceType=training cpu=1000
			node n model=A cards=8
			job short queue=training min=1 running=n*8 age=1m
			job gang queue=other min=4 pending=4`},
		"training does not reclaim from inference": {queueOfShort: "inference", scene: `
			node n model=A cards=8
			job short queue=inference min=1 running=n*8 age=1m
			job gang queue=training min=4 pending=4`},
		"5 of 8 pods are protected, and the waiting pod needs 4 cards": {queueOfShort: "training", scene: `
			node n model=A cards=8
			job protected queue=training min=1 running=n*5 preemptable=false
			job short queue=training min=1 running=n*3 age=1m
			job gang queue=inference min=1 pending=1 cards=4`},
	}) {
		c := tc.expectGangStart(t, 0) // in none of the 20 sessions

		check.Equal(t, "short jobs that started", 20, c.started)
	}
}

// TestIdleCardsAreNotLentBeforeReclaim: 6 of 8 cards are in use, and a gang of 4 lacks 2. Job late waits as
// well. It does not get the 2 idle cards, because cardreclaim would evict its pods a moment later. So the gang
// uses the 2 idle cards, and only 2 running pods are evicted. "gang@n*4" are the pods gang-0 to gang-3 on node
// n.
func TestIdleCardsAreNotLentBeforeReclaim(t *testing.T) {
	t.Run("a tree: late would borrow", func(t *testing.T) {
		s := newTree(`
			queue x quota=8 deserved=4 serviceType=training
			queue y quota=8 deserved=4 serviceType=training
			node n model=A cards=8
			job running queue=x min=1 running=n*6 age=24h
			job late queue=x min=1 pending=2
			job gang queue=y min=4 pending=4`).runSession(t)
		s.expectEvictedAndPlaced(t, "running-0 running-1", "gang@n*4")
	})

	t.Run("flat queues: late is of training", func(t *testing.T) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=8
			job running queue=training min=1 running=n*6 age=24h
			job late queue=training min=1 pending=2
			job gang queue=inference min=4 pending=4`).runSession(t)
		s.expectEvictedAndPlaced(t, "running-0 running-1", "gang@n*4")
	})
}

// TestCardsAreKeptWherePodsEndSoon: a pod of 4 cards waits. 2 of 8 cards are free. Job ending of inference uses 6, and
// the waiting pod may not reclaim from inference. The pods of job ending have run for 10 minutes, and end by their
// activeDeadlineSeconds. If they end within the next hour, the free cards are kept for the waiting pod. Otherwise the
// training pod gets one.
func TestCardsAreKeptWherePodsEndSoon(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		deadline  time.Duration
		wantBound string
	}{
		"65 minutes after the start, so in 55 minutes: kept":     {65 * time.Minute, ""},
		"75 minutes after the start, so in 65 minutes: not kept": {75 * time.Minute, "small-0@n"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=8
			job ending queue=inference min=1 running=n*6 age=10m
			job small queue=training min=1 pending=1
			job waiting queue=inference min=1 pending=1 cards=4`,
			onJob("ending", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(tc.deadline.Seconds())) }))

		s.runSession(t).expectBound(t, tc.wantBound)
	}
}

// TestAJobPreemptsBesideKeptCards: the action preempt evicts pods of lower priority of the own queue. Node n has 4
// cards, 2 of them free. They are kept for a gang of inference that waits for 4: the training pods there have run for
// one minute of their minimum runtime of 10, which protects them from reclaim, not from preempt. So job high of
// training gets none of the free cards, and preempts a job of lower priority, on either node.
func TestAJobPreemptsBesideKeptCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ jobs, wantEvicted, wantBound string }{
		"low has the lowest priority, on the other node m: low is preempted": {`
			job t queue=training min=1 running=n*2 age=1m priorityClass=high
			job low queue=training min=1 running=m age=1m priorityClass=low
			job gang queue=inference min=4 pending=4`, "low-0", ""},
		"t has no PriorityClass, so the lowest priority, on node n with the kept cards: t, a gang of 2, is preempted": {`
			job t queue=training min=2 running=n*2 age=1m
			job low queue=training min=1 running=m age=1m priorityClass=low
			job gang queue=inference min=4 pending=4`, "t-0 t-1", ""},
		"no gang waits, so no cards are kept, and high gets a free card": {`
			job t queue=training min=2 running=n*2 age=1m
			job low queue=training min=1 running=m age=1m priorityClass=low`, "", "high-0@n"},
	}) {
		s := newInferenceAndTrainingScene(`
			node n model=A cards=4
			node m model=A cards=1
			job high queue=training min=1 pending=1 priorityClass=high` + tc.jobs)
		s.arguments = minimumRuntimeOfTraining("10m")
		s.startCache()
		t.Cleanup(s.Close)

		s.openSession().Run(s.allocate(), s.reclaim(), s.preempt())
		s.expectEvicted(t, tc.wantEvicted)
		s.expectBound(t, tc.wantBound)
	}
}
