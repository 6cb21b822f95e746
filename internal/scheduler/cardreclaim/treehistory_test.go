package cardreclaim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// TestSearchIsRepeatedAfterUseElsewhere: a search found nothing. Node m has too few cards for a
// pod of r, so the search did not look at it. A change there decides what may be evicted, or what
// an ancestor has left.
func TestSearchIsRepeatedAfterUseElsewhere(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		tree, text string
		change     func(w *scene)
		victims    string
	}{
		"another queue borrows on another node": {
			tree: "x quota=8 deserved=4; xa parent=x quota=8 deserved=2 serviceType=training; y quota=8 deserved=4; ya parent=y quota=8 deserved=4 serviceType=training", text: "node n model=A cards=4; node m model=A cards=1; job c queue=ya min=1 running=n*2 cards=2 age=1h; job d queue=ya min=1 pending=1 age=1h; job r queue=xa min=1 pending=1 cards=2",
			change: func(w *scene) { w.start("d-0", "m", hour) }, victims: "ya 1",
		},
		"another queue uses more than its guarantee on another node": {
			tree: "x quota=8 deserved=4; xa parent=x quota=8 deserved=2 serviceType=inference; y quota=8 deserved=5 guarantee=3; ya parent=y quota=8 deserved=5 guarantee=3 serviceType=training", text: "node n model=A cards=4; node m model=A cards=1; job c queue=ya min=1 running=n*2 cards=2 age=1h; job d queue=ya min=1 pending=1 age=1h; job r queue=xa min=1 pending=1 cards=2",
			change: func(w *scene) { w.start("d-0", "m", hour) }, victims: "ya 1",
		},
		"a sibling frees quota of the parent on another node": {
			tree: "x quota=3 deserved=3; xa parent=x quota=3 deserved=2 serviceType=training; xb parent=x quota=3 deserved=1 serviceType=training", text: "node n model=A cards=4; node m model=A cards=1; job b queue=xb min=1 running=n age=1h preemptable=false; job d queue=xb min=1 running=m age=1h preemptable=false; job r queue=xa min=1 pending=1 cards=2",
			change: func(w *scene) { w.Cache.DeletePod(w.Pod("d-0")) },
		},
		"what a parent deserves grows": {
			tree: "x quota=8 deserved=1; xa parent=x quota=8 deserved=1 serviceType=training; y quota=8 deserved=4; ya parent=y quota=8 deserved=4 serviceType=training", text: "node n model=A cards=8; job c queue=ya min=1 running=n*8 age=1h; job r queue=xa min=1 pending=1 cards=2",
			change: func(w *scene) {
				for _, queue := range []string{"x quota=8 deserved=4", "xa parent=x quota=8 deserved=2 serviceType=training"} {
					w.add(queueText(queue))
					w.Cache.AddQueueV1beta1(w.Queues[len(w.Queues)-1])
				}
			}, victims: "ya 2",
		},
	}) {
		// Job d waits until the test starts it.
		w := newTree(tc.tree, tc.text, onJob("d", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} }))
		w.alone = true
		for range 4 {
			w.runAction(t)
			check.That(t, w.evictedByQueue() == "" && len(w.In(api.Pipelined)) == 0, "%s are evicted and %s placed before the change", w.evictedByQueue(), session.Names(w.In(api.Pipelined)))
		}

		tc.change(w)
		w.runAction(t)
		check.Equal(t, "victims", tc.victims, w.evictedByQueue())
		check.Equal(t, "pods that are placed", "r-0@n", session.Names(append(w.In(api.Pipelined), w.In(api.Allocated)...)))
	}
}

// start lets a pending pod run on a node, since some time.
func (w *scene) start(name, node string, age time.Duration) {
	w.Update(name, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Status.Phase = corev1.PodRunning
		p.Status.StartTime = ptr.To(ago(age))
	})
}

// closeAndStart closes the session, and lets the pods run that it has placed, since some time. It returns these, and the pods that
// the session has evicted.
func (w *scene) closeAndStart(age time.Duration) (placed, evicted []*api.TaskInfo) {
	placed = append(w.In(api.Binding), w.In(api.Allocated)...)
	evicted = w.In(api.Releasing)
	w.Close()
	for _, task := range placed {
		w.start(task.Name, task.NodeName, age)
	}
	return placed, evicted
}

// TestReclaimedCardsAreNotBorrowedAgain: a gang of six is evicted for one pod. The gang does not
// borrow the cards that are left over, but a job within what the queue deserves starts.
func TestReclaimedCardsAreNotBorrowedAgain(t *testing.T) {
	w := newTree("x quota=8 deserved=4; xa parent=x quota=8 deserved=4 serviceType=training; y quota=8 deserved=4; ya parent=y quota=8 deserved=4 serviceType=training", "node n model=A cards=8; job c queue=ya min=6 running=n*6 age=1h; job b queue=xa min=1 running=n*2 age=1h; job r queue=xa min=1 pending=1; job small queue=ya min=2 pending=2")
	w.runAction(t)
	check.Equal(t, "victims", "ya 6", w.evictedByQueue())
	for range 3 {
		w.settle()
		w.runAction(t)
		check.Equal(t, "victims later", "", w.evictedByQueue())
	}
	for job, want := range map[string]int{"c": 0, "b": 2, "r": 1, "small": 2} {
		check.Equal(t, "pods of "+job+" that run", want, len(w.Job(job).TaskStatusIndex[api.Running]))
	}
}
