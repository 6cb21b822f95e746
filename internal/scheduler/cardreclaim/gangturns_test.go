package cardreclaim

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

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
// priority.
func TestJobsOfLowerPriorityDoNotBorrowFirst(t *testing.T) {
	w := newTree("x 8/4 training; y 8/4 training", "node n A 7; a x 1: n*4 ran=1h; hi x 2: -*2 class=high; lo x 1: - class=low; c y 1: -")
	w.openSession().Run(NewAllocate(w.action))
	t.Cleanup(w.Close)
	check.Equal(t, "bound", "c-0@n hi-0@n hi-1@n", session.Names(w.In(api.Binding)))
}
