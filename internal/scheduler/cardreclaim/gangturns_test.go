package cardreclaim

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
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
	w := newTree("x quota=8 deserved=4 serviceType=training", `queue q quota={"A":4,"B":4} deserved={"A":4,"B":0} cpu=1000 priority=20000 serviceType=training
		node n model=A cards=2; node m model=B cards=2; job old queue=x min=1 running=n age=1h; job j queue=q min=2 pending=3`, onCard("B", "j-2"), onPod("old-0", func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(time.Second)) })).runAllocate(t)
	check.Equal(t, "bound while a part of the minimum waits for a terminating pod", "", session.Names(w.In(api.Binding)))
}

// TestElasticPodsFollowInTheSecondRun: the first run binds the minimum of a gang, the second one the
// pods with which it borrows.
func TestElasticPodsFollowInTheSecondRun(t *testing.T) {
	w := newTree("x quota=8 deserved=4 serviceType=training; y quota=8 deserved=2 serviceType=training", `node n model=A cards=6; job j queue=y min=2 pending=4; job other queue=x min=1 running=n age=1h`).runAllocate(t)
	check.Equal(t, "bound", "j-0@n j-1@n j-2@n j-3@n", session.Names(w.In(api.Binding)))
}

// TestWaitingToBorrowDelaysNoOtherCard: a job that waits to borrow, or lacks CPU quota, does not delay a
// job of lower priority that its queue deserves with another card. So r does not borrow that card first.
func TestWaitingToBorrowDelaysNoOtherCard(t *testing.T) {
	for t, waits := range check.Cases(t, map[string]string{
		"no other job waits":           "",
		"one waits for another card":   "job hi queue=q min=1 pending=1 priorityClass=high",
		"one waits for CPU and memory": "job hi queue=q min=5 pending=5 priorityClass=high cards=0",
	}) {
		w := newTree("x quota=8 deserved=0 serviceType=training", `queue q quota={"A":8,"B":4} deserved={"A":2,"B":4} cpu=7 priority=20000 serviceType=training; queue r quota={"A":8,"B":8} deserved={"A":0,"B":0} cpu=1000 priority=20000 serviceType=training
			node n model=A cards=3; node m model=B cards=4; job run queue=q min=1 running=n*3 age=1h; job lo queue=q min=4 pending=4 card=B priorityClass=low; job other queue=r min=4 pending=4 card=B priorityClass=low;`+waits).runAllocate(t)
		bound := session.Names(w.In(api.Binding))
		check.That(t, strings.HasPrefix(bound, "lo-"), "the cards that q deserves go to %q", bound)
	}
}

