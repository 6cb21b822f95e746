package cardreclaim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// onCard sets the card that some pods name.
func onCard(name string, pods ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, pod := range pods {
			if p.Name == pod {
				p.Annotations["volcano.sh/card.name"] = name
			}
		}
	}
}

// TestNoPartOfAGangIsBoundByTheSecondRun: a gang of two gets one idle A, and an A that a terminating
// pod still has. The B with which it borrows must not complete its minimum.
func TestNoPartOfAGangIsBoundByTheSecondRun(t *testing.T) {
	deleted := ago(time.Second)
	w := newTree("x 8/4 training", `queue q {"A":4,"B":4} deserved={"A":4,"B":0} cpu=1000 20000 training
		node n A 2; node m B 2; old x 1: n ran=1h; j q 2: -*3`, onCard("B", "j-2"), onPod("old-0", func(p *corev1.Pod) { p.DeletionTimestamp = &deleted }))
	w.openSession().Run(NewAllocate(w.action))
	t.Cleanup(w.Close)
	check.Equal(t, "bound while a part of the minimum waits for a terminating pod", "", session.Names(w.In(api.Binding)))
}

// TestElasticPodsFollowInTheSecondRun: the first run binds the minimum of a gang, the second one the
// pods with which it borrows.
func TestElasticPodsFollowInTheSecondRun(t *testing.T) {
	w := newTree("x 8/4 training; y 8/2 training", `node n A 6; j y 2: -*4; other x 1: n ran=1h`)
	w.openSession().Run(NewAllocate(w.action))
	t.Cleanup(w.Close)
	check.Equal(t, "bound", "j-0@n j-1@n j-2@n j-3@n", session.Names(w.In(api.Binding)))
}

// TestWaitingToBorrowDelaysNoOtherCard: a job that waits to borrow, or lacks CPU quota, does not delay a
// job of lower priority that its queue deserves with another card. So r does not borrow that card first.
func TestWaitingToBorrowDelaysNoOtherCard(t *testing.T) {
	for t, waits := range check.Cases(t, map[string]string{
		"no other job waits":           "",
		"one waits for another card":   "hi q 1: - class=high",
		"one waits for CPU and memory": "hi q 5: -*5 class=high cards=0",
	}) {
		w := newTree("x 8/0 training", `queue q {"A":8,"B":4} deserved={"A":2,"B":4} cpu=7 20000 training; queue r {"A":8,"B":8} deserved={"A":0,"B":0} cpu=1000 20000 training
			node n A 3; node m B 4; run q 1: n*3 ran=1h; lo q 4: -*4 card=B class=low; other r 4: -*4 card=B class=low;`+waits)

		w.openSession().Run(NewAllocate(w.action))
		bound := session.Names(w.In(api.Binding))
		check.That(t, strings.HasPrefix(bound, "lo-"), "the cards that q deserves go to %q", bound)
		w.Close()
	}
}

// TestJobsOfLowerPriorityDoNotBorrowFirst: of the same card they still wait for the job of higher
// priority, also with a card that their queue deserves.
func TestJobsOfLowerPriorityDoNotBorrowFirst(t *testing.T) {
	for t, runs := range check.Cases(t, map[string]string{
		"all of them borrow":             "node n A 7; a x 1: n*4 ran=1h;",
		"a part of the gang is deserved": "node n A 6; a x 1: n*3 ran=1h;",
	}) {
		w := newTree("x 8/4 training; y 8/4 training", runs+"hi x 2: -*2 class=high; lo x 1: - class=low; c y 1: -")
		w.openSession().Run(NewAllocate(w.action))
		check.Equal(t, "bound", "c-0@n hi-0@n hi-1@n", session.Names(w.In(api.Binding)))
		w.Close()
	}
}

// churn is a queue whose jobs of one card end one by one, while new ones come.
type churn struct {
	*world
	queue string
	// running are its pods, the oldest first.
	running []string
	// started is how many of its jobs have started.
	started int
	// withoutReclaim leaves the action cardreclaim out, as spec.reclaim: Off does.
	withoutReclaim bool
}

