package cardreclaim

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
)

// TestAFailedSearchIsRepeatedAfterAChangeOnOtherNodes: a search for victims that found none is not repeated
// while nothing changes that it looked at. Pod r-0 requests 2 cards, and node m, if there is one, has one
// card. So the search looks only at node n. But in a tree the use of a queue on any node decides what it has
// borrowed, and what its ancestors have left. Each row runs four sessions in which r-0 waits. Without a
// change the next search would be in the sixth session. Then the row changes something elsewhere, and r-0
// gets its cards in the fifth. wantVictims "ya 1" means one pod of queue ya.
func TestAFailedSearchIsRepeatedAfterAChangeOnOtherNodes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		scene       string
		change      func(s *scene)
		wantVictims string
	}{
		"y deserves 4 and uses 4, then a fifth on node m: y has borrowed one, so a pod of 2 cards is evicted": {
			scene: `
				queue x quota=8 deserved=4
				queue xa parent=x quota=8 deserved=2 serviceType=training
				queue y quota=8 deserved=4
				queue ya parent=y quota=8 deserved=4 serviceType=training
				node n model=A cards=4
				node m model=A cards=1
				job c queue=ya min=1 running=n*2 cards=2 age=1h
				job late queue=ya min=1 pending=1 age=1h
				job r queue=xa min=1 pending=1 cards=2`,
			change: func(s *scene) { s.start("late-0", "m", hour) }, wantVictims: "ya 1",
		},
		"inference reclaims; y has a guarantee of 3 and uses 4, then a fifth on node m: it may lose 2": {
			scene: `
				queue x quota=8 deserved=4
				queue xa parent=x quota=8 deserved=2 serviceType=inference
				queue y quota=8 deserved=5 guarantee=3
				queue ya parent=y quota=8 deserved=5 guarantee=3 serviceType=training
				node n model=A cards=4
				node m model=A cards=1
				job c queue=ya min=1 running=n*2 cards=2 age=1h
				job late queue=ya min=1 pending=1 age=1h
				job r queue=xa min=1 pending=1 cards=2`,
			change: func(s *scene) { s.start("late-0", "m", hour) }, wantVictims: "ya 1",
		},
		"x has a quota of 3, and its protected pods use 2, then the one on node m ends: 2 are left, and free on n": {
			scene: `
				queue x quota=3 deserved=3
				queue xa parent=x quota=3 deserved=2 serviceType=training
				queue xb parent=x quota=3 deserved=1 serviceType=training
				node n model=A cards=4
				node m model=A cards=1
				job b queue=xb min=1 running=n age=1h preemptable=false
				job ending queue=xb min=1 running=m age=1h preemptable=false
				job r queue=xa min=1 pending=1 cards=2`,
			change: func(s *scene) { s.Cache.DeletePod(s.Pod("ending-0")) },
		},
		"xa and its parent x deserve 1, then 2 and 4": {
			scene: `
				queue x quota=8 deserved=1
				queue xa parent=x quota=8 deserved=1 serviceType=training
				queue y quota=8 deserved=4
				queue ya parent=y quota=8 deserved=4 serviceType=training
				node n model=A cards=8
				job c queue=ya min=1 running=n*8 age=1h
				job r queue=xa min=1 pending=1 cards=2`,
			change: func(s *scene) {
				s.changeQueue("queue x quota=8 deserved=4")
				s.changeQueue("queue xa parent=x quota=8 deserved=2 serviceType=training")
			}, wantVictims: "ya 2",
		},
	}) {
		// Job late waits until the test starts it.
		s := newTree(tc.scene, onJob("late", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} }))
		s.withoutAllocate = true // cardreclaim itself places pods that need no eviction
		for range 4 {
			s.runSession(t).expectEvictedAndPlaced(t, "", "")
		}

		tc.change(s)
		s.runSession(t)
		check.Equal(t, "evicted pods by queue", tc.wantVictims, s.evictedByQueue())
		check.Equal(t, "placed pods", "r-0@n", session.Names(append(s.In(api.Pipelined), s.In(api.Allocated)...)))
	}
}

// TestEachNumberOfALevelRepeatsAFailedSearch: a search for 5 cards failed. If one of the numbers that say what the queue
// may use changes from 0 to 1, the search may succeed, so the hash changes. From 5 to 6 it changes nothing for 5 cards.
func TestEachNumberOfALevelRepeatsAFailedSearch(t *testing.T) {
	hashWith := func(field int, amount int64) uint64 {
		var may quota.MayUse
		reflect.ValueOf(&may).Elem().Field(field).SetInt(amount)
		return hashLevel("A", 0, may, 5)
	}

	for i := range reflect.TypeFor[quota.MayUse]().NumField() {
		check.That(t, hashWith(i, 0) != hashWith(i, 1), "field %d of quota.MayUse is not in the hash", i)
		check.Equal(t, fmt.Sprintf("hash of 5 and 6 in field %d", i), hashWith(i, 5), hashWith(i, 6))
	}
}

