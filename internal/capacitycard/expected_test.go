package capacitycard

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/testing/session"
	"cardquota.dev/operator/test/observer/expected"
	"cardquota.dev/operator/test/observer/judge"
)

// watched plays a scene, one session a minute, under the eyes of the judge: of what
// a session decides the next one sees the phases of PodGroups. It returns what the
// judge found.
func (s *scene) watched(minutes int, change func(minute int)) []judge.Violation {
	clock := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	s.m.now = func() time.Time { return clock }
	j := judge.New(judge.Options{})
	j.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, clock)
	for minute := range minutes {
		change(minute)
		for _, object := range s.Objects() {
			j.Take(object, false, clock)
		}
		s.Cache = nil // nobody binds what a session places
		s.run()
		for _, g := range s.Groups {
			g.Status.Phase = v1beta1.PodGroupPhase(s.Job(g.Name).PodGroup.Status.Phase)
		}
		s.Close()
		clock = clock.Add(time.Minute)
		j.Hear(judge.Reading{Asked: clock, Answered: clock, Closed: minute, Decides: true})
		j.Judge(clock)
	}
	return j.Found()
}

// gangAndSmall are a gang that was enqueued and a job of one card behind it.
func gangAndSmall(t *testing.T, quota, gang string) *scene {
	return newScene(t, "node a A; queue q "+quota+"; gang q "+gang+" least=0; small q 1: - least=1 phase=Pending", func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{} })
}

func TestExpectedViolations(t *testing.T) {
	t.Run("a gang that fits only partly", func(t *testing.T) {
		s := gangAndSmall(t, `{"A":16}`, "2: -*2 cards=8")
		expected.Check(t, "a gang that fits only partly keeps its reservation for ever", s.watched(20, func(int) {}))
	})
	t.Run("a gang above a lowered quota", func(t *testing.T) {
		s := gangAndSmall(t, `{"A":4}`, "4: -*4")
		expected.Check(t, "a gang above a lowered quota keeps its reservation for ever", s.watched(20, func(minute int) {
			s.Nodes[0] = session.Node("a", "A", 0) // no node for either yet
			if minute >= 2 {
				s.Nodes[0] = session.Node("a", "A", 8)
				s.add(`queue q {"A":2}`)
			}
		}))
	})
}

// TestAReservationThatEndsIsNoViolation: where no pod of the gang fits, the job
// behind it is enqueued after five minutes, and the judge has nothing to say.
func TestAReservationThatEndsIsNoViolation(t *testing.T) {
	s := gangAndSmall(t, `{"A":16}`, "2: -*2 cards=8")
	for _, p := range s.Pods[:2] {
		p.Spec.NodeSelector = map[string]string{"zone": "nowhere"}
	}
	found := s.watched(8, func(int) {})
	check.That(t, len(found) == 0, "found %v", found)
	check.Equal(t, "the job behind the gang", v1beta1.PodGroupInqueue, s.Groups[1].Status.Phase)
}
