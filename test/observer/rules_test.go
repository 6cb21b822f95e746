package observer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
)

func status(quota *v1alpha1.CardQuota, cards ...v1alpha1.CardStatus) *v1alpha1.CardQuota {
	quota.Status.Cards = cards
	return quota
}

func TestStatus(t *testing.T) {
	spec := v1alpha1.CardSpec{Name: h200, Quota: 2}
	idle := v1alpha1.CardStatus{Name: h200, Quota: 2, Free: 2, Physical: 8}
	one := v1alpha1.CardStatus{Name: h200, Quota: 2, Used: 1, Free: 1, Physical: 8}
	said := func(allocated string) *v1beta1.Queue {
		q := queue("q", `{"NVIDIA-H200":2}`)
		q.Annotations[v1alpha1.AnnotationCardAllocated] = allocated
		return q
	}
	for _, test := range []struct {
		name     string
		play     func(*script)
		want     []Invariant
		wantOpen int
	}{
		{"a right status is fine", func(s *script) {
			s.load(status(cardQuota("q", spec), idle))
			s.wait(time.Minute)
		}, nil, 0},
		{"a status may lag for five seconds", func(s *script) {
			s.load(status(cardQuota("q", spec), idle))
			s.place(pod("a", "1", h200), "h200-0")
			s.judge()
			s.wait(4 * time.Second)
		}, nil, 1},
		{"and no longer", func(s *script) {
			s.load(status(cardQuota("q", spec), idle))
			s.place(pod("a", "1", h200), "h200-0")
			s.judge()
			s.wait(5100 * time.Millisecond)
		}, []Invariant{Status}, 0},
		{"changes of other queues do not prolong the time", func(s *script) {
			s.load(status(cardQuota("q", spec), idle))
			s.place(pod("a", "1", h200), "h200-0")
			s.judge()
			s.wait(5100 * time.Millisecond)
			s.write(queue("other", "{}"))
		}, []Invariant{Status}, 0},
		{"numbers that moved and came back unseen have their whole time again", func(s *script) {
			s.load(status(cardQuota("q", spec), one))
			s.load(said(`{"NVIDIA-H200":1}`))
			p := pod("a", "1", h200)
			s.place(p, "h200-0")
			s.judge()
			s.wait(time.Minute)
			// Deleted, written to the status, and replaced within a moment.
			s.remove(p)
			s.write(status(cardQuota("q", spec), idle))
			s.write(said(`{}`))
			s.place(pod("b", "1", h200), "h200-0")
			s.wait(4 * time.Second)
		}, nil, 1},
		{"a status that came in time is fine", func(s *script) {
			s.load(status(cardQuota("q", spec), idle))
			s.place(pod("a", "1", h200), "h200-0")
			s.judge()
			s.write(status(cardQuota("q", spec), one))
			s.write(said(`{"NVIDIA-H200":1}`))
			s.wait(time.Minute)
		}, nil, 0},
		{"card.allocated is checked as well", func(s *script) {
			s.load(status(cardQuota("q", spec), idle))
			s.place(pod("a", "1", h200), "h200-0")
			s.judge()
			s.write(status(cardQuota("q", spec), one))
			s.wait(time.Minute)
		}, []Invariant{Status}, 0},
		{"zeros in card.allocated are right", func(s *script) {
			s.load(status(cardQuota("q", spec), idle))
			s.write(said(`{"NVIDIA-H200":0}`))
			s.wait(time.Minute)
		}, nil, 0},
		{"card.allocated is checked where no CardQuota stands behind it too", func(s *script) {
			s.write(said(`{"NVIDIA-H200":1}`))
			s.judge()
			s.wait(time.Minute)
		}, []Invariant{Status}, 0},
		{"and may lag there as well", func(s *script) {
			s.write(said(`{}`))
			s.judge()
			s.wait(time.Minute)
			s.place(pod("a", "1", h200), "h200-0")
			s.wait(4 * time.Second)
		}, nil, 1},
		{"and is checked while the CardQuota is being deleted", func(s *script) {
			quota := cardQuota("q", spec)
			now := metav1.NewTime(began)
			quota.DeletionTimestamp = &now
			s.load(quota)
			s.write(said(`{"NVIDIA-H200":1}`))
			s.judge()
			s.wait(time.Minute)
		}, []Invariant{Status}, 0},
		{"a Queue without a CardQuota need not have it", func(s *script) {
			s.place(pod("a", "1", h200), "h200-0")
			s.wait(time.Minute)
		}, nil, 0},
		{"CPU and memory are checked as well", func(s *script) {
			quota := status(cardQuota("q", spec), idle)
			quota.Status.CPU = &v1alpha1.ResourceStatus{Used: resource.MustParse("2")}
			quota.Status.Memory = &v1alpha1.ResourceStatus{Used: resource.MustParse("1Gi")}
			s.load(quota)
			p := pod("a", "", "")
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("2000m"), "memory": resource.MustParse("1024Mi")}
			s.place(p, "h200-0")
			s.wait(time.Minute)
			s.judge()
			if len(s.machine.found) > 0 {
				t.Errorf("right numbers give %v", s.machine.found)
			}
			p = p.DeepCopy()
			p.Name, p.UID = "b", "pod-b"
			s.write(p)
			s.judge()
			s.wait(6 * time.Second)
		}, []Invariant{Status}, 0},
		{"a card that the status leaves out is missed", func(s *script) {
			s.load(cardQuota("q", spec))
			s.judge()
			s.wait(time.Minute)
		}, []Invariant{Status}, 0},
		{"a waiting pod is pending under the first alternative with a quota", func(s *script) {
			waits := idle
			waits.Pending = 3
			s.load(status(cardQuota("q", spec), waits))
			s.write(unscheduled(pod("a", "3", rtx4090+"|"+h200), "no room"))
			s.wait(time.Minute)
		}, nil, 0},
		{"a job without pods is pending by its card.request", func(s *script) {
			waits := idle
			waits.Pending = 4
			s.load(status(cardQuota("q", spec), waits))
			g := group("g", "q")
			g.Annotations = map[string]string{v1alpha1.AnnotationCardRequest: `{"NVIDIA-H200":4}`}
			g.Status.Conditions = []v1beta1.PodGroupCondition{{Type: v1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Message: "no room"}}
			s.write(g)
			s.wait(time.Minute)
		}, nil, 0},
		{"use above a lowered quota is over it", func(s *script) {
			s.place(pod("a", "2", h200), "h200-0")
			s.write(said(`{"NVIDIA-H200":2}`))
			s.write(status(cardQuota("q", v1alpha1.CardSpec{Name: h200, Quota: 1}),
				v1alpha1.CardStatus{Name: h200, Quota: 1, Used: 2, OverQuotaBy: 1, Physical: 8}))
			s.wait(time.Minute)
		}, nil, 0},
		{"of two CardQuotas for one queue only the older is looked at", func(s *script) {
			s.load(status(cardQuota("q", spec), idle))
			late := cardQuota("late", v1alpha1.CardSpec{Name: h200, Quota: 7})
			late.Spec.QueueName, late.CreationTimestamp = "q", metav1.NewTime(began.Add(time.Second))
			s.load(late)
			s.wait(time.Minute)
		}, nil, 0},
		{"a CardQuota that is being deleted is not looked at", func(s *script) {
			quota := cardQuota("q", spec)
			now := metav1.NewTime(began)
			quota.DeletionTimestamp = &now
			s.load(quota)
			s.wait(time.Minute)
		}, nil, 0},
		{"a missing queue is missed", func(s *script) {
			s.load(cardQuota("nowhere"))
			s.judge()
			s.wait(time.Minute)
		}, []Invariant{Status}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript()
			test.play(s)
			open := s.judge()
			s.judge() // nothing is reported twice
			wantInvariants(t, s.machine.found, test.want...)
			if len(open) != test.wantOpen {
				t.Errorf("open %v, want %d", open, test.wantOpen)
			}
		})
	}
}