// start lets a pending pod run on a node, since some time.
func (s *scene) start(name, node string, age time.Duration) {
	s.Update(name, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Status.Phase = corev1.PodRunning
		p.Status.StartTime = ptr.To(ago(age))
	})
}

// closeAndStart closes the session, and lets the pods run that it has placed, since some time. It returns these, and
// the pods that the session has evicted.
func (s *scene) closeAndStart(age time.Duration) (placed, evicted []*api.TaskInfo) {
	placed = append(s.In(api.Binding), s.In(api.Allocated)...)
	evicted = s.In(api.Releasing)
	s.Close()
	for _, task := range placed {
		s.start(task.Name, task.NodeName, age)
	}
	return placed, evicted
}

// settle lets the cluster follow the session: pods that are placed run, and pods that are evicted
// come back as pending ones.
func (s *scene) settle() {
	_, evicted := s.closeAndStart(hour)
	for _, task := range evicted {
		pod := s.Pod(task.Name)
		s.Cache.DeletePod(pod.DeepCopy())
		pod.UID += types.UID("+")
		pod.Spec.NodeName = ""
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
		s.Cache.AddPod(pod.DeepCopy())
	}
}

// TestReclaimedCardsAreNotBorrowedAgain: queue ya deserves 4 cards and has borrowed 2 with its gang of 6. The
// gang is evicted for the one card that xa lacks, and waits again. After a reclaim ya may not borrow for some
// minutes. So its job small, of 2 pods, starts within what ya deserves. The gang does not, even when 6 cards are
// free for it. "gang*6" are the pods gang-0 to gang-5.
func TestReclaimedCardsAreNotBorrowedAgain(t *testing.T) {
	s := newTree(`
		queue x quota=8 deserved=4
		queue xa parent=x quota=8 deserved=4 serviceType=training
		queue y quota=8 deserved=4
		queue ya parent=y quota=8 deserved=4 serviceType=training
		node n model=A cards=8
		job gang queue=ya min=6 running=n*6 age=1h
		job running queue=xa min=1 running=n*2 age=1h
		job r queue=xa min=1 pending=1
		job small queue=ya min=2 pending=2`)
	s.runSession(t).expectEvicted(t, "gang*6")

	for range 3 {
		s.settle() // placed pods run, and evicted pods wait again
		s.runSession(t).expectEvicted(t, "")
	}

	for job, want := range map[string]int{"gang": 0, "running": 2, "r": 1, "small": 2} {
		check.Equal(t, fmt.Sprintf("running pods of %s", job), want, len(s.Job(job).TaskStatusIndex[api.Running]))
	}

	// The jobs r and small end, so 8 - 2 = 6 cards are free.
	s.settle()
	for _, ended := range slices.Concat(s.podsOf("r"), s.podsOf("small")) {
		s.Cache.DeletePod(ended)
	}
	s.runSession(t).expectBound(t, "")
}

// TestCardsThatWereNotReclaimedMayBeBorrowed: queue ya deserves 4 A and 4 B, and has borrowed one of each with job mixed,
// of which all pods but one are elastic. Job r lacks one A, so one pod of mixed with A is evicted. After that ya may not
// borrow A for some minutes. It may borrow B, of which it lost nothing: job late, which no node takes before, gets one of
// the 3 that are free on node m.
func TestCardsThatWereNotReclaimedMayBeBorrowed(t *testing.T) {
	s := newTree(`
		queue x quota=8 deserved=4
		queue xa parent=x quota=8 deserved=4 serviceType=training
		queue y quota=8 deserved=4
		queue ya parent=y quota=8 deserved=4 serviceType=training
		node n model=A cards=8
		node m model=B cards=8
		job mixed queue=ya min=1 running=n*5,m*5 card=A|B age=1h
		job running queue=xa min=1 running=n*3
		job r queue=xa min=1 pending=1
		job late queue=ya min=1 pending=1 card=B`, onJob("late", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} }))
	s.runSession(t)
	check.Equal(t, "evicted pods by queue", "ya 1", s.evictedByQueue())

	s.settle()
	s.Update("late-0", func(p *corev1.Pod) { p.Spec.NodeSelector = nil })
	s.runSession(t)
	check.Equal(t, "placed pods of late", 1, s.countPlaced("late"))
}