// newChurn returns the churn of a queue that runs pods of job t.
func newChurn(w *world, queue string, pods int) *churn {
	c := &churn{world: w, queue: queue}
	for i := range pods {
		c.running = append(c.running, fmt.Sprintf("t-%d", i))
	}
	w.startCache()
	return c
}

// runUntilStarted runs sessions, a second apart, until a pod is bound. In each of them the oldest pod of the queue
// has ended and a new job has come. It returns the number of the session, -1 for none, and how many pods were
// evicted.
func (c *churn) runUntilStarted(pod string, sessions int) (session, evicted int) {
	for s := range sessions {
		c.Close()
		c.Cache.DeletePod(c.Pod(c.running[0]).DeepCopy())
		c.running = c.running[1:]
		c.add(fmt.Sprintf("n%d %s 1: -", s, c.queue))
		c.Cache.AddPodGroupV1beta1(c.Groups[len(c.Groups)-1])
		c.Cache.AddPod(c.Pods[len(c.Pods)-1].DeepCopy())
		c.runChurnSession()
		evicted += len(c.In(api.Releasing))

		placed := c.bindPlaced()
		if placed[pod] {
			return s, evicted
		}

		for name := range placed {
			if strings.HasPrefix(name, "n") {
				c.running = append(c.running, name)
				c.started++
			}
		}
	}
	return -1, evicted
}

func (c *churn) runChurnSession() {
	if c.withoutReclaim {
		c.openSession().Run(NewAllocate(c.action))
	} else {
		c.openSession().executeActions()
	}
}

// bindPlaced lets the pods run that the session has placed, and returns their names.
func (c *churn) bindPlaced() map[string]bool {
	placed := map[string]string{}
	for _, task := range c.In(api.Binding) {
		placed[task.Name] = task.NodeName
	}

	c.Close()
	names := map[string]bool{}
	start := ago(time.Second)
	for name, node := range placed {
		names[name] = true
		c.Update(name, func(p *corev1.Pod) {
			p.Spec.NodeName = node
			p.Status.Phase = corev1.PodRunning
			p.Status.StartTime = &start
		})
	}

	return names
}

// protectFor returns arguments in which training runs for a time before it is reclaimed.
func protectFor(minimumRuntime string) framework.Arguments {
	return framework.Arguments{"serviceTypes": map[string]any{
		"inference": map[string]any{"reclaimFrom": []any{"training"}}, "training": map[string]any{"reclaimable": true, "minimumRuntime": minimumRuntime}}}
}

// TestGangStartsBesideShortJobs: a gang of four waits. Pods from which it may take cards are never old
// enough for that, or are not evicted at all. Each card that becomes free is kept for it, so it starts when
// four pods have ended.
func TestGangStartsBesideShortJobs(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		w              func() *world
		queue          string
		withoutReclaim bool
		session        int
	}{
		"in a tree, during the minimum runtime": {func() *world {
			return newTree("x 8/4 training; y 8/4 training", "node n A 8; t x 1: n*8 ran=1m; g y 4: -*4")
		}, "x", false, 3},
		"in a tree without reclaim": {func() *world {
			return newTree("x 8/4 training; y 8/4 training", "node n A 8; t x 1: n*8 ran=1m; g y 4: -*4")
		}, "x", true, 3},
		"two pods of two cards": {func() *world {
			return newTree("x 8/4 training; y 8/4 training", "node n A 8; t x 1: n*8 ran=1m; g y 2: -*2 cards=2")
		}, "x", false, 3},
		"inference, during the minimum runtime": {func() *world { return newWorld("node n A 8; t tra 1: n*8 ran=1m; g inf 4: -*4") }, "tra", false, 3},
		"inference without reclaim":             {func() *world { return newWorld("node n A 8; t tra 1: n*8 ran=1m; g inf 4: -*4") }, "tra", true, 3},
		"training keeps nothing in flat queues": {func() *world {
			return newWorld("queue other PLENTY 20000 training cpu=1000; node n A 8; t tra 1: n*8 ran=1m; g other 4: -*4")
		}, "tra", false, -1},
		"training keeps nothing from inference": {func() *world { return newWorld("node n A 8; t inf 1: n*8 ran=1m; g tra 4: -*4") }, "inf", false, -1},
		"protected pods stay on its node": {func() *world {
			return newWorld("node n A 8; p tra 1: n*5 protected; t tra 1: n*3 ran=1m; g inf 1: - cards=4")
		}, "tra", false, -1},
	}) {
		w := tc.w()
		protect := protectFor("10m")
		if w.args == nil {
			w.args = framework.Arguments{}
		}
		w.args["serviceTypes"] = protect["serviceTypes"]

		pods := 0
		for _, pod := range w.Pods {
			if strings.HasPrefix(pod.Name, "t-") {
				pods++
			}
		}

		c := newChurn(w, tc.queue, pods)
		c.withoutReclaim = tc.withoutReclaim
		session, evicted := c.runUntilStarted("g-0", 20)
		check.Equal(t, "the session in which the gang starts", tc.session, session)
		check.Equal(t, "evicted pods", 0, evicted)
		if tc.session < 0 {
			check.Equal(t, "short jobs that started", 20, c.started)
		}

		w.Close()
	}
}

