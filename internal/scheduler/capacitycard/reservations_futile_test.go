package capacitycard

import (
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

// runSessions runs one session a minute under sessioncheck. The next session sees the PodGroup
// phases of the previous one. It ends when the last PodGroup is enqueued, since its pods are
// not bound, and returns the violations.
func (s *scene) runSessions(minutes int, change func(minute int)) []sessioncheck.Violation {
	s.useClock()
	j := sessioncheck.New(sessioncheck.Options{})
	j.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, s.clock)
	for minute := range minutes {
		change(minute)
		for _, object := range s.Objects() {
			j.Apply(object, false, s.clock)
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

// gangAndSmall are a gang that was enqueued and a job of one card behind it.
func gangAndSmall(t *testing.T, quota, gang string) *scene {
	return newScene(t, "node a model=A; queue q quota="+quota+"; job gang queue=q "+gang+" minCards=0; job small queue=q min=1 pending=1 minCards=1 phase=Pending", func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{} })
}

// TestFutileReservationBlocksNoOtherJob: the job behind a gang that cannot start
// is enqueued, and the judge has nothing to say.
func TestFutileReservationBlocksNoOtherJob(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		quota, gang string
		change      func(s *scene, minute int)
	}{
		"no pod of the gang fits": {`{"A":16}`, "min=2 pending=2 cards=8", func(s *scene, _ int) {
			for _, p := range s.Pods[:2] {
				p.Spec.NodeSelector = map[string]string{"zone": "nowhere"}
			}
		}},
		"a part of the gang fits": {`{"A":16}`, "min=2 pending=2 cards=8", func(*scene, int) {}},
		"a part fits, and spare pods of it use up the quota": {`{"A":16}`, "min=2 pending=4 cards=8 task=worker,pods:3,min:1 task=head,pods:1,min:1", func(s *scene, _ int) {
			s.Nodes = []*corev1.Node{session.Node("a", "A", 8), session.Node("b", "A", 8)}
			s.Pod("gang-3").Spec.NodeSelector = map[string]string{"zone": "nowhere"}
		}},
		"the quota was lowered below the gang": {`{"A":4}`, "min=4 pending=4", func(s *scene, minute int) {
			s.Nodes[0] = session.Node("a", "A", 0) // no node for either yet
			if minute >= 2 {
				s.Nodes[0] = session.Node("a", "A", 8)
				s.addObjects(`queue q quota={"A":2}`)
			}
		}},
		"the quota was lowered below the gang while a part of it runs": {`{"A":4}`, "min=4 running=a*2 pending=2", func(s *scene, minute int) {
			s.Nodes[0] = session.Node("a", "A", 2)
			if minute >= 2 {
				s.Nodes[0] = session.Node("a", "A", 8)
				s.addObjects(`queue q quota={"A":3}`)
			}
		}},
	}) {
		s := gangAndSmall(t, tc.quota, tc.gang)

		check.Equal(t, "violations", nil, s.runSessions(20, func(minute int) { tc.change(s, minute) }), cmpopts.EquateEmpty())
		check.Equal(t, "the job behind the gang", v1beta1.PodGroupInqueue, s.Groups[1].Status.Phase)
	}
}
