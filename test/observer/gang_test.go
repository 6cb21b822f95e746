package observer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// serve places a pod that waited, and lets everybody be late who can be.
func (s *script) serve(p *corev1.Pod) {
	p.Spec.NodeName = "h200-0"
	s.write(p)
	s.judge()
	s.wait(30 * time.Second)
	s.judge()
}

func TestTheRestOfAGangGoesAlong(t *testing.T) {
	for _, test := range []struct {
		name, gang string
		want       []Invariant
	}{
		{"a pod without cards goes with its gang", "g", nil},
		{"a job without cards goes for nobody", "h", []Invariant{Eviction}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := tide()
			p := comes(s, "p", "1")
			victim := runs(s, "g", 1, "a")[0]
			without := inGroup(member("b", "training", "0", 0), test.gang)
			without.Spec.NodeName = "h200-0"
			s.load(group("h", "training"), without)
			s.evict(without, "cardreclaim")
			s.evict(victim, "cardreclaim")
			s.serve(p)
			wantInvariants(t, s.machine.found, test.want...)
		})
	}
}

// Volcano's job controller deletes what cardreclaim has marked, one pod after
// the other, and each ends when it likes.
func TestAGangThatLeavesIsNotInPieces(t *testing.T) {
	s := tide()
	p := comes(s, "p", "1")
	gang := runs(s, "g", 3, "a", "b", "c")
	for _, victim := range gang {
		victim.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
		s.mark(victim, "cardreclaim")
	}
	s.remove(gang[0])
	s.serve(p)
	wantInvariants(t, s.machine.found)
	s.wait(time.Minute) // b and c have had their time and run on
	s.judge()
	s.wait(11 * time.Second)
	s.judge()
	wantInvariants(t, s.machine.found, Eviction)
}

func TestNoTaskIsLeftBelowItsMinimum(t *testing.T) {
	for _, test := range []struct {
		name           string
		leader, worker int32 // minAvailable of the tasks; the job's is 2
		want           []Invariant
	}{
		{"the leader is needed", 1, 1, []Invariant{Eviction}},
		{"two workers are enough", 0, 2, nil},
		{"the tasks' minima do not count when they exceed the job's", 1, 2, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := tide()
			p := comes(s, "p", "1")
			gang := runs(s, "g", 2, "leader", "worker-0", "worker-1")
			for i, task := range []string{"leader", "worker", "worker"} {
				gang[i].Annotations[batchv1alpha1.TaskSpecKey] = task
				s.write(gang[i])
			}
			g := group("g", "training")
			g.Spec.MinMember, g.Spec.MinTaskMember = 2, map[string]int32{"leader": test.leader, "worker": test.worker}
			s.write(g)
			s.evict(gang[0], "cardreclaim")
			s.serve(p)
			wantInvariants(t, s.machine.found, test.want...)
		})
	}
}
