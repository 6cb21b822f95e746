package capacitycard

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/test/observer/sessioncheck"
)

// runSessions runs one session a minute and checks each by sessioncheck, whose violations it returns. The next
// session sees the PodGroup phases of the one before. It stops when the last PodGroup is enqueued, because no pod is
// ever bound.
func (s *scene) runSessions(minutes int, change func(minute int)) []sessioncheck.Violation {
	s.useClock()
	j := sessioncheck.New(sessioncheck.Options{})
	j.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, s.clock)
	for minute := range minutes {
		change(minute)
		for _, object := range s.Objects() {
			j.Apply(object, false, s.clock) // not deleted
		}

		s.Cache = nil // what a session places is not bound
		s.enqueueAndAllocate()
		for _, g := range s.Groups {
			g.Status.Phase = v1beta1.PodGroupPhase(s.Job(g.Name).PodGroup.Status.Phase)
		}

		s.Close()
		s.clock = s.clock.Add(time.Minute)
		j.AddReading(sessioncheck.Reading{Asked: s.clock, Answered: s.clock, Closed: minute, Decides: true})
		j.Check(s.clock)
		if s.Groups[len(s.Groups)-1].Status.Phase == v1beta1.PodGroupInqueue {
			break
		}
	}

	return j.TakeViolations()
}

// TestFutileReservationBlocksNoOtherJob: a gang was enqueued and reserves quota or cards until its pods are placed.
// If the gang cannot start, its reservation ends. Then job small, which needs one card and waits behind it, is enqueued
// (PodGroup phase Inqueue) within 20 sessions, one a minute. All that time sessioncheck, which knows the rules
// independently, finds no violation.
func TestFutileReservationBlocksNoOtherJob(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota, gang string
		change      func(s *scene, minute int) // before the session of each minute
	}{
		"the gang fits no node": {
			quota: `{"A":16}`, gang: "min=2 pending=2 cards=8",
			change: func(s *scene, _ int) {
				for _, p := range s.Pods[:2] {
					p.Spec.NodeSelector = map[string]string{"zone": "nowhere"}
				}
			},
		},
		"there are 8 cards for the first pod of the gang, and none for the second": {
			quota: `{"A":16}`, gang: "min=2 pending=2 cards=8",
			change: func(*scene, int) {},
		},
		"task head of the gang fits no node, and pods of task worker could use up the quota": {
			quota: `{"A":16}`, gang: "min=2 pending=4 cards=8 task=worker,pods:3,min:1 task=head,pods:1,min:1",
			change: func(s *scene, _ int) {
				s.Nodes = []*corev1.Node{session.Node("a", "A", 8), session.Node("b", "A", 8)}
				s.Pod("gang-3").Spec.NodeSelector = map[string]string{"zone": "nowhere"} // the head
			},
		},
		"the node has no cards for two minutes, then the quota is lowered to 2, below the 4 of the gang": {
			quota: `{"A":4}`, gang: "min=4 pending=4",
			change: func(s *scene, minute int) {
				s.Nodes[0] = session.Node("a", "A", 0)
				if minute >= 2 {
					s.Nodes[0] = session.Node("a", "A", 8)
					s.addObjects(`queue q quota={"A":2}`)
				}
			},
		},
		"2 pods of the gang run, then the quota is lowered to 3, below its minimum of 4": {
			quota: `{"A":4}`, gang: "min=4 running=a*2 pending=2",
			change: func(s *scene, minute int) {
				s.Nodes[0] = session.Node("a", "A", 2)
				if minute >= 2 {
					s.Nodes[0] = session.Node("a", "A", 8)
					s.addObjects(`queue q quota={"A":3}`)
				}
			},
		},
	}) {
		s := newScene(t, fmt.Sprintf(`node a model=A
			queue q quota=%s
			job gang queue=q %s minCards=0
			job small queue=q min=1 pending=1 minCards=1 phase=Pending`, tc.quota, tc.gang))

		check.Equal(t, "violations", nil, s.runSessions(20, func(minute int) { tc.change(s, minute) }), cmpopts.EquateEmpty())
		check.Equal(t, "phase of the job behind the gang", v1beta1.PodGroupInqueue, s.Groups[1].Status.Phase)
	}
}