// TestIdleCardsAreNotLentBeforeReclaim: two cards are idle, and a gang of four lacks two. They are not
// given to pods from which cardreclaim would take them back a moment later.
func TestIdleCardsAreNotLentBeforeReclaim(t *testing.T) {
	for t, newCase := range check.Cases(t, map[string]func() *world{
		"a borrower waits": func() *world {
			return newTree("x 8/4 training; y 8/4 training", "node n A 8; t x 1: n*6 ran=24h; u x 1: -*2; g y 4: -*4")
		},
		"training waits": func() *world { return newWorld("node n A 8; t tra 1: n*6 ran=24h; u tra 1: -*2; g inf 4: -*4") },
	}) {
		w := newCase().runAction(t)
		check.Equal(t, "evicted pods", 2, len(w.In(api.Releasing)))
		w.Close()
	}
}

// TestCardsAreKeptWherePodsEndSoon: cards are also kept on a node whose pods the gang may not take, but that
// end by their activeDeadlineSeconds within the hour. They are not kept where pods end later.
func TestCardsAreKeptWherePodsEndSoon(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		deadline time.Duration
		bound    string
	}{
		"within the hour": {65 * time.Minute, ""},
		"later":           {75 * time.Minute, "u-0@n"},
	}) {
		w := newWorld("node n A 8; k inf 1: n*6 ran=10m; u tra 1: -; g inf 1: - cards=4", onJob("k", func(p *corev1.Pod) {
			seconds := int64(tc.deadline.Seconds())
			p.Spec.ActiveDeadlineSeconds = &seconds
		}))

		w.openSession().executeActions()
		check.Equal(t, "bound", tc.bound, session.Names(w.In(api.Binding)))
		w.Close()
	}
}

// TestAJobPreemptsBesideKeptCards: two free cards of node n are kept for a gang of inference, whose victims
// are protected for a time. A job of training gets none of them, so it preempts: the lowest priority, on either
// node.
func TestAJobPreemptsBesideKeptCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ jobs, goes, bound string }{
		"cards are kept, on the other node": {"t tra 1: n*2 ran=1m class=high; lo tra 1: m ran=1m class=low; g inf 4: -*4", "lo-0", ""},
		"cards are kept, on the same node":  {"t tra 2: n*2 ran=1m; lo tra 1: m ran=1m class=low; g inf 4: -*4", "t-0 t-1", ""},
		"no cards are kept":                 {"t tra 2: n*2 ran=1m; lo tra 1: m ran=1m class=low", "", "hi-0@n"},
	}) {
		w := newWorld("node n A 4; node m A 1;" + tc.jobs + "; hi tra 1: - class=high")
		w.args = protectFor("10m")
		w.startCache()
		w.openSession().Run(NewAllocate(w.action), w.action, NewPreempt(w.action))
		check.Equal(t, "evicted", tc.goes, strings.TrimSuffix(session.Names(w.In(api.Releasing)), "@m"))
		check.Equal(t, "bound", tc.bound, session.Names(w.In(api.Binding)))

		w.Close()
	}
}