// TestJobsOfLowerPriorityDoNotBorrowFirst: of the same card they still wait for the job of higher
// priority, also with a card that their queue deserves.
func TestJobsOfLowerPriorityDoNotBorrowFirst(t *testing.T) {
	for t, runs := range check.Cases(t, map[string]string{
		"all of them borrow":             "node n model=A cards=7; job a queue=x min=1 running=n*4 age=1h;",
		"a part of the gang is deserved": "node n model=A cards=6; job a queue=x min=1 running=n*3 age=1h;",
	}) {
		w := newTree("x quota=8 deserved=4 serviceType=training; y quota=8 deserved=4 serviceType=training", runs+"job hi queue=x min=2 pending=2 priorityClass=high; job lo queue=x min=1 pending=1 priorityClass=low; job c queue=y min=1 pending=1").runAllocate(t)
		check.Equal(t, "bound", "c-0@n hi-0@n hi-1@n", session.Names(w.In(api.Binding)))
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

// newChurn returns the churn of a queue that runs pods of job t.
func newChurn(w *scene, queue string) *churn {
	c := &churn{scene: w, queue: queue}
	for _, pod := range w.podsOf("t") {
		c.running = append(c.running, pod.Name)
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
		c.addToCache(fmt.Sprintf("job n%d queue=%s min=1 pending=1", s, c.queue))
		c.runChurnSession()
		evicted += len(c.In(api.Releasing))

		placed, _ := c.closeAndStart(time.Second)
		for _, task := range placed {
			switch {
			case task.Name == pod:
				return s, evicted
			case strings.HasPrefix(task.Name, "n"):
				c.running = append(c.running, task.Name)
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
		w              func() *scene
		queue          string
		withoutReclaim bool
		session        int
	}{
		"in a tree, during the minimum runtime": {func() *scene {
			return newTree("x quota=8 deserved=4 serviceType=training; y quota=8 deserved=4 serviceType=training", "node n model=A cards=8; job t queue=x min=1 running=n*8 age=1m; job g queue=y min=4 pending=4")
		}, "x", false, 3},
		"in a tree without reclaim": {func() *scene {
			return newTree("x quota=8 deserved=4 serviceType=training; y quota=8 deserved=4 serviceType=training", "node n model=A cards=8; job t queue=x min=1 running=n*8 age=1m; job g queue=y min=4 pending=4")
		}, "x", true, 3},
		"two pods of two cards": {func() *scene {
			return newTree("x quota=8 deserved=4 serviceType=training; y quota=8 deserved=4 serviceType=training", "node n model=A cards=8; job t queue=x min=1 running=n*8 age=1m; job g queue=y min=2 pending=2 cards=2")
		}, "x", false, 3},
		"inference, during the minimum runtime": {func() *scene {
			return newScene("node n model=A cards=8; job t queue=tra min=1 running=n*8 age=1m; job g queue=inf min=4 pending=4")
		}, "tra", false, 3},
		"inference without reclaim": {func() *scene {
			return newScene("node n model=A cards=8; job t queue=tra min=1 running=n*8 age=1m; job g queue=inf min=4 pending=4")
		}, "tra", true, 3},
		"training keeps nothing in flat queues": {func() *scene {
			return newScene("queue other quota=PLENTY priority=20000 serviceType=training cpu=1000; node n model=A cards=8; job t queue=tra min=1 running=n*8 age=1m; job g queue=other min=4 pending=4")
		}, "tra", false, -1},
		"training keeps nothing from inference": {func() *scene {
			return newScene("node n model=A cards=8; job t queue=inf min=1 running=n*8 age=1m; job g queue=tra min=4 pending=4")
		}, "inf", false, -1},
		"protected pods stay on its node": {func() *scene {
			return newScene("node n model=A cards=8; job p queue=tra min=1 running=n*5 preemptable=false; job t queue=tra min=1 running=n*3 age=1m; job g queue=inf min=1 pending=1 cards=4")
		}, "tra", false, -1},
	}) {
		w := tc.w()
		if w.args == nil {
			w.args = framework.Arguments{}
		}

		maps.Copy(w.args, protectFor("10m"))
		c := newChurn(w, tc.queue)
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
	for t, newCase := range check.Cases(t, map[string]func() *scene{
		"a borrower waits": func() *scene {
			return newTree("x quota=8 deserved=4 serviceType=training; y quota=8 deserved=4 serviceType=training", "node n model=A cards=8; job t queue=x min=1 running=n*6 age=24h; job u queue=x min=1 pending=2; job g queue=y min=4 pending=4")
		},
		"training waits": func() *scene {
			return newScene("node n model=A cards=8; job t queue=tra min=1 running=n*6 age=24h; job u queue=tra min=1 pending=2; job g queue=inf min=4 pending=4")
		},
	}) {
		w := newCase().runAction(t)

		check.Equal(t, "evicted pods", 2, len(w.In(api.Releasing)))
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
		w := newScene("node n model=A cards=8; job k queue=inf min=1 running=n*6 age=10m; job u queue=tra min=1 pending=1; job g queue=inf min=1 pending=1 cards=4", onJob("k", func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds = ptr.To(int64(tc.deadline.Seconds()))
		}))

		w.runAction(t)
		check.Equal(t, "bound", tc.bound, session.Names(w.In(api.Binding)))
	}
}

// TestAJobPreemptsBesideKeptCards: two free cards of node n are kept for a gang of inference, whose victims
// are protected for a time. A job of training gets none of them, so it preempts: the lowest priority, on either
// node.
func TestAJobPreemptsBesideKeptCards(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct{ jobs, goes, bound string }{
		"cards are kept, on the other node": {"job t queue=tra min=1 running=n*2 age=1m priorityClass=high; job lo queue=tra min=1 running=m age=1m priorityClass=low; job g queue=inf min=4 pending=4", "lo-0", ""},
		"cards are kept, on the same node":  {"job t queue=tra min=2 running=n*2 age=1m; job lo queue=tra min=1 running=m age=1m priorityClass=low; job g queue=inf min=4 pending=4", "t-0 t-1", ""},
		"no cards are kept":                 {"job t queue=tra min=2 running=n*2 age=1m; job lo queue=tra min=1 running=m age=1m priorityClass=low", "", "hi-0@n"},
	}) {
		w := newScene("node n model=A cards=4; node m model=A cards=1;" + tc.jobs + "; job hi queue=tra min=1 pending=1 priorityClass=high")
		w.args = protectFor("10m")
		w.startCache()
		w.openSession().Run(NewAllocate(w.action), w.action, NewPreempt(w.action))
		check.Equal(t, "evicted", tc.goes, strings.TrimSuffix(session.Names(w.In(api.Releasing)), "@m"))
		check.Equal(t, "bound", tc.bound, session.Names(w.In(api.Binding)))

		w.Close()
	}
}