func TestReason(t *testing.T) {
	cards := map[string]string{v1alpha1.AnnotationCardRequest: `{"NVIDIA-H200":4}`}
	for _, test := range []struct {
		name string
		play func(*script)
		want []Invariant
	}{
		{"a pod may wait ten seconds without a word", func(s *script) {
			s.write(pod("a", "1", h200))
			s.wait(9 * time.Second)
		}, nil},
		{"and no longer", func(s *script) {
			s.write(pod("a", "1", h200))
			s.wait(11 * time.Second)
		}, []Invariant{Reason}},
		{"a message on the pod is a word", func(s *script) {
			s.write(unscheduled(pod("a", "1", h200), "no room"))
			s.wait(time.Minute)
		}, nil},
		{"an empty message is none", func(s *script) {
			s.write(unscheduled(pod("a", "1", h200), ""))
			s.wait(time.Minute)
		}, []Invariant{Reason}},
		{"a message on the PodGroup is a word", func(s *script) {
			g := group("g", "q")
			g.Status.Conditions = []v1beta1.PodGroupCondition{{Type: v1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Message: "no room"}}
			s.write(g)
			s.write(inGroup(pod("a", "1", h200), "g"))
			s.wait(time.Minute)
		}, nil},
		{"a gated pod does not wait", func(s *script) {
			p := pod("a", "1", h200)
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
			s.write(p)
			s.wait(time.Minute)
		}, nil},
		{"a pod waits from the moment its gate is lifted", func(s *script) {
			p := pod("a", "1", h200)
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
			s.write(p)
			s.wait(time.Minute)
			s.write(pod("a", "1", h200))
			s.wait(9 * time.Second)
		}, nil},
		{"another scheduler's pods are not looked at", func(s *script) {
			p := pod("a", "1", h200)
			p.Spec.SchedulerName = "default-scheduler"
			s.write(p)
			s.wait(time.Minute)
		}, nil},
		{"pods without cards are not looked at", func(s *script) {
			s.write(pod("a", "", ""))
			s.wait(time.Minute)
		}, nil},
		{"a PodGroup without pods must say why it waits", func(s *script) {
			g := group("g", "q")
			g.Annotations = cards
			s.write(g)
			s.judge()
			s.wait(11 * time.Second)
		}, []Invariant{Reason}},
		{"by minResources too", func(s *script) {
			g := group("g", "q")
			g.Spec.MinResources = &corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
			s.write(g)
			s.judge()
			s.wait(11 * time.Second)
		}, []Invariant{Reason}},
		{"a PodGroup with pods leaves it to them", func(s *script) {
			g := group("g", "q")
			g.Annotations = cards
			s.write(g)
			s.write(unscheduled(inGroup(pod("a", "1", h200), "g"), "no room"))
			s.judge()
			s.wait(time.Minute)
		}, nil},
		{"a running PodGroup does not wait", func(s *script) {
			g := group("g", "q")
			g.Annotations, g.Status.Phase = cards, v1beta1.PodGroupRunning
			s.write(g)
			s.judge()
			s.wait(time.Minute)
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript()
			test.play(s)
			s.judge()
			s.judge()
			wantInvariants(t, s.machine.found, test.want...)
		})
	}
}

func TestWhatConcernsOthersIsNotJudged(t *testing.T) {
	s := newScript()
	s.machine.options.Concerns = func(object string) bool { return object == "pod/test/mine" }
	s.place(pod("theirs", "3", h200), "h200-0")
	s.write(pod("silent", "1", h200))
	s.load(cardQuota("nowhere"))
	s.judge()
	s.wait(time.Minute)
	s.judge()
	wantInvariants(t, s.machine.found)
	s.place(pod("mine", "1", h200), "h200-0") // what others hold counts
	wantInvariants(t, s.machine.found, Quota)
}

func TestExcuse(t *testing.T) {
	s := newScript()
	s.machine.excuse(Reason, true, s.clock)
	s.write(pod("a", "1", h200))
	s.wait(time.Minute)
	s.judge()
	s.machine.excuse(Reason, false, s.clock)
	s.wait(9 * time.Second)
	s.judge()
	wantInvariants(t, s.machine.found)
	s.wait(2 * time.Second)
	s.judge()
	wantInvariants(t, s.machine.found, Reason)
}
